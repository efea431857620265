#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the code objects of `tlxc build` for gfx942 or gfx950, of every kernel in kernels/, on an emulator of the CDNA instruction set that is not
ours, and compares with NumPy and with our simulator. Needs NumPy, a built tlxc, and an emulator, which is not part of this repository:

  --emulator FILE.py (or TLX_CDNA_EMULATOR): a Python file with

      run(path, kernel, grid, block, args)

  which loads the code object `path` and runs `kernel` on grid = (x, y, z) workgroups of block = (x, y, z) threads. `args` is the list of
  what the kernel's parameters hold, each a pair (value, size in bytes), to be laid out by natural alignment; an address is a pair (address, 8)
  in this process, a float its bits. It returns when the grid is done and raises on what it cannot execute. A few lines make one from the emulator
  of tinygrad (test/mockgpu/amd/emu.py, run_asm): load the ELF segments, read the kernel descriptor, fill the kernel arguments.

The cases, with their data and what is right, are in cdna_cases.py. Outputs and the gaps between rows hold NaN before, and the gaps must after;
each buffer ends at a page that may not be touched (rounded up to 16 bytes), and the bytes before it, and between its end and that page, must not
change, nor may inputs.

A case is `ok`, or `WRONG`, or `LIMIT`: it fails on the emulator, is marked in the list of cases with one of LIMITS, has in its code what that limit
is about, touched nothing that it should not (unless that limit may reach any address), and is right on our simulator. Exit code 1 if any is WRONG.

  bench/emulate_cdna.py --target gfx942|gfx950 --emulator FILE.py [--filter TEXT] [--jobs N] [--list] [--markdown] [--no-barriers]"""
import argparse
import concurrent.futures
import ctypes
import importlib.util
import json
import mmap
import os
import pathlib
import re
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from cdna_cases import GRID_STRIDE, KERNELS, LAST, Tensor, cases, cdiv, decode, encode

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAVE = 64
GUARD = 0xA5
S_BARRIER, S_NOP = 0xBF8A0000, 0xBF800000

# What the emulator of tinygrad (2026-08-22) is known to do wrong or to refuse: key: (what the code object has then, whether it may reach any address,
# why the failure is not ours). bench/results/*-emulator*.md have the evidence. Cases name the keys.
HIGH = r"v(12[89]|1[3-9]\d|2\d\d)"
LIMITS = {
    "acc": (r"v_mfma_\w+ \S+ (a\[|\S+ a\[)|\bds_write\w* v\d+, a", False,
            "A or B of a matrix instruction, or what an LDS store stores, in accumulation registers: the vector register of that number is read"),
    "halves": (rf"v_cvt_f16_f32_e32 {HIGH},|v_cvt_f32_f16_e32 \w+, {HIGH}", True,
               "f16 in vector registers from 128 on, e32 encoding: taken for the upper half of the register 128 below, as on RDNA 3"),
    "xf32": (r"v_mfma_\w+_xf32", False, "v_mfma_f32_16x16x8_xf32: its operands are taken for packed f16"),
    "fnuz": (r"v_mfma_f32_\w+_(fp8|bf8)\b", False, "8-bit floats of gfx942 are FNUZ; they are taken for OCP, which is twice the value"),
    "i8": (r"v_mfma_i32_", False, "integer matrix instructions: the C that the emulator makes of them does not compile"),
    "f64": (r"v_mfma_f64_", False, "v_mfma_f64 is not implemented: its operands are taken for packed f16"),
}

# --- memory with a page behind it that may not be touched

class Guarded:
    def __init__(self, content):
        page = mmap.PAGESIZE
        self.nbytes, self.rounded = content.nbytes, cdiv(content.nbytes, 16) * 16
        self.total = cdiv(self.rounded, page) * page + page
        self.map = mmap.mmap(-1, self.total)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.view = np.frombuffer(self.map, np.uint8, self.total - page)
        self.view[:] = GUARD
        self.start = self.total - page - self.rounded
        self.address = base + self.start
        self.view[self.start:self.start + self.nbytes] = content.view(np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(base + self.total - page), ctypes.c_size_t(page), 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def content(self, dtype):
        return self.view[self.start:self.start + self.nbytes].view(dtype)

    def intact(self):
        return bool((self.view[:self.start] == GUARD).all() and (self.view[self.start + self.nbytes:] == GUARD).all())


# --- one case

def tlxc(options, *words):
    done = subprocess.run([options.tlxc, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"tlxc {words[0]}: exit {done.returncode}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done.stdout


def judge(stored, dtype, expected):
    """(right, text): how far one output is from what it should be."""
    got, want = decode(stored, dtype), expected.value
    if expected.error is None:
        wrong = ~(got == want)
        text = f"{int(wrong.sum())} of {wrong.size} wrong, first at {np.argwhere(wrong)[0].tolist()}" if wrong.any() else "exact"
        return not wrong.any(), text
    last, least = LAST[dtype]
    error = np.abs(got - want)
    allowed = expected.error + np.maximum(np.abs(want) + expected.error, least) * last
    right = bool((error <= allowed).all())  # false for a NaN
    text = f"{float((error / allowed).max()):.2f} of the bound"
    rms = float(np.sqrt((error**2).sum() / (want**2).sum()))
    if expected.rms is not None:
        right = right and rms <= expected.rms
    return right, f"rms {rms:.1e}, {text}"


def compiled(case, options, work, row):
    """The code object, its metadata and the words of the compile; fills the columns that describe it."""
    file = KERNELS / case.file if case.file else work / "kernel.tlx"
    if not case.file:
        file.write_text(GRID_STRIDE)
    words = [file, "--kernel", case.kernel, "--target", options.target, "--no-cache"]
    for name, value in case.params.items():
        words += ["-D", f"{name}={value}"]
    for fact in case.facts:
        words += ["--assume", fact]
    hsaco = work / "kernel.hsaco"
    tlxc(options, "build", *words, "-o", hsaco)
    if options.no_barriers:
        image = hsaco.read_bytes()
        code = np.frombuffer(image, np.uint32, len(image) // 4).copy()
        code[code == S_BARRIER] = S_NOP
        hsaco.write_bytes(code.tobytes() + image[4 * len(code):])
    meta = json.loads(tlxc(options, "build", *words, "--emit", "json"))
    asm = tlxc(options, "build", *words, "--emit", "asm")
    row["registers"], row["lds"], row["hidden"] = meta["resources"]["registers"], meta["shared_bytes"], len(meta["hidden"])
    row["mfma"], row["direct"] = len(re.findall(r"\bv_mfma_", asm)), len(re.findall(r"\bbuffer_load_dword.* lds\b", asm))
    if large := len(re.findall(r"\bv_mfma_\w+_32x32x", asm)):
        row["mfma"] = f"{row['mfma']} ({large} 32x32)"
    widest = {kind: max([4 * int(n or 1) if not short else 2 for n, short in re.findall(
        rf"\b(?:global|buffer)_{kind}_(?:dword(?:x(\d))?|(ushort|short)\w*)", asm)] or [0]) for kind in ("load", "store")}
    row["bytes"] = f"{widest['load']}/{widest['store']}"
    row["limits"] = [key for key, (code, _, _) in LIMITS.items() if re.search(code, asm) and (key != "fnuz" or options.target == "gfx942")]
    return hsaco, meta, words


def simulate(case, options, work, compile_words):
    """What our simulator makes of the same data, by output."""
    words = ["--grid", ",".join(map(str, case.grid))]
    for name, value in case.arguments.items():
        if not isinstance(value, Tensor):
            words += ["--arg", f"{name}={value!r}"]
            continue
        strides = "" if value.dense else ":stride=" + ",".join(map(str, value.strides))
        spec = f"{name}={value.dtype}[{','.join(map(str, value.shape))}{strides}]"
        if value.values is None:
            words += ["--out", f"{name}={work / name}.out.npy"]
        else:
            np.save(work / f"{name}.npy", encode(np.ascontiguousarray(value.values), value.dtype))
            spec += f"=@{work / name}.npy"
        words += ["--arg", spec]
    tlxc(options, "run", *compile_words, "--device", "sim", *words)
    return {name: np.load(work / f"{name}.out.npy") for name, tensor in case.tensors.items() if tensor.values is None}


def parameters(case, meta, buffers):
    """The pairs (value, size) of the kernel's parameters in memory, checked to lie where natural alignment puts them."""
    fields = []
    for arg in meta["args"]:
        value, at = case.arguments[arg["name"]], arg["offset"]
        if arg["kind"] == "scalar":
            bits = struct.unpack("<I", struct.pack("<f", value))[0] if arg["type"] == "f32" else value
            fields.append((at, bits, arg["size"]))
        elif arg["kind"] == "pointer":
            fields.append((at, buffers[arg["name"]].address, 8))
        else:
            form = arg["descriptor"]
            if form["form"] != "fields":
                raise RuntimeError(f"a descriptor in the form '{form['form']}'")
            fields.append((at, buffers[arg["name"]].address, 8))
            fields += [(offset, extent, 4) for offset, extent in zip(form["shape_offsets"], value.shape, strict=True)]
            fields += [(offset, stride, 8) for offset, stride in zip(form["stride_offsets"], value.strides[:-1], strict=True)]
    fields += [(arg["offset"], case.grid["xyz".index(arg["kind"][-1])], arg["size"]) for arg in meta["hidden"]]
    end = 0
    for at, _, size in sorted(fields):
        end = cdiv(end, size) * size
        if at != end:
            raise RuntimeError(f"the metadata puts a parameter at {at}, natural alignment at {end}")
        end += size
    if end != meta["param_bytes"]:
        raise RuntimeError(f"parameters take {end} bytes, the metadata says {meta['param_bytes']}")
    return [(value, size) for _, value, size in sorted(fields)]


def load_emulator(path):
    spec = importlib.util.spec_from_file_location("cdna_emulator", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def damages(case, images, buffers):
    """What was written that should not have been."""
    outputs = [name for name, tensor in case.tensors.items() if tensor.values is None]
    found = ["WROTE OUTSIDE"] if not all(buffer.intact() for buffer in buffers.values()) else []
    if any(buffers[name].content(np.uint8).tobytes() != images[name].tobytes() for name in buffers if name not in outputs):
        found.append("CHANGED AN INPUT")
    if not all(case.tensors[name].gaps_intact(buffers[name].content(case.tensors[name].type)) for name in outputs):
        found.append("WROTE BETWEEN ROWS")
    return found


def run_case(case, options, row, before_emulator):
    """Fills the row of the table. Calls `before_emulator` when it holds all but the emulator's part, which may end the process."""
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        hsaco, meta, words = compiled(case, options, work, row)
        expected = case.expected()

        simulated = simulate(case, options, work, words)
        verdicts = {name: judge(stored, case.tensors[name].dtype, expected[name]) for name, stored in simulated.items()}
        row["simulator"] = texts(verdicts)
        row["simulator ok"] = all(right for right, _ in verdicts.values())

        images = {name: tensor.image() for name, tensor in case.tensors.items()}
        buffers = {name: Guarded(image) for name, image in images.items()}
        before_emulator()
        start = time.time()
        try:
            block = (WAVE * meta["num_warps"], 1, 1)
            load_emulator(options.emulator).run(str(hsaco), meta["symbol"], case.grid, block, parameters(case, meta, buffers))
        except Exception as error:
            row["emulator"] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            row["clean"] = not damages(case, images, buffers)
            return
        row["seconds"] = round(time.time() - start, 1)
        results = {name: case.tensors[name].elements(buffers[name].content(case.tensors[name].type)) for name in expected}
        verdicts = {name: judge(stored, case.tensors[name].dtype, expected[name]) for name, stored in results.items()}
        same = all(results[name].tobytes() == simulated[name].tobytes() for name in expected)
        inexact = any(e.error is not None for e in expected.values())
        damage = damages(case, images, buffers)
        row["emulator"] = ", ".join([texts(verdicts)] + (["bits of the simulator"] if same and inexact else []) + damage)
        row["clean"] = not damage
        row["right"] = all(right for right, _ in verdicts.values())


def texts(verdicts):
    return "; ".join((f"{name}: " if len(verdicts) > 1 else "") + text for name, (_, text) in verdicts.items())


# --- many cases

def serve(options):
    """A worker: reads names of cases, writes their rows. What the emulator prints goes to stderr."""
    reply = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    known = {case.name: case for case in cases(options.target)}
    for line in sys.stdin:
        row = {}
        send = lambda: print(json.dumps(row), file=reply, flush=True)
        try:
            run_case(known[line.rstrip("\n")], options, row, send)
        except Exception as error:
            row["emulator" if "simulator" in row else "simulator"] = f"{type(error).__name__}: {error}"
        row["done"] = True
        send()


class Worker:
    """A process that runs cases one after the other, because the emulator translates each kind of instruction once a process, which takes most of
    its time. After a case that is not ok there is a new one."""

    def __init__(self, options):
        self.options, self.process = options, None

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def start(self):
        options = self.options
        words = [sys.executable, __file__, "--target", options.target, "--emulator", options.emulator, "--tlxc", options.tlxc, "--worker"]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(words + (["--no-barriers"] if options.no_barriers else []), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log)

    def line(self, end):
        """The next line of the worker; b"" if it died, None if `end` came."""
        text = b""
        while not text.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(0, end - time.time()))[0]:
                return None
            if not (more := os.read(self.process.stdout.fileno(), 1 << 16)):
                return b""
            text += more
        return text.splitlines()[-1]

    def run(self, case):
        if not self.process or self.process.poll() is not None:
            self.start()
        self.process.stdin.write(case.name.encode() + b"\n")
        self.process.stdin.flush()
        row, end = {}, time.time() + self.options.timeout
        while not row.get("done"):
            if line := self.line(end):
                row = json.loads(line)
            elif line is None:
                row.update(emulator=f"no end within {self.options.timeout} s", done=True)
            else:
                code = self.process.wait()
                self.log.seek(0)
                row.update(emulator=f"died, exit {code}: {(self.log.read().strip().splitlines() or ['no message'])[-1]}", done=True)
        row["case"], row["state"] = case.name, verdict(case, row, self.options)
        if row["state"] != "ok":
            self.end()
        return row


def verdict(case, row, options):
    if all(row.get(key) for key in ("right", "clean", "simulator ok")):
        return "ok"
    present = row.get("limits", [])
    mine = [key for key in case.limits if key in present]
    if mine and row.get("simulator ok") and (row.get("clean") or any(LIMITS[key][1] for key in mine)) and not options.no_barriers:
        return "LIMIT " + " ".join(mine)
    if present:  # the code of a case may change and come to have what the emulator cannot do
        row["emulator"] = f"{row.get('emulator', 'not run')} (has, and is not marked with: {' '.join(present)})"
    return "WRONG"


def run_all(chosen, options):
    """The rows, in order. Each thread has its own worker."""
    own, workers = threading.local(), []

    def one(case):
        if not hasattr(own, "worker"):
            own.worker = Worker(options)
            workers.append(own.worker)
        return own.worker.run(case)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        yield from pool.map(one, chosen)
    for worker in workers:
        worker.end()


COLUMNS = ("case", "emulator", "simulator", "registers", "lds", "mfma", "direct", "bytes", "hidden", "seconds")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("gfx942", "gfx950"), required=True)
    parser.add_argument("--emulator", default=os.environ.get("TLX_CDNA_EMULATOR"), help="the Python file with run()")
    parser.add_argument("--tlxc", default=str(ROOT / "build" / "tlxc"))
    parser.add_argument("--filter", default="", help="only cases whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=int, default=600, help="seconds for one case")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    parser.add_argument("--no-barriers", action="store_true",
                        help="a check of the check: every s_barrier becomes s_nop, and the cases that use shared memory must fail")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = [case for case in cases(options.target) if re.search(options.filter, case.name)]
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if not options.emulator:
        parser.error("give an emulator with --emulator or TLX_CDNA_EMULATOR; see --help for what it has to offer")
    if options.worker:
        serve(options)
        return 0
    rows = []
    if options.markdown:
        print("| | " + " | ".join(COLUMNS) + " |\n|---|" + "---|" * len(COLUMNS))
    for row in run_all(chosen, options):
        rows.append(row)
        words = [row["state"]] + [str(row.get(column, "")) for column in COLUMNS]
        print("| " + " | ".join(words) + " |" if options.markdown else "  ".join(words), flush=True)
    states = [row["state"].split()[0] for row in rows]
    print(f"\n{states.count('ok')} of {len(rows)} right, {states.count('LIMIT')} known limits of the emulator, {states.count('WRONG')} wrong")
    for key in sorted({key for row in rows if row["state"].startswith("LIMIT") for key in row["state"].split()[1:]}):
        print(f"  {key}: {LIMITS[key][2]}")
    return 1 if "WRONG" in states else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile times without a GPU, beside Triton in the same run. Prints Markdown tables; bench/results keeps them.

  whole process   start to exit of `tlxc build` with no cache, and of a Python that imports Triton and compiles with an empty cache
  to PTX          inside a process, no ptxas: the first compile and the later ones
  to machine code the same with ptxas, later ones: what a program that compiles many kernels pays for each
  ptxas           its share of a compile in a fresh process
  simulator       `tlxc run --device sim`: compile, the host's code, one launch, process included

Each repetition measures every contender once, in random order, each in a process of its own; tables give the median (min - max).
Both sides use the same ptxas, the same tile, warps and stages, and the same facts (Triton's ":16"); the loads of the matrix product are
masked along K on both (`matmul` has tensor descriptors here and masked pointers in Triton, as in its tutorial 03; attention has
descriptors on both sides and sequences of whole blocks). The kernels of tasks stand beside those of TLX's tutorials, compiled by its fork of
Triton (--tlx-python; PyPI: fbtriton). Without the Pythons only ours is measured, without a ptxas only up to PTX.
Interrupted, it reports the repetitions that are complete."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import tlxlib

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = tlxlib.ROOT / "kernels"

# Name here and in triton_compile.py: file, kernel, parameters, arguments that Triton's specialisation knows to be divisible by 16.
ATTENTION = {"D": 128, "BM": 128, "BN": 128, "STAGES": 2, "WARPS": 8, "T": "f16", "EVEN": "true"}
CASES = {
    "matmul": ("matmul.tlx", "matmul", {"BM": 128, "BN": 256, "BK": 64, "STAGES": 3, "WARPS": 8, "T": "f16"}, [], ["M", "N", "K"]),
    "attention": ("attention.tlx", "attention", ATTENTION, ["lse"], ["seq"]),
    "attention_causal": ("attention.tlx", "attention", {**ATTENTION, "CAUSAL": "true"}, ["lse"], ["seq"]),
    "matmul_pointers": ("matmul_pointers.tlx", "matmul_pointers", {"BM": 128, "BN": 256, "BK": 64, "STAGES": 3, "WARPS": 8, "T": "f16"},
                        ["a", "b", "c"], ["M", "N", "K", "lda", "ldb", "ldc"]),
    "gemm_ws": ("gemm_ws.tlx", "gemm_ws", {"BM": 128, "BN": 256, "BK": 64, "STAGES": 3, "T": "f16"}, [], ["M", "N", "K"]),
    "attention_ws": ("attention_ws.tlx", "attention_ws",
                     {"D": 128, "BM": 128, "BN": 128, "CONSUMERS": 2, "STAGES": 2, "REGISTERS": 240, "T": "f16", "EVEN": "true"}, ["lse"],
                     ["seq"]),
    "vector_add": ("vector_add.tlx", "vector_add", {"BLOCK": 1024, "WARPS": 4}, ["x", "y", "out"], ["n"]),
    "softmax": ("softmax.tlx", "softmax", {"BLOCK": 4096, "T": "bf16", "WARPS": 4}, ["x", "y"], ["cols", "stride"]),
}
# What is measured: kernel and target, inside a process as well or only as a whole one.
TASKS = ("gemm_ws", "attention_ws")
INSIDE = [("matmul", "sm_90a"), ("attention", "sm_90a"), ("attention_causal", "sm_90a"), ("gemm_ws", "sm_90a"), ("attention_ws", "sm_90a"),
          ("matmul_pointers", "sm_90a"), ("matmul_pointers", "sm_80")]
WHOLE = INSIDE + [("softmax", "sm_90a"), ("vector_add", "sm_90a")]
LATER = 3  # compiles after the first one, in the same process


def facts_of(case):
    return [f"aligned({a}, 16)" for a in case[3]] + [f"{a} % 16 == 0" for a in case[4]]


class Failed(Exception):
    pass


def process(command, environment=None):
    """Runs a process to its end: seconds from start to exit, processor seconds of it and its children, what it printed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        try:
            child = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, **(environment or {})})
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from error
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        texts = out.read().decode(), err.read().decode()
    if child.returncode:
        raise Failed(f"{pathlib.Path(command[0]).name}: status {child.returncode}\n{texts[1][-2000:]}")
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime}, *texts


def stage_table(pairs):
    """Stages in order; a name that comes twice is numbered. Indented ones are part of the stage that follows."""
    stages = {}
    for name, seconds in pairs:
        stages[name if name not in stages else name + " 2"] = seconds
    return stages


class Ours:
    name = "tlxjit"

    def __init__(self, options):
        self.build, self.ptxas, self.scratch = options.build, options.ptxas, options.scratch

    def whole(self, case_name, target):
        case = CASES[case_name]
        command = [self.build / "tlxc", "build", KERNELS / case[0], "--kernel", case[1], "--target", target, "--no-cache", "--time-passes",
                   "-o", self.scratch / "out.bin"]
        command += ["--assembler", "ptxas", "--ptxas", self.ptxas] if self.ptxas else ["--assembler", "driver"]
        for p, v in case[2].items():
            command += ["-D", f"{p}={v}"]
        for f in facts_of(case):
            command += ["--assume", f]
        sample, _, report = process([str(c) for c in command])
        lines = [line.split(" ms  ") for line in report.splitlines() if " ms  " in line]
        stages = stage_table((name, float(ms) * 1e-3) for ms, name in lines if not name.startswith(" "))
        sample["compile"] = stages.pop("total")
        sample["assemble"] = stages.get("assemble", 0.0)
        sample["stages"] = stages
        return sample

    def inside(self, case_name, target):
        environment = {"TLX_CACHE": "off", "TLX_LIBRARY": str(self.build / "libtlxjit.so"), "TLX_PTXAS": self.ptxas}
        _, out, _ = process([sys.executable, str(HERE / "compile_time.py"), "--child", case_name, target, "ptxas" if self.ptxas else ""],
                            {k: v for k, v in environment.items() if v})
        return json.loads(out)

    def simulate(self):
        command = [self.build / "tlxc", "run", KERNELS / "matmul_pointers.tlx", "--target", "sm_80", "--device", "sim", "--no-cache"]
        for argument in "a=f16[128,128]=randn b=f16[128,128]=randn c=f16[128,128]=zeros M=128 N=128 K=128 lda=128 ldb=128 ldc=128".split():
            command += ["--arg", argument]
        return process([str(c) for c in command])[0]


def child(case_name, target, assembler):
    """In this process, text to PTX: the whole call of the library, and its own stage times without the (empty) assembling. Then, if there
    is an assembler, text to machine code."""
    file, kernel, params, _, _ = case = CASES[case_name]
    text = (KERNELS / file).read_text()
    start = time.perf_counter()
    library = tlxlib.Library()
    document = {"load": time.perf_counter() - start}

    def compile_once(with_):
        start, start_cpu = time.perf_counter(), time.process_time()
        k = library.compile(text, file, kernel, target, None, list(params.items()), facts_of(case), assembler=with_)
        call, call_cpu = time.perf_counter() - start, time.process_time() - start_cpu
        assert k.metadata["assembler"].startswith(with_) and not library.c.tlx_kernel_from_cache(k.handle), k.metadata["assembler"]
        stages = [s["ms"] * 1e-3 for s in k.metadata["stages"]
                  if not s["name"].startswith("pass ") and (with_ != "driver" or s["name"] != "assemble")]
        library.c.tlx_kernel_release(k.handle)
        return {"call": call, "cpu": call_cpu, "stages": sum(stages)}

    document["compiles"] = [compile_once("driver") for _ in range(1 + LATER)]
    document["binaries"] = [compile_once(assembler) for _ in range(LATER)] if assembler else []
    json.dump(document, sys.stdout)


class Triton:
    def __init__(self, options):
        self.pythons, self.ptxas, self.scratch = {}, options.ptxas, options.scratch
        names = []
        for what, python, cases in (("Triton", options.triton_python, set(CASES) - set(TASKS)), ("TLX", options.tlx_python, TASKS)):
            if python and set(cases) & set(options.cases):
                self.pythons.update(dict.fromkeys(cases, python))
                names.append(f"{what} " + process([python, "-c", "import triton; print(triton.__version__)"])[1].strip())
        self.name = ", ".join(names)

    def _run(self, case_name, target, later):
        cache = tempfile.mkdtemp(dir=self.scratch)
        peer = {"matmul_pointers": "matmul"}.get(case_name, case_name)
        sample, out, _ = process([self.pythons[case_name], str(HERE / "triton_compile.py"), peer, target, str(later)],
                                 {"TRITON_CACHE_DIR": cache, "TRITON_PTXAS_PATH": self.ptxas, "TRITON_PTXAS_BLACKWELL_PATH": self.ptxas})
        shutil.rmtree(cache)
        return sample, json.loads(out)

    def whole(self, case_name, target):
        sample, document = self._run(case_name, target, 0)
        first = document["compiles"][0]
        sample.update({"import": document["import triton"], "hash": document["hash own files"], "compile": first["call"],
                       "assemble": first["stages"]["cubin"], "stages": first["stages"]})
        return sample

    def inside(self, case_name, target):
        _, document = self._run(case_name, target, LATER)
        # Its stages up to PTX. The call is left out: it holds the cache key, the writing of files and ptxas (a child, so not in "cpu").
        compiles = [{"cpu": c["cpu"], "stages": sum(s for n, s in c["stages"].items() if n != "cubin")} for c in document["compiles"]]
        binaries = [{"call": c["call"], "stages": sum(c["stages"].values())} for c in document["compiles"][1:]]
        return {"load": document["import triton"] + document["kernel file"] + document["hash own files"], "compiles": compiles,
                "binaries": binaries}


def spread(values, scale=1e3, digits=0):
    values = [v * scale for v in values]
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} - {max(values):.{digits}f})"


def ratio(ours, theirs):
    return f"{statistics.median(theirs) / statistics.median(ours):.1f}"


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(c) for c in row) + " |")
    print()


def report(samples, contenders, options, load):
    def column(what, case, target, contender, get):
        return [get(s) for s in samples[(what, case, target, contender)]]

    names = [c.name for c in contenders]
    ratio_head = ["ratio of medians"] if len(names) > 1 else []
    wholes = [key[1:3] for key in samples if key[0] == "whole" and key[3] == "tlxjit"]
    ptxs = [key[1:3] for key in samples if key[0] == "ptx" and key[3] == "tlxjit"]

    print(f"- date: {datetime.datetime.now(datetime.timezone.utc):%F %H:%M} UTC; commit: {options.commit or commit()}")
    print(f"- machine: {cpu()}, {os.cpu_count()} cores; load before {load[0]:.1f}, after {os.getloadavg()[0]:.1f}; "
          f"Python {platform.python_version()}")
    print(f"- ptxas, for all: {ptxas_version(options.ptxas)}; contenders: {', '.join(names)}")
    print(f"- {options.repeat} repetitions, random order; milliseconds, median (min - max)")

    for metric, title in (("wall", "Whole process, milliseconds"), ("cpu", "The same, processor time of the process and its ptxas")):
        print(f"\n## {title}")
        rows = []
        for case, target in wholes:
            values = [column("whole", case, target, n, lambda s: s[metric]) for n in names]
            rows.append([case, target, *map(spread, values)] + ([ratio(*values)] if ratio_head else []))
        if ("simulator", "matmul_pointers", "sm_80", "tlxjit") in samples:
            values = column("simulator", "matmul_pointers", "sm_80", "tlxjit", lambda s: s[metric])
            rows.append(["matmul_pointers 128x128x128 on the simulator", "sm_80", spread(values)]
                        + ["-"] * (len(names) - 1 + len(ratio_head)))
        table(["kernel", "target", *names] + ratio_head, rows)

    print("\n## Inside a process: text to PTX, milliseconds")
    rows = []
    for case, target in ptxs:
        for which, pick in (("first", slice(0, 1)), (f"later (median of {LATER})", slice(1, None))):
            for metric, what in (("stages", "sum of the stages"), ("cpu", "processor time of the call, without ptxas")):
                values = [column("ptx", case, target, n, lambda s: statistics.median(c[metric] for c in s["compiles"][pick]))
                          for n in names]
                rows.append([case, target, f"{which}, {what}", *(spread(v, digits=1) for v in values)]
                            + ([ratio(*values)] if ratio_head else []))
            calls = column("ptx", case, target, "tlxjit", lambda s: statistics.median(c["call"] for c in s["compiles"][pick]))
            rows.append([case, target, f"{which}, the whole call", spread(calls, digits=1)] + ["-"] * (len(names) - 1 + len(ratio_head)))
        values = [column("ptx", case, target, n, lambda s: s["load"]) for n in names]
        rows.append([case, target, "before it: loading (and import, hashing)", *(spread(v, digits=1) for v in values)]
                    + ([ratio(*values)] if ratio_head else []))
    table(["kernel", "target", "compile", *names] + ratio_head, rows)

    if options.ptxas:
        print("\n## Inside a process: text to machine code, ptxas included, milliseconds")
        rows = []
        for case, target in ptxs:
            for metric, what in (("call", "the whole call"), ("stages", "sum of the stages")):
                values = [column("ptx", case, target, n, lambda s: statistics.median(c[metric] for c in s["binaries"])) for n in names]
                rows.append([case, target, f"later (median of {LATER}), {what}", *(spread(v, digits=1) for v in values)]
                            + ([ratio(*values)] if ratio_head else []))
        table(["kernel", "target", "compile", *names] + ratio_head, rows)

        print("\n## Share of ptxas in a compile, fresh process")
        rows = []
        for case, target in wholes:
            for n in names:
                cells = [column("whole", case, target, n, lambda s: s[m]) for m in ("compile", "assemble")]
                rest = column("whole", case, target, n, lambda s: s["compile"] - s["assemble"])
                shares = [100 * a / c for c, a in zip(*cells)]
                of_all = [100 * s["assemble"] / s["wall"] for s in samples[("whole", case, target, n)]]
                rows.append([case, target, n, spread(cells[0], digits=1), spread(cells[1], digits=1), spread(rest, digits=1),
                             f"{statistics.median(shares):.0f} %", f"{statistics.median(of_all):.0f} %"])
        table(["kernel", "target", "compiler", "compile", "of it ptxas", "without it", "share of the compile", "share of the process"],
              rows)

    print("\n## Stages, fresh process, milliseconds (medians)")
    for n in names:
        rows, heads = [], []
        for case, target in wholes:
            stages = [s["stages"] for s in samples[("whole", case, target, n)]]
            heads = list(stages[0])
            rows.append([case, target, *(f"{1e3 * statistics.median(s.get(h, 0.0) for s in stages):.1f}" for h in heads)])
        print(f"\n{n}:")
        table(["kernel", "target", *heads], rows)


def cpu():
    for line in subprocess.run(["lscpu"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout.splitlines():
        if line.startswith("Model name:"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def commit():
    def git(*arguments):
        return subprocess.run(["git", "-C", str(tlxlib.ROOT), *arguments], capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "-uno", "src", "capi", "include", "kernels")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (" and changes" if changed else "")


def ptxas_version(path):
    if not path:
        return "none, machine code not made"
    return process([path, "--version"])[1].strip().splitlines()[-2].removeprefix("Cuda compilation tools, ")


def find_ptxas(options):
    """--ptxas, TLX_PTXAS, PATH, else the one of Triton's package."""
    found = options.ptxas or os.environ.get("TLX_PTXAS") or shutil.which("ptxas")
    if not found and options.triton_python:
        found = process([options.triton_python, "-c", "import triton, os; print(os.path.join(os.path.dirname(triton.__file__), "
                         "'backends', 'nvidia', 'bin', 'ptxas'))"])[1].strip()
    return found or ""


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triton-python", help="Python of an environment with Triton; default: ours alone")
    parser.add_argument("--tlx-python", help="Python of an environment with fbtriton, for gemm_ws and attention_ws")
    parser.add_argument("--ptxas", help="for both sides; default: TLX_PTXAS, the PATH, else Triton's own")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--build", type=pathlib.Path, default=tlxlib.ROOT / "build", help="where tlxc and libtlxjit.so are")
    parser.add_argument("--commit", default="", help="of what is measured; default: this checkout's")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), metavar="KERNEL",
                        help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--json", type=pathlib.Path, help="also write every sample to this file")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.triton_python or options.tlx_python:  # what has nothing to stand beside is left out
        options.cases = [c for c in options.cases if (options.tlx_python if c in TASKS else options.triton_python)]
    options.ptxas = find_ptxas(options)
    load = os.getloadavg()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what `timeout` sends
    with tempfile.TemporaryDirectory() as scratch:
        options.scratch = pathlib.Path(scratch)
        contenders = [Ours(options)] + ([Triton(options)] if options.triton_python or options.tlx_python else [])
        jobs = []
        for c in contenders:
            for case, target in WHOLE:
                if case in options.cases:
                    jobs.append((("whole", case, target, c.name), lambda c=c, case=case, target=target: c.whole(case, target)))
            for case, target in INSIDE:
                if case in options.cases:
                    jobs.append((("ptx", case, target, c.name), lambda c=c, case=case, target=target: c.inside(case, target)))
        if "matmul_pointers" in options.cases:
            jobs.append((("simulator", "matmul_pointers", "sm_80", "tlxjit"), contenders[0].simulate))
        rounds = []
        try:
            for repetition in range(options.repeat + 1):
                print(f"\rrepetition {repetition} of {options.repeat}", end="", file=sys.stderr, flush=True)
                rounds.append({key: job() for key, job in random.sample(jobs, len(jobs))})
        except KeyboardInterrupt:
            if len(rounds) < 2:
                raise
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    rounds = rounds[1:]  # the first one warms the caches of the file system
    samples = {key: [r[key] for r in rounds] for key, _ in jobs}
    options.repeat = len(rounds)
    if options.json:
        options.json.write_text(json.dumps([{"what": k, "samples": v} for k, v in samples.items()], indent=1))
    report(samples, contenders, options, load)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"\n{failure}")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Audit of a kernel's machine code (NVIDIA): what the assembler and the disassembler say against its running at full rate.

    ./dev audit KERNEL [--kernel NAME] [-D P=V]... [--assume FACT]... [--target T]... [--type T] [--show]

KERNEL is a name in kernels/ ("matmul") or a file. A name that kernels/configs.json knows is compiled with the parameters of each rule that
fits the target and the type; -D adds to them or replaces them. Targets: sm_90a and sm_80.

Findings, each with exit code 1:
  - ptxas: spills, a stack frame, C75xx lines (wgmma serialized, waits or fences injected);
  - local memory: STL or LDL, in a loop or out of it;
  - in a loop of matrix instructions: an accumulator that is copied (MOV, SEL, …) and so is not one register from step to step; a fence of
    the device or an invalidation of L1 (MEMBAR, CCTL), which a wait or an arrival of cluster scope brings; more WARPGROUP.ARRIVE than groups;
  - shared accesses that take more bank wavefronts than their bytes need (--explain-layouts).
Reported beside them: for each such loop its instructions by kind.

A disassembler is looked for as TLX_NVDISASM, nvdisasm and cuobjdump in PATH and in /usr/local/cuda/bin, and in Python's packages (one way
to have it: pip install nvidia-cuda-nvdisasm). Without one, that part is skipped and said to be. Exit code 2: a kernel does not compile.
"""
import argparse
import collections
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUDA = "/usr/local/cuda/bin"

# --- machine code as text

# accumulators of these are registers that instructions of one loop add to
MMA = re.compile(r"(?:HGMMA|QGMMA|IGMMA|HMMA|IMMA|DMMA|BMMA)\b")
MOVES = ("MOV", "IMAD.MOV")
DEFINES = MOVES + ("SEL", "FSEL", "CS2R", "PRMT")


class Instruction:
    """One line: address, predicate, opcode, operands."""

    def __init__(self, address, text):
        self.address, self.text = address, text
        body = re.sub(r"^@!?U?P\w+\s+", "", text)
        self.predicated = body != text
        self.opcode, _, rest = body.partition(" ")
        self.operands = [o.strip() for o in rest.split(",")] if rest else []

    def kind(self):
        for long in ("WARPGROUP.ARRIVE", "WARPGROUP.DEPBAR", "IMAD.MOV"):
            if self.opcode.startswith(long):
                return long
        return self.opcode.split(".")[0]

    def is_mma(self):
        return bool(MMA.match(self.opcode))

    def is_one_of(self, opcodes):
        return any(self.opcode == o or self.opcode.startswith(o + ".") for o in opcodes)

    def _registers(self, operand, count):
        m = re.match(r"[-~|!]*R(\d+)\b", operand)
        return set(range(int(m.group(1)), int(m.group(1)) + count)) if m else set()

    def accumulator(self):
        """Registers that a matrix instruction adds to."""
        if not self.is_mma() or not self.operands:
            return set()
        shape = re.search(r"\.64x(\d+)x\d+", self.opcode)  # a warpgroup's: 64 x N over 128 lanes
        if shape:
            count = int(shape.group(1)) // 2 // (2 if ".F16" in self.opcode and ".F32" not in self.opcode else 1)
        elif self.opcode.startswith("DMMA"):
            count = 4  # two f64
        else:
            count = 2 if self.opcode.startswith("HMMA") and ".F32" not in self.opcode else 4
        return self._registers(self.operands[0], count)

    def adds(self):
        """Whether the accumulator is read: the first step of a tile does not (its C is RZ, or its scale-d is !UPT)."""
        if re.search(r"GMMA", self.opcode):
            return "!UPT" not in self.text
        return len(self.operands) > 3 and not self.operands[3].startswith("RZ")

    def _width(self):
        if self.opcode.startswith("CS2R") and ".32" not in self.opcode:
            return 2
        if self.opcode.startswith("LDSM"):
            return int((re.search(r"\.(\d)$", self.opcode) or [0, 1])[1])
        return 4 if ".128" in self.opcode else 2 if re.search(r"\.(64|WIDE)\b", self.opcode) else 1

    def writes(self):
        if self.is_mma():
            return self.accumulator()
        if not self.operands or re.match(r"ST|RED|BRA|BAR|WARP|EXIT|BSYNC|MEMBAR|UTMA|SYNCS", self.opcode):
            return set()
        return self._registers(self.operands[0], self._width())

    def sources(self):
        """Of a move."""
        return set().union(*(self._registers(operand, 1) for operand in self.operands[1:]))


def parse(sass):
    """Instructions of the first kernel, in order, and the address of each label."""
    instructions, labels, waiting = [], {}, []
    for line in sass.splitlines():
        label = re.match(r"\s*(\.L_\w+):", line)
        if label:
            waiting.append(label.group(1))
        m = re.search(r"/\*([0-9a-f]{4,6})\*/\s+(.*?)\s*;", line)
        if m:
            address = int(m.group(1), 16)
            if instructions and address <= instructions[-1].address:
                break  # the next function
            labels.update(dict.fromkeys(waiting, address))
            waiting = []
            instructions.append(Instruction(address, re.sub(r"\s+", " ", m.group(2))))
    return instructions, labels


class Loop:
    def __init__(self, body):
        self.body = body  # instructions by address; what ptxas placed elsewhere (retries of a wait) belongs to it

    def __str__(self):
        return f"loop at {self.body[0].address:04x}"


def successors(instructions, labels):
    """Addresses that may follow each instruction. A call comes back; BSYNC goes on where its BSSY says."""
    following, reconverge = {}, {}
    for at, i in enumerate(instructions):
        after = [instructions[at + 1].address] if at + 1 < len(instructions) else []
        named = re.search(r"`\((\.L_\w+)\)", i.text)
        number = re.search(r"\b0x([0-9a-f]+)$", i.text)
        target = labels.get(named.group(1)) if named else int(number.group(1), 16) if number else None
        if i.kind() == "BSSY":
            reconverge[i.operands[0]] = target
        if i.kind() == "BSYNC" and reconverge.get(i.operands[0]) is not None:
            after = [reconverge[i.operands[0]]]
        if i.kind() == "BRA" and target is not None:
            after = (after if i.predicated or len(i.operands) > 1 else []) + [target]
        if i.kind() in ("EXIT", "RET") and not i.predicated:
            after = []
        following[i.address] = after
    return following


def blocks_of(instructions, following):
    """Basic blocks, lists of instructions, by the address of the first, and the blocks that follow each."""
    leaders = {instructions[0].address} if instructions else set()
    for at, i in enumerate(instructions[:-1]):
        after = following[i.address]
        if after != [instructions[at + 1].address]:
            leaders.update(after, [instructions[at + 1].address])
    blocks = {}
    for i in instructions:
        if i.address in leaders:
            current = blocks[i.address] = []
        current.append(i)
    return blocks, {first: following[block[-1].address] for first, block in blocks.items()}


def find_loops(sass):
    """Natural loops, the smallest first: branches to a block that dominates their own. An endless one of a single instruction is none."""
    instructions, labels = parse(sass)
    blocks, edges = blocks_of(instructions, successors(instructions, labels))
    entry = min(blocks, default=None)
    before = collections.defaultdict(set)
    order, stack = [], [entry] if blocks else []
    while stack:
        block = stack.pop()
        if block in order:
            continue
        order.append(block)
        for after in edges[block]:
            before[after].add(block)
            stack.append(after)
    dominators = {block: set(order) for block in order}
    if blocks:
        dominators[entry] = {entry}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            new = set.intersection(*(dominators[b] for b in before[block])) | {block}
            changed |= new != dominators[block]
            dominators[block] = new
    members = collections.defaultdict(set)
    for block in order:
        for head in edges[block]:
            if head not in dominators[block]:
                continue
            found, stack = {head}, [block]
            while stack:
                b = stack.pop()
                if b not in found:
                    found.add(b)
                    stack.extend(before[b])
            members[head] |= found
    loops = [Loop(sorted((i for b in found for i in blocks[b]), key=lambda i: i.address)) for found in members.values()]
    return sorted((l for l in loops if len(l.body) > 1), key=lambda l: len(l.body)), instructions


def copied_accumulators(body):
    """Moves and selects into a register that the next matrix instruction adds to, and moves out of one that a matrix instruction wrote last
    (a select of what was waited for is a mask)."""
    n, found = len(body), []
    for at, i in enumerate(body):
        if not i.is_one_of(DEFINES):
            continue
        bad = False
        for r in i.writes():
            for step in range(1, n + 1):
                other = body[(at + step) % n]
                if other.is_mma() and other.adds() and r in other.accumulator():
                    bad = True
                if r in other.writes() and not other.predicated:
                    break
        for r in i.sources() if i.is_one_of(MOVES) else ():
            for step in range(1, n + 1):
                other = body[(at - step) % n]
                if r in other.writes() and (other.is_mma() or not other.predicated):
                    bad = bad or other.is_mma()
                    break
        if bad:
            found.append(i)
    return found


def audit_sass(sass):
    """Findings and report lines."""
    findings, report = [], []
    loops, instructions = find_loops(sass)
    local = [i for i in instructions if i.kind() in ("STL", "LDL")]
    in_loops = {i.address for l in loops for i in l.body} & {i.address for i in local}
    if local:
        findings.append(f"local memory: {len(local)} STL and LDL, {len(in_loops)} of them in loops")
    mma = sum(i.is_mma() for i in instructions)
    report.append(f"{len(instructions)} instructions, {mma} of them matrix instructions, {len(loops)} loops")
    inside = set()
    for loop in loops:
        body = [i for i in loop.body if i.address not in inside]  # what no loop within it holds
        if not any(i.is_mma() for i in body):
            continue
        around = len(body) < len(loop.body)
        inside |= {i.address for i in loop.body}
        kinds = collections.Counter(i.kind() for i in body)
        report.append(f"{loop}: {len(body)} instructions: " + ", ".join(f"{k} {n}" for k, n in kinds.most_common()))
        if any("GMMA" in i.opcode for i in body):
            groups = sum("gsb" in i.text for i in body if i.is_mma())
            arrive, wait = kinds["WARPGROUP.ARRIVE"], kinds["WARPGROUP.DEPBAR"]
            report.append(f"  {groups} groups, {arrive} WARPGROUP.ARRIVE, {wait} WARPGROUP.DEPBAR, {kinds['R2UR']} R2UR")
            if groups and arrive > groups:
                findings.append(f"{loop}: {arrive} WARPGROUP.ARRIVE for {groups} groups")
        copies = copied_accumulators(body)
        if around:  # an accumulator that starts before the inner loop, where that may have no iteration
            copies = [i for i in copies if list(i.sources())]
        if copies:
            findings.append(f"{loop}: {len(copies)} copies of accumulators, the first '{copies[0].text}' at {copies[0].address:04x}")
        fences = [i for i in body if i.kind() == "MEMBAR" and "CTA" not in i.opcode or i.opcode.startswith("CCTL.IVALL")]
        if fences:
            findings.append(f"{loop}: {len(fences)} fences of the device, the first '{fences[0].text}' at {fences[0].address:04x}")
    return findings, report


# --- what the assembler and the compiler say


def audit_log(log):
    """ptxas -v."""
    findings, report = [], []
    for line in log.splitlines():
        line = line.strip()
        if "(C75" in line or "warning" in line.lower():
            findings.append(line)
        elif "Used" in line or "stack frame" in line:
            report.append(re.sub(r"^ptxas info\s*:\s*", "", line))
        for what in ("bytes stack frame", "bytes spill stores", "bytes spill loads"):
            m = re.search(r"(\d+) " + what, line)
            if m and int(m.group(1)):
                findings.append(f"ptxas: {m.group(1)} {what}")
    return findings, report


def audit_layouts(text):
    """--explain-layouts: shared accesses above the minimum of bank wavefronts."""
    findings, count = [], 0
    for line in text.splitlines():
        m = re.search(r"(\d+) wavefronts, minimum (\d+)", line)
        if m:
            count += 1
            if int(m.group(1)) > int(m.group(2)):
                findings.append("shared access: " + re.sub(r"\s+", " ", line.strip()))
    return findings, [f"{count} shared accesses by registers, {count - len(findings)} at the minimum of wavefronts"]


# --- tools


def disassembler():
    """Command that prints a cubin's code, without the file; None if there is none."""
    named = os.environ.get("TLX_NVDISASM")
    places = [named] if named else []
    for tool in ("nvdisasm", "cuobjdump"):
        places += [shutil.which(tool), shutil.which(tool, path=CUDA)]
    for folder in sys.path:
        places += sorted(glob.glob(f"{folder}/nvidia/*/bin/nvdisasm"), reverse=True)
        places += glob.glob(f"{folder}/triton/backends/nvidia/bin/nvdisasm")
    path = next((p for p in places if p and os.access(p, os.X_OK)), None)
    if not path:
        return None
    return [path, "-sass"] if "cuobjdump" in os.path.basename(path) else [path, "-c"]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class Failed(Exception):
    pass


class Case:
    def __init__(self, file, kernel, target, params, facts):
        self.file, self.kernel, self.target, self.params, self.facts = file, kernel, target, params, facts

    def title(self):
        return " ".join([self.kernel or self.file.stem, self.target] + [f"{k}={v}" for k, v in self.params.items()])

    def audit(self, tlxc, ptxas, show):
        with tempfile.TemporaryDirectory() as folder:
            ptx, cubin = f"{folder}/kernel.ptx", f"{folder}/kernel.cubin"
            command = [tlxc, "build", str(self.file), "--target", self.target, "--no-cache", "--explain-layouts", "--assembler", "driver",
                       "--emit", "ptx", "-o", ptx]
            command += ["--kernel", self.kernel] if self.kernel else []
            for name, value in self.params.items():
                command += ["-D", f"{name}={value}"]
            for fact in self.facts:
                command += ["--assume", fact]
            status, out, log = run(command)
            if status:
                raise Failed(log or out or f"tlxc ended with {status}")
            findings, report = audit_layouts(log)
            if not ptxas or not os.access(ptxas, os.X_OK):
                return findings, report + ["skipped: no ptxas"]
            status, out, log = run([ptxas, "-v", "--gpu-name=" + self.target, ptx, "-o", cubin])
            if status:
                raise Failed(out + log)
            part = audit_log((out + log).replace(ptx, "kernel.ptx"))
            findings, report = findings + part[0], report + part[1]
            tool = disassembler()
            if not tool:
                return findings, report + ["skipped: no disassembler"]
            status, sass, log = run(tool + [cubin])
            if status:
                raise Failed(log)
            if show:
                print(sass)
            part = audit_sass(sass)
            return findings + part[0], report + part[1]


def fits(value, bounds):
    """Whether a size of a rule that -D gives (D=128, CAUSAL=true) lies within its bounds; one that is not given may be any."""
    if value is None:
        return True
    number = {"true": 1, "false": 0}.get(value, value)
    return bounds[0] <= int(number) <= bounds[1]


def cases(args):
    defines = dict(d.split("=", 1) for d in args.define)
    name = pathlib.Path(args.subject)
    configs = json.loads((ROOT / "kernels" / "configs.json").read_text())
    entry = configs.get(args.subject)
    for target in args.target or ["sm_90a", "sm_80"]:
        if not isinstance(entry, dict):
            file = name if name.suffix else ROOT / "kernels" / f"{args.subject}.tlx"
            yield Case(file, args.kernel, target, defines, args.assume)
            continue
        for rule in entry["rules"]:
            if target not in rule.get("targets", [target]) or args.type not in rule.get("types", [args.type]):
                continue
            if args.kernel and args.kernel != rule["kernel"]:
                continue
            if any(not fits(defines.get(size, defines.get(size.upper())), bounds) for size, bounds in rule.get("when", {}).items()):
                continue
            file = ROOT / "kernels" / rule.get("file", entry["file"])
            types = {"T": args.type} if re.search(r"\bT\s*:\s*dtype", file.read_text()) else {}
            yield Case(file, rule["kernel"], target, {**rule["params"], **types, **defines}, entry["facts"] + args.assume)
            if not rule.get("when"):
                break  # the first rule that fits is taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subject", metavar="KERNEL")
    parser.add_argument("--kernel", help="of a file with several")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="P=V", help="a compile-time parameter")
    parser.add_argument("--assume", action="append", default=[], metavar="FACT", help="a fact about the arguments")
    parser.add_argument("--target", action="append", help="sm_90a, sm_80; repeatable")
    parser.add_argument("--type", default="f16", help="element type, for the rules of configs.json")
    parser.add_argument("--show", action="store_true", help="print the machine code")
    args = parser.parse_args()
    tlxc = os.environ.get("TLX_TLXC") or str(ROOT / "build" / "tlxc")
    ptxas = os.environ.get("TLX_PTXAS") or shutil.which("ptxas") or shutil.which("ptxas", path=CUDA)
    total = audited = 0
    for case in cases(args):
        audited += 1
        print(case.title(), flush=True)
        try:
            findings, report = case.audit(tlxc, ptxas, args.show)
        except Failed as failure:
            print(str(failure).strip())
            return 2
        for line in report:
            print("  " + line)
        for line in findings:
            print("  FINDING " + line)
        total += len(findings)
    if not audited:
        print(f"nothing to audit: no rule of configs.json fits {args.subject} {args.type}")
        return 2
    print(f"{audited} kernels, {total} findings")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())

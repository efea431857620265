#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The project's kernels beside cuBLAS, cuDNN, TLX, FlashAttention-3 and stock Triton, in one run on one GPU.

Each group of contenders is a process of its own (worker.py); this one hands out turns. For each work, rounds go over all contenders in
random order; a turn is some 80 ms of one kernel untimed and then 120 ms of it timed (the chip runs at its power limit: a short turn, or one
that always follows the same other kernel, is wrong by several percent), and a shorter one as its users call it. Medians over the rounds.
Clock and power are read during each turn. Writes DATE-peers.json, .md and one .svg a kind of work, after each work anew.

  compare.py                          everything, in some ten minutes
  compare.py --quick                  a few works, two rounds
  compare.py --works matmul-f16       those whose name has this text
  compare.py --tune matmul-f16-4096   the kernel of that work with each configuration of tuning.py, beside its yardstick
  compare.py --dry-run                no GPU: our kernels on the simulator at tiny sizes; checks this program and configs.json

The status is 1 if a kernel of ours is wrong, does not compile or could not take part; a peer may fail or be absent (in a dry run: be absent
only). With --tune, a configuration that does not compile is an answer and no failure, unless it is the rule of configs.json."""
import argparse
import json
import os
import pathlib
import random
import select
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))
import nvml  # noqa: E402
import report  # noqa: E402
import works  # noqa: E402


OWN = ("tlxjit", "dry")  # the groups of our own kernels


class Process:
    """A worker. `absent` says why it takes no part."""

    def __init__(self, group, python, path=None, options=None):
        self.group, self.absent, self.info = group, None, {}
        environment = dict(os.environ)
        if path:
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [path, environment.get("PYTHONPATH")]))
        try:
            self.process = subprocess.Popen([python, str(HERE / "worker.py"), group, "--options", json.dumps(options or {})], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=HERE)
        except OSError as error:
            self.process, self.absent = None, str(error)
            return
        self.info = self.ask(120, do="open")

    def ask(self, limit, **order):
        """The answer, or {} after which `absent` is set."""
        if not self.process:
            return {}
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], limit)
            line = self.process.stdout.readline() if ready else None
        except (BrokenPipeError, OSError) as error:
            line, ready = "", str(error)
        if not line:
            self.close(f"no answer to '{order['do']}' in {limit} s" if line is None else f"ended during '{order['do']}'")
            return {}
        answer = json.loads(line)
        if "absent" in answer:
            self.close(answer["absent"])
            return {}
        return answer

    def close(self, why=None):
        self.absent = self.absent or why
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
            self.process.stdin.close(), self.process.stdout.close()
            self.process = None


def start_groups(options):
    if options.dry_run:
        named = [("dry", sys.executable, None, {"target": options.target}), ("torch", options.torch_python, None, None),
                 ("triton", options.triton_python or options.torch_python, None, None), ("tlx", options.torch_python, options.peers, None)]
    else:
        named = [("torch", options.torch_python, None, None), ("tlxjit", options.torch_python, None, {"target": options.target}),
                 ("triton", options.triton_python or options.torch_python, None, None), ("tlx", options.torch_python, options.peers, None)]
    wanted = options.groups or (["torch", "tlxjit"] if options.tune else None)
    chosen = [n for n in named if not wanted or n[0] in wanted]
    processes = []
    for group, python, path, extra in chosen:
        p = Process(group, python, path, extra)
        print(f"# {group}: {'absent: ' + p.absent if p.absent else json.dumps(p.info)}", file=sys.stderr, flush=True)
        processes.append(p)
    return processes


def measure(processes, work, options, meter, rng, tuning=None):
    """{contender: {"alone": …, "called": …, …}}, {what failed: why}, and which of the failures are ours."""
    owners, results, failed, own_failed = {}, {}, {}, []

    def fail(process, name, why):
        failed[name] = why
        if process.group in OWN:
            own_failed.append(name)

    for p in processes:
        if p.absent:
            continue
        extra = {"configs": tuning} if tuning and p.group in ("tlxjit",) else {}
        answer = p.ask(300, do="prepare", work=vars(work), **extra)
        for name, note in answer.get("contenders", {}).items():
            owners[name], results[name] = p, {"note": note, "turns": []}
        for name, why in answer.get("failed", {}).items():
            fail(p, f"{p.group}: {name}" if name == "*" else name, why)
        failed |= answer.get("unfit", {})
        if p.absent or "problem" in answer:
            fail(p, p.group, p.absent or answer["problem"])
    for _ in range(options.rounds):
        for name in rng.sample(sorted(owners), len(owners)):
            owner = owners[name]
            with nvml.Sampler(meter) as sampler:
                answers = {"alone": owner.ask(60, do="alone", contender=name, warm=options.warm, timed=options.timed)}
            if not tuning:
                answers["called"] = owner.ask(60, do="called", contender=name, warm=options.warm / 2, timed=options.timed / 2)
            if all("seconds" in a for a in answers.values()):
                results[name]["turns"].append({how: a["seconds"] for how, a in answers.items()} | sampler.summary())
                continue
            fail(owner, name, owner.absent or next(a["problem"] for a in answers.values() if "problem" in a))
            del owners[name]
            if not results[name]["turns"]:
                del results[name]
    for p in processes:
        if not p.absent:
            p.ask(60, do="drop")
    return {name: summary(work, r) for name, r in results.items() if r["turns"]}, failed, own_failed


def summary(work, result):
    rate = lambda key: sorted(work.amount / t[key] for t in result["turns"] if t.get(key))
    alone, called = rate("alone"), rate("called")
    out = {"alone": statistics.median(alone), "alone_min": alone[0], "alone_max": alone[-1],
           "called": statistics.median(called) if called else None}
    for key in ("mhz", "watt"):
        seen = [t[key] for t in result["turns"] if key in t]
        out[key] = round(statistics.mean(seen)) if seen else None
    out["held_by"] = sorted({reason for t in result["turns"] for reason in t.get("held_by", [])})
    return out | {"note": result["note"], "turns": result["turns"]}


def choose_works(options):
    if options.dry_run:
        listed = works.TINY
    elif options.tune:
        listed = [w for w in works.ALL if any(text in w.name for text in options.tune)]
    else:
        listed = works.QUICK if options.quick else works.ALL
    return [w for w in listed if not options.works or any(text in w.name for text in options.works)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few works, two rounds")
    parser.add_argument("--dry-run", action="store_true", help="without a GPU, at tiny sizes on the simulator")
    parser.add_argument("--works", nargs="+", help="only works whose name has one of these texts")
    parser.add_argument("--groups", nargs="+", help="only these processes: torch tlxjit triton tlx")
    parser.add_argument("--tune", nargs="+", metavar="WORK", help="try the configurations of tuning.py on these works")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick or --tune 2, dry 1")
    parser.add_argument("--warm", type=float, default=0.08)
    parser.add_argument("--timed", type=float, default=0.12)
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no new work begins")
    parser.add_argument("--seed", type=int, default=0, help="of the order of turns")
    parser.add_argument("--target", help="of our kernels; default: sm_90a, dry: sm_80")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--triton-python", help="Python with stock Triton; default: that of PyTorch")
    parser.add_argument("--peers", help="folder with the unpacked TLX and FA3 wheels")
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parent / "results")
    parser.add_argument("--name", help="of the files, which are written over; default: DATE-peers, or with a number if that is taken")
    parser.add_argument("--commit", help="default: asked of git, or the file `commit` of a pack")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.dry_run else 2 if options.quick or options.tune else 5)
    options.target = options.target or ("sm_80" if options.dry_run else "sm_90a")
    return options


def commit_of(options):
    if options.commit:
        return options.commit
    packed = HERE.parent.parent / "commit"
    if packed.exists():
        return packed.read_text().strip()
    found = subprocess.run(["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def command():
    """The command as another machine would call it: where the results go and where the peers lie is this one's affair."""
    words, skip = ["bench/peers/compare.py"], False
    for word in sys.argv[1:]:
        option = word.split("=")[0]
        if not skip and option == "--peers":
            words += ["--peers", "PEERS"]
        elif not skip and option != "--out":
            words.append(word)
        skip = word in ("--out", "--peers")
    return " ".join(words)


def main():
    options = parse()
    begin, rng, meter = time.monotonic(), random.Random(options.seed), nvml.Nvml()
    document = {"date": time.strftime("%F %T UTC", time.gmtime()), "commit": commit_of(options),
                "command": command(), "machine": meter.describe(), "rounds": options.rounds,
                "warm_s": options.warm, "timed_s": options.timed, "seed": options.seed, "dry_run": options.dry_run, "groups": {},
                "works": [], "left_out": []}
    if options.dry_run:
        import check_configs
        document["configs"] = check_configs.check()
    processes = start_groups(options)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / options.name if options.name else report.free_name(
        options.out, time.strftime("%F", time.gmtime()) + ("-tune" if options.tune else "-peers"))
    for work in choose_works(options):
        if time.monotonic() - begin > options.budget:
            document["left_out"].append(work.name)
            continue
        tuning = None
        if options.tune:
            import tuning as table
            tuning = table.configurations(work, options.target)
        results, failed, own_failed = measure(processes, work, options, meter, rng, tuning)
        document["works"].append({"name": work.name, "kind": work.kind, "unit": work.unit, "yardstick": work.yardstick,
                                  "contenders": results, "failed": failed, "own_failed": own_failed})
        document["groups"] = {p.group: {"absent": p.absent} if p.absent else p.info for p in processes}
        document["seconds"] = round(time.monotonic() - begin, 1)
        report.write(path, document)
        print(report.line(document["works"][-1]), flush=True)
    for p in processes:
        p.close()
    print(f"# wrote {path}.json, .md and plots, {document.get('seconds', 0)} s", file=sys.stderr)
    bad = [f"{w['name']}: {name}" for w in document["works"] for name in w["failed" if options.dry_run else "own_failed"]]
    bad += [f"{p.group}: {p.absent}" for p in processes if p.group in OWN and p.absent]
    bad += [f"configs.json: {c['work']} {c['target']} {c['kernel']}" for c in document.get("configs", []) if "problem" in c]
    for one in bad:
        print(f"# failed: {one}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

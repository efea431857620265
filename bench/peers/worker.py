#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One process of contenders, told what to do line by line: JSON on standard input, one JSON answer a line on standard output. What
libraries print goes to standard error. Started by compare.py."""
import argparse
import json
import os
import pathlib
import sys
import traceback

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import works  # noqa: E402


CALLS = 10  # of a kernel in one graph


class Worker:
    def __init__(self, group, options):
        import torch
        import contenders
        import gpu_timing
        if not torch.cuda.is_available():
            raise contenders.Absent("PyTorch sees no CUDA device")
        self.torch, self.contenders, self.timing = torch, contenders, gpu_timing
        kind = contenders.GROUPS[group]
        self.group = kind(**options) if options else kind()
        self.data, self.calls, self.graphs = None, {}, {}

    def open(self):
        p = self.torch.cuda.get_device_properties(0)
        return {"versions": self.group.versions(), "gpu": p.name, "multiprocessors": p.multi_processor_count}

    def prepare(self, work, configs=None):
        """Makes and checks every contender of a work. `configs`: parameters to try, for tuning; those that do not compile are "unfit"."""
        torch = self.torch
        work = works.Work.from_json(work)
        self.drop()
        self.data = self.contenders.make_data(work)
        found, failed, unfit = {}, {}, {}
        try:
            self.calls = self.group.prepare(work, self.data) if not configs else self._tuning(work, configs, failed, unfit)
        except Exception as error:
            return {"contenders": {}, "failed": {"*": f"{type(error).__name__}: {str(error)[:2000]}"}}
        for name, call in list(self.calls.items()):
            try:
                self.data["out"].fill_(float("nan"))
                out = call(torch.cuda.current_stream().cuda_stream)
                torch.cuda.synchronize()
                error = 0.0 if name == "copy" else self.contenders.check(work, self.data, out)
                self.graphs[name] = self.timing.capture(call, CALLS)
                found[name] = {"error": error, **getattr(call, "note", {})}
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {str(error)[:500]}"
                del self.calls[name]
        return {"contenders": found, "failed": failed, "unfit": unfit}

    def _tuning(self, work, configs, failed, unfit):
        import ours
        calls = {}
        for name, fields in configs.items():
            try:
                calls[name] = self.group.prepare(work, self.data, ours.configs.Config(**fields))["tlxjit"]
            except Exception as error:
                (failed if name == "rule" else unfit)[name] = str(error)[:300]
        return calls

    def alone(self, contender, warm, timed):
        """The kernel alone: replays of a graph of calls."""
        return {"seconds": self.timing.seconds(self.graphs[contender].replay, warm, timed) / CALLS}

    def called(self, contender, warm, timed):
        """As its users call it, one call after the other, with what the host adds."""
        call, stream = self.calls[contender], self.torch.cuda.current_stream().cuda_stream
        return {"seconds": self.timing.seconds(lambda: call(stream), warm, timed)}

    def drop(self):
        self.data, self.calls, self.graphs = None, {}, {}
        self.torch.cuda.empty_cache()
        return {}


def make_worker(group, options):
    if group == "dry":
        import dry
        return dry.DryWorker(**options)
    return Worker(group, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group")
    parser.add_argument("--options", default="{}")
    options = parser.parse_args()
    worker = None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if worker is None:
                worker = make_worker(options.group, json.loads(options.options))
            do = order.pop("do")
            answer = getattr(worker, do)(**order)
        except Exception as error:
            absent = type(error).__name__ in ("Absent", "ImportError", "ModuleNotFoundError")
            if not absent:
                traceback.print_exc()
            answer = {"absent" if absent else "problem": f"{type(error).__name__}: {str(error)[:2000]}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One process of contenders, told what to do line by line: JSON on standard input, one JSON answer a line on standard output. What
libraries print goes to standard error. Started by compare.py."""
import argparse
import json
import os
import sys
import traceback

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

import works  # noqa: E402


class Worker:
    def __init__(self, group, options):
        import torch
        import contenders
        if not torch.cuda.is_available():
            raise contenders.Absent("PyTorch sees no CUDA device")
        self.torch, self.contenders = torch, contenders
        kind = contenders.GROUPS[group]
        self.group = kind(**options) if options else kind()
        self.data, self.calls, self.graphs = None, {}, {}

    def open(self):
        p = self.torch.cuda.get_device_properties(0)
        return {"versions": self.group.versions(), "gpu": p.name, "multiprocessors": p.multi_processor_count}

    def prepare(self, work, configs=None):
        """Makes and checks every contender of a work. `configs`: parameters to try, for tuning."""
        torch = self.torch
        work = works.Work.from_json(work)
        self.drop()
        self.data = self.contenders.make_data(work)
        found, failed = {}, {}
        try:
            self.calls = self.group.prepare(work, self.data) if not configs else self._tuning(work, configs, failed)
        except Exception as error:
            return {"contenders": {}, "failed": {"*": f"{type(error).__name__}: {str(error)[:2000]}"}}
        for name, call in list(self.calls.items()):
            try:
                self.data["out"].fill_(float("nan"))
                out = call(torch.cuda.current_stream().cuda_stream)
                torch.cuda.synchronize()
                error = 0.0 if name == "copy" else self.contenders.relative_error(work, self.data, out)
                if error > self.contenders.TOLERANCE[work.type]:
                    raise RuntimeError(f"wrong: relative error {error:.2e}")
                self.graphs[name] = self._capture(call)
                found[name] = {"error": error, **getattr(call, "note", {})}
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {str(error)[:500]}"
                del self.calls[name]
        return {"contenders": found, "failed": failed}

    def _tuning(self, work, configs, failed):
        import ours
        calls = {}
        for name, fields in configs.items():
            try:
                calls[name] = self.group.prepare(work, self.data, ours.configs.Config(**fields))["tlxjit"]
            except Exception as error:
                failed[name] = str(error)[:300]
        return calls

    def _capture(self, call, calls=10):
        torch = self.torch
        for _ in range(3):
            call(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call(torch.cuda.current_stream().cuda_stream)
        return graph, calls

    def _timed(self, once, warm, timed):
        """Seconds of one `once`: as many as fill `warm` seconds untimed, then as many as fill `timed`."""
        torch = self.torch

        def run(times):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(times):
                once()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) * 1e-3 / times
        run(1)
        one = max(run(2), 1e-7)
        run(max(1, int(warm / one)))
        return run(max(2, int(timed / one)))

    def alone(self, contender, warm, timed):
        """The kernel alone: replays of a graph of calls."""
        graph, calls = self.graphs[contender]
        return {"seconds": self._timed(graph.replay, warm, timed) / calls}

    def called(self, contender, warm, timed):
        """As its users call it, one call after the other, with what the host adds."""
        call, stream = self.calls[contender], self.torch.cuda.current_stream().cuda_stream
        return {"seconds": self._timed(lambda: call(stream), warm, timed)}

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

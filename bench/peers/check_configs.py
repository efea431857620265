# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles every rule of kernels/configs.json for each of its targets, as far as this machine can (PTX; with
an assembler its resources)."""
import json

import configs
import ours
import works

TARGETS = ["sm_80", "sm_90a", "gfx942", "gfx950"]
TYPES = ["f16", "bf16", "f32"]


def _sizes(kind, rule):
    """A problem that this rule is for."""
    s = {"matmul": {"M": 4096, "N": 4096, "K": 4096}, "attention": {"batch": 1, "heads": 16, "seq": 4096, "D": 128, "causal": True}}.get(
        kind, {"rows": 4096, "cols": 32768})
    return s | {name: bounds[1] for name, bounds in rule.get("when", {}).items()}


def check():
    """[{work, target, kernel, params, …resources} or with `problem`]"""
    library, found = ours.tlxlib.Library(), []
    for kind, entry in json.loads(configs.FILE.read_text()).items():
        if kind == "about":
            continue
        for rule in entry["rules"]:
            for target in rule.get("targets", TARGETS):
                type_ = rule.get("types", TYPES[:1])[0]
                problem = entry.get("problem", kind)
                work = works.Work(problem, type_, _sizes(problem, rule))
                config = configs.pick(kind, target, type_, ours.rule_sizes(work))
                if (config.kernel, config.params) != (rule["kernel"], rule["params"]):
                    continue  # an earlier rule is for this target
                one = {"work": work.name, "target": target, "kernel": config.kernel, "params": config.params}
                try:
                    metadata = ours.compile_work(library, None, target, work, config)[0].metadata
                    one |= {"shared_bytes": metadata.get("shared_bytes"), **metadata.get("resources", {})}
                except RuntimeError as error:
                    one["problem"] = str(error)[:600]
                found.append(one)
    return found


if __name__ == "__main__":
    for row in check():
        print(json.dumps(row))

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""kernels/configs.json: the rule from target, type and sizes to a kernel and its parameters. The file says what its fields mean.

  python3 bench/configs.py matmul sm_90a f16 M=4096 N=4096 K=4096     prints what the rule gives"""
import dataclasses
import json
import pathlib
import sys

FILE = pathlib.Path(__file__).resolve().parent.parent / "kernels" / "configs.json"


@dataclasses.dataclass
class Config:
    file: str
    kernel: str
    params: dict  # of the rule; types and transposes are the caller's
    facts: list
    programs: str

    def grid(self, sizes, multiprocessors):
        cdiv = lambda a, b: -(-a // b)
        if self.programs == "rows":
            return (sizes["rows"],)
        if self.programs == "blocks":
            return (cdiv(sizes["seq"], self.params["BM"]), sizes["heads"])
        if "seq" in sizes:
            tiles = cdiv(sizes["seq"], self.params["BM"]) * sizes["heads"]
        else:
            tiles = cdiv(sizes["M"], self.params["BM"]) * cdiv(sizes["N"], self.params["BN"])
        return (tiles if self.programs == "tiles" else min(tiles, multiprocessors),)


def _within(bounds, size):
    low, high = bounds
    return (low is None or size >= low) and (high is None or size <= high)


def pick(work, target, element, sizes, table=None):
    """The first rule of `work` that fits; KeyError if none does."""
    entry = (table or json.loads(FILE.read_text()))[work]
    for rule in entry["rules"]:
        if target in rule.get("targets", [target]) and element in rule.get("types", [element]) and all(
                _within(bounds, sizes[name]) for name, bounds in rule.get("when", {}).items()):
            return Config(rule.get("file", entry["file"]), rule["kernel"], dict(rule["params"]), list(entry["facts"]), rule["programs"])
    raise KeyError(f"no rule of {work} fits {target} {element} {sizes}")


def others(problem, table=None):
    """Further entries that do the work `problem`."""
    return [name for name, entry in (table or json.loads(FILE.read_text())).items() if name != "about" and entry.get("problem") == problem]


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    work, target, element, *sizes = sys.argv[1:]
    print(pick(work, target, element, {name: int(value) for name, value in (s.split("=") for s in sizes)}))


if __name__ == "__main__":
    main()

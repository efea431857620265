# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `compare.py --tune` tries for a work: variations of the rule of kernels/configs.json. Its winners go into that file, by hand."""
import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import configs  # noqa: E402
import ours  # noqa: E402

# Parameters and their values, as a product; a kernel with its way to the grid counts as one.
GRIDS = {
    "matmul": [{"kernel": [("matmul", "tiles"), ("matmul_persistent", "multiprocessors")],
                "BM,BN,BK": [(128, 256, 64), (256, 128, 64), (128, 128, 64), (128, 192, 64)],
                "STAGES": [3, 4], "WARPS": [8], "GROUP_M": [8]},
               {"kernel": [("matmul_persistent", "multiprocessors")],
                "BM,BN,BK": [(128, 256, 64)], "STAGES": [3], "WARPS": [8], "GROUP_M": [4, 16]},
               {"kernel": [("gemm_ws", "multiprocessors")],
                "BM,BN,BK,STAGES": [(128, 256, 64, 3), (128, 256, 64, 4), (128, 256, 128, 2), (128, 192, 64, 5), (128, 256, 32, 8)],
                "GROUP_M": [4, 8, 16]}],
    "attention": [{"kernel": [("attention", "blocks")],
                   "BM,BN": [(128, 128), (128, 64), (128, 96), (128, 80), (128, 176), (192, 80), (192, 128)],
                   "STAGES": [2, 3], "WARPS": [8, 12]},
                  {"kernel": [("attention_ws", "multiprocessors")],
                   "BM,BN,CONSUMERS,REGISTERS": [(128, 128, 2, 240), (192, 80, 3, 160), (192, 64, 3, 160), (128, 112, 2, 240)],
                   "STAGES": [2], "DYNAMIC": ["true", "false"]}],
}
for _kind in ("softmax", "layer_norm", "rms_norm"):
    GRIDS[_kind] = [{"kernel": [(_kind, "rows")], "BLOCK": [None], "WARPS": [2, 4, 8, 16, 32]},
                    {"kernel": [(_kind + "_long", "rows")], "BLOCK": [2048, 4096], "WARPS": [4, 8]}]


def configurations(work, target):
    """{name: fields of a configs.Config}"""
    rule = configs.pick(work.kind, target, work.type, ours.rule_sizes(work))
    found = {"rule": vars(rule)}
    for grid in GRIDS[work.kind]:
        names = [n for n in grid if n != "kernel"]
        for (kernel, programs), *values in itertools.product(grid["kernel"], *(grid[n] for n in names)):
            params = {}
            for name, value in zip(names, values):
                params |= dict(zip(name.split(","), value)) if "," in name else {name: value}
            if params.get("BLOCK", 0) is None:
                params["BLOCK"] = 1 << (work.sizes["cols"] - 1).bit_length()
            if kernel == "attention" and (params["BM"] == 192) != (params["WARPS"] == 12):
                continue  # a warpgroup for each 64 rows
            file = kernel + ".tlx" if kernel in ("gemm_ws", "attention_ws", "softmax", "softmax_long") else rule.file
            name = kernel + " " + " ".join(f"{k}={v}" for k, v in params.items())
            found[name] = vars(configs.Config(file, kernel, params, rule.facts, programs))
    return found

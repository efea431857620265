#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speed on a GPU, beside PyTorch (cuBLAS, device copies) in the same run. Needs PyTorch and a CUDA device.

Each sample replays a CUDA graph of one contender: some 80 ms untimed, then 120 ms timed; contenders come in random order, five
rounds, medians. Prints a JSON document; bench/results keeps them with machine, date, commit and command."""
import argparse
import json
import pathlib
import random
import statistics
import subprocess

import torch

import gpu_timing
import tlxlib

KERNELS = tlxlib.ROOT / "kernels"


def seconds(call, calls=10, warm=0.08, timed=0.12):
    return gpu_timing.seconds(gpu_timing.capture(call, calls).replay, warm, timed) / calls


def measure(contenders, rounds):
    times = {name: [] for name in contenders}
    for _ in range(rounds):
        for name in random.sample(list(contenders), len(contenders)):
            times[name].append(seconds(contenders[name]))
    return {name: statistics.median(t) for name, t in times.items()}


def compile_kernel(lib, device, file, kernel, target, params, facts):
    return lib.compile((KERNELS / file).read_text(), file, kernel, target, device, params, facts)


def relative_error(out, ref):
    return float((out.double() - ref).norm() / ref.norm())


def vector_add(lib, device, target, rounds):
    n = 64 << 20  # 256 MiB of f32
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    out, copy = torch.empty_like(x), torch.empty_like(x)
    results = []
    for block in (1024, 2048, 4096):
        k = compile_kernel(lib, device, "vector_add.tlx", "vector_add", target, [("BLOCK", block)],
                           ["aligned(x, 16)", "aligned(y, 16)", "aligned(out, 16)", "n % 16 == 0"])
        launch = k.launcher(((n + block - 1) // block,), [x, y, out, n])
        out.fill_(float("nan"))
        launch()
        torch.cuda.synchronize()
        assert torch.equal(out, x + y)
        t = measure({"copy": lambda s: copy.copy_(x), "tlx": launch}, rounds)
        rate, copy_rate = 3 * 4 * n / t["tlx"], 2 * 4 * n / t["copy"]
        results.append({"block": block, "GB/s": rate / 1e9, "copy GB/s": copy_rate / 1e9, "ratio": rate / copy_rate,
                        "registers": k.metadata.get("resources", {})})
    return results


def softmax(lib, device, target, rounds):
    rows, cols = 65536, 4096
    x = torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16)
    y, copy = torch.empty_like(x), torch.empty_like(x)
    k = compile_kernel(lib, device, "softmax.tlx", "softmax", target, [("BLOCK", cols), ("T", "bf16")],
                       ["aligned(x, 16)", "aligned(y, 16)", "cols % 16 == 0", "stride % 16 == 0"])
    launch = k.launcher((rows,), [x, y, cols, cols])
    y.fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    error = relative_error(y[:1024], torch.softmax(x[:1024].double(), 1))
    assert error < 1e-2, error
    # The yardstick is the fastest copy there is: of the same bytes, or of 256 MiB blocks as in vector_add (a copy of 512 MiB between two
    # allocations can run at two thirds of that).
    small = torch.empty(64 << 20, device="cuda"), torch.empty(64 << 20, device="cuda")
    t = measure({"copy": lambda s: copy.copy_(x), "copy 256 MiB": lambda s: small[1].copy_(small[0]), "tlx": launch,
                 "torch": lambda s: torch.softmax(x, 1)}, rounds)
    bytes_ = 2 * 2 * rows * cols
    best = max(bytes_ / t["copy"], 2 * 4 * small[0].numel() / t["copy 256 MiB"])
    return {"error": error, "GB/s": bytes_ / t["tlx"] / 1e9, "same copy GB/s": bytes_ / t["copy"] / 1e9, "best copy GB/s": best / 1e9,
            "torch GB/s": bytes_ / t["torch"] / 1e9, "ratio": bytes_ / t["tlx"] / best, "registers": k.metadata.get("resources", {})}


MATMUL_CONFIGS = [  # BM, BN, BK, stages, warps
    (128, 128, 32, 4, 4), (128, 128, 64, 3, 4), (128, 256, 32, 4, 8), (128, 256, 64, 3, 8), (256, 128, 32, 4, 8), (256, 128, 64, 3, 8), (128, 128, 64, 4, 8)]


def matmul(lib, device, target, rounds, size=4096, configs=MATMUL_CONFIGS):
    a = torch.randn(size, size, device="cuda", dtype=torch.float16)
    b = torch.randn(size, size, device="cuda", dtype=torch.float16)
    c = torch.empty(size, size, device="cuda", dtype=torch.float16)
    reference = (a.double() @ b.double())
    contenders, notes = {"cublas": lambda s: torch.matmul(a, b)}, {}
    for bm, bn, bk, stages, warps in configs:
        name = f"{bm}x{bn}x{bk} stages {stages} warps {warps}"
        try:
            k = compile_kernel(lib, device, "matmul_pointers.tlx", "matmul_pointers", target,
                               [("BM", bm), ("BN", bn), ("BK", bk), ("STAGES", stages), ("WARPS", warps), ("T", "f16")],
                               ["aligned(a, 16)", "aligned(b, 16)", "aligned(c, 16)", "M % 16 == 0", "N % 16 == 0", "K % 16 == 0",
                                "lda % 16 == 0", "ldb % 16 == 0", "ldc % 16 == 0", f"K % {bk} == 0"])
            launch = k.launcher((-(-size // bm) * -(-size // bn),), [a, b, c, size, size, size, size, size, size])
            c.fill_(float("nan"))
            launch()
            torch.cuda.synchronize()
            error = relative_error(c, reference)
            assert error < 1e-3, error
            contenders[name] = launch
            notes[name] = {"error": error, **k.metadata.get("resources", {}), "shared": k.metadata.get("shared_bytes")}
        except Exception as e:  # a configuration that does not fit must not end the run
            notes[name] = {"failed": str(e)[:300]}
    t = measure(contenders, rounds)
    flops = 2.0 * size**3
    return {name: {"TFLOP/s": flops / t[name] / 1e12, "ratio": t["cublas"] / t[name], **notes.get(name, {})} for name in t} | {
        name: n for name, n in notes.items() if "failed" in n}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append")
    parser.add_argument("--only", action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    lib = tlxlib.Library()
    device = lib.device("cuda:0")
    document = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "commit": options.commit,
                "date": subprocess.run(["date", "-u", "+%F %T"], capture_output=True, text=True).stdout.strip()}
    for target in options.target or ["sm_80", "sm_90a"]:
        for name, run in (("vector_add", vector_add), ("softmax", softmax), ("matmul", matmul)):
            if options.only and name not in options.only:
                continue
            document.setdefault(target, {})[name] = run(lib, device, target, options.rounds)
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()

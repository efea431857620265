#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All measurements that this machine allows: compile times (compile_time.py), speed on a GPU by pointers (gpu.py), and beside cuBLAS,
cuDNN, TLX, FlashAttention-3 and Triton (peers/compare.py, which writes bench/results). Says what it leaves out.

  ./dev bench
  ./dev bench --triton-python venv/bin/python --ptxas /path/of/ptxas      # beside Triton, with this ptxas for both
  ./dev bench --torch-python venv/bin/python --only gpu
  ./dev bench --only peers --quick --peers folder/of/wheels
  ./dev bench --only peers --dry-run                                      # without a GPU: checks everything but speed"""
import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def title(text):
    print(f"# {text}\n", flush=True)


def compile_times(options):
    title("Compile times")
    command = [sys.executable, str(HERE / "compile_time.py"), "--repeat", str(options.repeat)]
    if options.ptxas:
        command += ["--ptxas", options.ptxas]
    if options.triton_python:
        command += ["--triton-python", options.triton_python]
    else:
        print("Skipped: Triton beside ours; --triton-python names the Python of an environment that has it.\n", flush=True)
    return subprocess.run(command).returncode


def has_gpu(python):
    """Says why not."""
    probe = ("import sys\ntry:\n    import torch\nexcept ImportError:\n    sys.exit('no PyTorch in this Python')\n"
             "if not torch.cuda.is_available():\n    sys.exit('PyTorch sees no CUDA device')")
    found = subprocess.run([python, "-c", probe], capture_output=True, text=True)
    if found.returncode:
        reason = (found.stderr.strip().splitlines() or ["Python does not start"])[-1]
        print(f"Skipped: speed on a GPU, which needs PyTorch with CUDA ({reason}); --torch-python names another Python.\n", flush=True)
        return False
    return True


def gpu(options):
    title("Speed on a GPU")
    python = options.torch_python
    if not has_gpu(python):
        return 0
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    return subprocess.run([python, str(HERE / "gpu.py"), "--commit", commit]).returncode


def peers(options):
    title("Beside its peers")
    if not options.dry_run and not has_gpu(options.torch_python):
        return 0
    command = [sys.executable, str(HERE / "peers" / "compare.py"), "--torch-python", options.torch_python]
    if options.triton_python:
        command += ["--triton-python", options.triton_python]
    if options.peers:
        command += ["--peers", options.peers]
    if options.ptxas:
        os.environ["TLX_PTXAS"] = options.ptxas
    command += ["--quick"] * options.quick + ["--dry-run"] * options.dry_run + (["--out", options.out] if options.out else [])
    return subprocess.run(command).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triton-python", default=os.environ.get("TLX_BENCH_TRITON_PYTHON"),
                        help="Python of an environment with Triton; default: TLX_BENCH_TRITON_PYTHON")
    parser.add_argument("--torch-python", default=sys.executable, help="Python of an environment with PyTorch; default: this one")
    parser.add_argument("--ptxas", help="for both sides of the compile times; default: TLX_PTXAS, the PATH, else Triton's own")
    parser.add_argument("--repeat", type=int, default=20, help="repetitions of the compile times")
    parser.add_argument("--peers", help="folder with the unpacked wheels fbtriton (TLX) and fa3-fwd")
    parser.add_argument("--quick", action="store_true", help="peers: a few works, two rounds")
    parser.add_argument("--dry-run", action="store_true", help="peers: without a GPU, at tiny sizes on the simulator")
    parser.add_argument("--out", help="peers: folder of the results; default: bench/results")
    parser.add_argument("--only", choices=["compile", "gpu", "peers"])
    options = parser.parse_args()
    status = 0
    for name, part in (("compile", compile_times), ("gpu", gpu), ("peers", peers)):
        if options.only in (None, name):
            status |= part(options)
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())

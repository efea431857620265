#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All measurements that this machine allows: compile times (compile_time.py), and speed on a GPU (gpu.py). Says what it leaves out.

  ./dev bench
  ./dev bench --triton-python venv/bin/python --ptxas /path/of/ptxas      # beside Triton, with this ptxas for both
  ./dev bench --torch-python venv/bin/python --only gpu"""
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


def gpu(options):
    title("Speed on a GPU")
    probe = ("import sys\ntry:\n    import torch\nexcept ImportError:\n    sys.exit('no PyTorch in this Python')\n"
             "if not torch.cuda.is_available():\n    sys.exit('PyTorch sees no CUDA device')")
    python = options.torch_python
    found = subprocess.run([python, "-c", probe], capture_output=True, text=True)
    if found.returncode:
        reason = (found.stderr.strip().splitlines() or ["Python does not start"])[-1]
        print(f"Skipped: speed on a GPU, which needs PyTorch with CUDA ({reason}); --torch-python names another Python.", flush=True)
        return 0
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    return subprocess.run([python, str(HERE / "gpu.py"), "--commit", commit]).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triton-python", default=os.environ.get("TLX_BENCH_TRITON_PYTHON"),
                        help="Python of an environment with Triton; default: TLX_BENCH_TRITON_PYTHON")
    parser.add_argument("--torch-python", default=sys.executable, help="Python of an environment with PyTorch; default: this one")
    parser.add_argument("--ptxas", help="for both sides of the compile times; default: TLX_PTXAS, the PATH, else Triton's own")
    parser.add_argument("--repeat", type=int, default=20, help="repetitions of the compile times")
    parser.add_argument("--only", choices=["compile", "gpu"])
    options = parser.parse_args()
    status = 0
    if options.only != "gpu":
        status |= compile_times(options)
    if options.only != "compile":
        status |= gpu(options)
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())

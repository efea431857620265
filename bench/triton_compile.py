#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles one kernel with Triton, or one of TLX's tutorials with its fork of Triton, for a GPU that need not be there, and prints where
the time went as JSON (seconds).

compile_time.py starts it with the Python of an environment that holds Triton: triton_compile.py KERNEL TARGET LATER. LATER: how often to
compile again in this process, each time with the cache emptied. TRITON_CACHE_DIR must be an empty directory; TRITON_PTXAS_PATH names
ptxas."""
import json
import os
import pathlib
import shutil
import sys
import time
from unittest import mock

DESCRIPTORS = "q=tensordesc<fp16[128,128]> k=tensordesc<fp16[128,128]> v=tensordesc<fp16[128,128]> o=tensordesc<fp16[128,128]>"
POINTERS = ("a=*fp16:16 b=*fp16:16 c=*fp16:16 M=i32:16 N=i32:16 K=i32:16 stride_am=i32:16 stride_ak==1 stride_bk=i32:16 stride_bn==1 "
            "stride_cm=i32:16 stride_cn==1")
KERNELS = {  # file, function, arguments (":16": known to be divisible by 16; "=1": specialised), parameters, options
    "matmul": ("triton_matmul", "matmul", POINTERS, {"BM": 128, "BN": 256, "BK": 64, "GROUP_M": 8}, {"num_warps": 8, "num_stages": 3}),
    "attention": ("triton_attention", "attention", DESCRIPTORS + " lse=*fp32:16 seq=i32:16 scale=fp32",
                  {"D": 128, "BM": 128, "BN": 128, "CAUSAL": False}, {"num_warps": 8, "num_stages": 2}),
    "attention_causal": ("triton_attention", "attention", DESCRIPTORS + " lse=*fp32:16 seq=i32:16 scale=fp32",
                         {"D": 128, "BM": 128, "BN": 128, "CAUSAL": True}, {"num_warps": 8, "num_stages": 2}),
    "gemm_ws": ("tlx:hopper_gemm_ws", "matmul_kernel_tlx_ws",
                "a_desc=tensordesc<fp16[64,64]> b_desc=tensordesc<fp16[64,256]> c_desc=tensordesc<fp16[64,256]> M=i32:16 N=i32:16 K=i32:16",
                {"BM": 128, "BN": 256, "BK": 64, "GROUP_SIZE_M": 8, "NUM_STAGES": 3, "NUM_MMA_WARPS": 8, "NUM_MMA_GROUPS": 2,
                 "EPILOGUE_SUBTILE": False, "NUM_CTAS": 1, "NUM_SMS": 132, "USE_WARP_BARRIER": False, "A_ROW_MAJOR": True,
                 "B_ROW_MAJOR": True}, {"num_warps": 4, "num_stages": 1, "ctas_per_cga": (1, 1, 1)}),
    "attention_ws": ("tlx:hopper_fa_ws_pipelined_pingpong_persistent", "_attn_fwd_ws_pipelined_pingpong_persistent",
                     "sm_scale=fp32 M=*fp32:16 Z=i32 H=i32:16 desc_q=tensordesc<fp16[64,128]> desc_k=tensordesc<fp16[128,128]> "
                     "desc_v=tensordesc<fp16[128,128]> desc_o=tensordesc<fp16[64,128]> N_CTX=i32:16",
                     {"HEAD_DIM": 128, "BLOCK_M": 128, "BLOCK_N": 128, "FP8_OUTPUT": False, "NUM_BUFFERS_Q": 1, "NUM_BUFFERS_KV": 2,
                      "NUM_MMA_WARPS": 8, "NUM_MMA_GROUPS": 2}, {"num_warps": 4, "num_stages": 1}),
    "vector_add": ("triton_small", "vector_add", "x=*fp32:16 y=*fp32:16 out=*fp32:16 n=i32:16", {"BLOCK": 1024}, {"num_warps": 4}),
    "softmax": ("triton_small", "softmax", "x=*bf16:16 y=*bf16:16 cols=i32:16 stride=i64:16", {"BLOCK": 4096}, {"num_warps": 4}),
}


def tutorial(name, gpu):
    """A file of TLX's tutorials, which ask for a device and PyTorch when they are imported: stand-ins answer, nothing is launched."""
    import importlib.util

    import triton
    for module in ("torch", "torch.nn", "torch.nn.functional", "pytest"):
        sys.modules.setdefault(module, mock.MagicMock(__version__="2.9.0"))
    triton.runtime.driver.set_active(mock.MagicMock(get_current_target=lambda: gpu))
    file = pathlib.Path(triton.__file__).parent / "language/extra/tlx/tutorials" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    name, target, later = sys.argv[1], sys.argv[2], int(sys.argv[3])
    cache = os.environ["TRITON_CACHE_DIR"]
    assert not os.listdir(cache), "TRITON_CACHE_DIR is not empty"
    clock = [time.perf_counter()]
    document = {}

    def lap(what):
        clock.append(time.perf_counter())
        document[what] = clock[-1] - clock[-2]

    import importlib

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend
    from triton.runtime.cache import triton_key
    lap("import triton")
    file, kernel, arguments, params, options = KERNELS[name]
    gpu = GPUTarget("cuda", int(target.removeprefix("sm_").removesuffix("a")), 32)
    function = getattr(tutorial(file[4:], gpu) if file.startswith("tlx:") else importlib.import_module(file), kernel)
    while not isinstance(function, triton.runtime.jit.JITFunction):
        function = function.fn  # in its list of configurations
    lap("kernel file")
    # For its cache key Triton hashes its own files and asks ptxas for its version, once per process: measured apart from the compile.
    triton_key()
    make_backend(gpu).hash()
    lap("hash own files")

    signature, constants, attributes = {}, {}, {}
    for item in arguments.split():
        argument, _, type_ = item.partition("=")
        at = (function.arg_names.index(argument),)
        if type_.startswith("="):
            signature[argument], constants[at] = "constexpr", int(type_[1:])
            continue
        signature[argument], _, divisor = type_.partition(":")
        if divisor:
            attributes[at] = [["tt.divisibility", int(divisor)]]
    for parameter, value in params.items():
        signature[parameter], constants[(function.arg_names.index(parameter),)] = "constexpr", value
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)

    stages = {}

    def listener(**report):
        stages.clear()
        stages["ast to ttir"] = report["times"].ir_initialization * 1e-6
        stages.update({stage: us * 1e-6 for stage, us in report["times"].lowering_stages})

    triton.knobs.compilation.listener = listener
    document["compiles"] = []
    for _ in range(1 + later):
        shutil.rmtree(cache)
        os.mkdir(cache)
        start, start_cpu = time.perf_counter(), time.process_time()
        kernel = triton.compile(source, target=gpu, options=options)
        document["compiles"].append({"call": time.perf_counter() - start, "cpu": time.process_time() - start_cpu, "stages": dict(stages)})
    document["version"] = triton.__version__
    document["ptx"] = kernel.asm["ptx"]
    document["shared"] = kernel.metadata.shared
    json.dump(document, sys.stdout)


if __name__ == "__main__":
    main()

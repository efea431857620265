# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How something on the GPU is timed, here and among the peers. Needs PyTorch and a CUDA device."""
import torch


def capture(call, calls):
    """A CUDA graph of `calls` calls, after three outside it. `call` takes a stream."""
    for _ in range(3):
        call(torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call(torch.cuda.current_stream().cuda_stream)
    return graph


def seconds(once, warm, timed):
    """Seconds of one `once`: as many as fill `warm` seconds untimed, then as many as fill `timed`."""
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

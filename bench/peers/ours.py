# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The project's kernels for a work: compiled by the rule of kernels/configs.json and bound to arrays. Knows no PyTorch: an array is what
has data_ptr(), shape and stride()."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import configs  # noqa: E402
import tlxlib  # noqa: E402

KERNELS = tlxlib.ROOT / "kernels"
EPS = 1e-5


def rule_sizes(work):
    s = dict(work.sizes)
    if work.kind == "attention":
        s["heads"] *= s["batch"]
    return s


def params_of(work, config):
    extra = {"T": work.type}
    if work.kind == "attention":
        even = work.sizes["seq"] % config.params["BN"] == 0
        extra |= {"D": work.sizes["D"], "CAUSAL": str(work.sizes["causal"]).lower(), "EVEN": str(even).lower()}
    return config.params | extra


def facts_of(work, config):
    """Those of the rule, if the sizes keep them; arrays are aligned."""
    return config.facts if work.sizes.get("cols", 16) % 16 == 0 else [f for f in config.facts if f.startswith("aligned")]


def compile_work(library, device, target, work, config=None):
    """(kernel, config)"""
    config = config or configs.pick(work.kind, target, work.type, rule_sizes(work))
    kernel = library.compile((KERNELS / config.file).read_text(), config.file, config.kernel, target, device,
                             list(params_of(work, config).items()), facts_of(work, config))
    return kernel, config


def arguments(work, data, config):
    """In the order of the kernel's declaration. `data` has the arrays by name."""
    s = work.sizes
    if work.kind == "matmul":
        return [data["a"], data["b"], data["out"], s["M"], s["N"], s["K"]]
    if work.kind == "attention":
        if config.kernel == "attention_ws":
            return [data["q"], data["k"], data["v"], data["out"], data["lse"], data["counter"], s["seq"], rule_sizes(work)["heads"], s["D"] ** -0.5]
        return [data["q"], data["k"], data["v"], data["out"], data["lse"], s["seq"], s["D"] ** -0.5]
    if work.kind == "softmax":
        return [data["x"], data["out"], s["cols"], s["cols"]]
    weights = [data["weight"], data["bias"]] if work.kind == "layer_norm" else [data["weight"]]
    return [data["x"], *weights, data["out"], s["cols"], s["cols"], EPS]


def launcher(library, device, target, work, data, multiprocessors, config=None):
    """A callable that launches on a stream, the kernel's metadata, and the config."""
    kernel, config = compile_work(library, device, target, work, config)
    launch = kernel.launcher(config.grid(rule_sizes(work), multiprocessors), arguments(work, data, config))
    return launch, kernel.metadata, config

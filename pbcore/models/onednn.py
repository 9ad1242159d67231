"""Matrix products by oneDNN, where they are faster than PyTorch's own: float32 on x86 processors
that aren't Intel's.
"""

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.qwen2.modeling_qwen2 import Qwen2MLP
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP


class OneDnnLinear(nn.Module):
    """An nn.Linear, with its own parameters, computed by oneDNN. Answers are those of nn.Linear up
    to rounding.

    PyTorch multiplies float32 matrices with MKL, which keeps its AVX-512 code for Intel's
    processors. oneDNN comes with PyTorch too and uses what a processor has: `pytest -m speed
    benches/test_onednn_speed.py -s` measures the difference.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight
        self.bias = linear.bias

    def forward(self, x: Tensor, function: str = "none") -> Tensor:
        """`x` (…, H) times the weights, plus the bias, then an elementwise function: (…, I)."""
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.weight, self.bias, function, [], ""
        )
        return result


class Gated(nn.Module):
    """The gated MLP of Llama and Qwen, down(silu(gate(x)) · up(x)), with its parameters under the
    same names.
    """

    def __init__(self, mlp: Any) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = map(
            OneDnnLinear, (mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        )

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_proj(x, "swish"), self.up_proj  # (…, I)
        inner = torch.ops.mkldnn._linear_pointwise.binary(x, gate, up.weight, up.bias, "mul")
        result: Tensor = self.down_proj(inner)
        return result


def with_onednn(module: nn.Module) -> nn.Module:
    """The module with oneDNN's products where they are faster and it computes in float32 on a CPU;
    else as it was. `torch.backends.mkldnn.enabled = False` before loading leaves every model as it
    was.
    """
    weights = next(module.parameters())
    fits = weights.device.type == "cpu" and weights.dtype == torch.float32
    if fits and torch.backends.mkldnn.enabled and onednn_is_faster():
        _replace_products(module)
    return module


@cache
def onednn_is_faster() -> bool:
    """Whether this is an x86 processor that isn't Intel's, and this PyTorch has oneDNN's fused
    product.
    """
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not available or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    info = Path("/proc/cpuinfo")
    processor = (
        info.read_text(encoding="utf-8", errors="replace")
        if info.is_file()
        else platform.processor()
    )
    return platform.machine().lower() in ("x86_64", "amd64") and "GenuineIntel" not in processor


def _replace_products(module: nn.Module) -> None:
    for name, child in list(module.named_children()):
        if isinstance(child, LlamaMLP | Qwen2MLP | Qwen3MLP) and child.config.hidden_act == "silu":
            setattr(module, name, Gated(child))
        elif type(child) is nn.Linear:
            setattr(module, name, OneDnnLinear(child))
        else:
            _replace_products(child)

"""Muon in float32, and the split of parameters between it and AdamW. `torch.optim.Muon`
orthogonalises in bfloat16, matrix by matrix, which on processors without bfloat16 units takes
longer than the forward and backward pass. This class applies the same rule in the gradients' own
precision, to matrices of equal shape at once.
"""

import re
from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import Module, Parameter

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def orthogonalised(matrices: Tensor) -> Tensor:
    """Approximately the nearest orthogonal matrix to each of (B, rows, columns): Newton–Schulz with
    Muon's quintic coefficients.
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT  # (B, rows, rows)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum (Jordan et al. 2024), with the update scaled to AdamW's size by
    0.2·√max(rows, columns), like `torch.optim.Muon(adjust_lr_fn="match_rms_adamw")`: Nesterov
    momentum and decoupled weight decay.
    """

    def __init__(
        self,
        params: Iterable[Parameter],
        lr: float,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Parameter]] = defaultdict(list)
            for param in group["params"]:
                by_shape[param.shape].append(param)
            for shape, params in by_shape.items():
                updates = orthogonalised(
                    torch.stack([self._momentum(param, group["momentum"]) for param in params])
                )
                for param, update in zip(params, updates, strict=True):
                    param.mul_(1 - group["lr"] * group["weight_decay"])
                    param.add_(update, alpha=-group["lr"] * 0.2 * max(shape) ** 0.5)

    def _momentum(self, param: Parameter, momentum: float) -> Tensor:
        if param.grad is None:
            raise ValueError("Muon: a parameter has no gradient; call backward() first")
        buffer: Tensor = self.state[param].setdefault("momentum_buffer", torch.zeros_like(param))
        buffer.lerp_(param.grad, 1 - momentum)
        return param.grad.lerp(buffer, momentum)


def optimizers(model: Module, rate: float) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the layers' matrices, AdamW for embeddings, norms and conditioning, both with
    learning rate `rate`.
    """
    layers = re.compile(r"(^|\.)(layers|blocks)\.(?!.*adaLN)")
    matrices = [
        param for name, param in model.named_parameters() if param.ndim == 2 and layers.search(name)
    ]
    others = [
        param for param in model.parameters() if all(param is not matrix for matrix in matrices)
    ]
    return Muon(matrices, lr=rate), torch.optim.AdamW(
        others, lr=rate, betas=(0.9, 0.95), weight_decay=0.0
    )

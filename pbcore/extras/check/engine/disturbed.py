"""A model whose logits are disturbed, as rounding would, and the margins of tokens that no policy
chooses.

R rows, V tokens.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pbcore.models.base import Query, Request


class Disturbed:
    """A masked model whose logits get Gaussian noise of standard deviation `noise`; 0: none.
    `stored` has the smallest gap, in logits, of the tokens that storing forwards predict, by the
    rows' keys.
    """

    def __init__(self, model: Any, noise: float = 0.0, seed: int = 0) -> None:
        self._model = model
        self.noise = noise
        self.generator = torch.Generator().manual_seed(seed)
        self.stored: dict[int, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> Any:
        """A batch whose logits are disturbed.

        Args:
            requests: the rows.
            cache: `prefix`, `dual` or None.
            seed: of the draws.
        """
        inner = self._model.prepare(requests, cache=cache, seed=seed)
        return _DisturbedContext(self, inner, [request.key for request in requests])

    def disturb(self, logits: Tensor) -> Tensor:
        """Logits with the noise."""
        if not self.noise:
            return logits
        return logits + self.noise * torch.randn(logits.shape, generator=self.generator)


class _DisturbedContext:
    knows_rows = True

    def __init__(self, model: Disturbed, inner: Any, keys: Sequence[int]) -> None:
        self._of = model
        self._inner = inner
        self._keys = list(keys)

    def __copy__(self) -> "_DisturbedContext":
        return _DisturbedContext(self._of, copy.copy(self._inner), self._keys)

    def logits(self, query: Query) -> Tensor:
        return self._of.disturb(self._inner.logits(query))

    def sizes(self, query: Query) -> Any:
        return self._inner.sizes(query)

    @property
    def stored(self) -> Any:
        return self._inner.stored

    def keep(self, rows: Tensor, numbers: Sequence[int] | None = None) -> None:
        self._inner.keep(rows, numbers)
        self._keys = [self._keys[row] for row in rows.tolist()]

    def store(self, canvas: Tensor, block: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        ran, logits = self._inner.store(canvas, block, rows)
        if logits is None:
            return ran, None
        logits = self._of.disturb(logits)  # (R', V)
        allowed = logits.clone()
        allowed[:, self._of.mask_id] = -torch.inf
        top = allowed.topk(2, dim=-1).values
        gaps = (top[:, 0] - top[:, 1]).tolist()
        for row, gap in zip(ran.nonzero()[:, 0].tolist(), gaps, strict=True):
            key = self._keys[row]
            self._of.stored[key] = min(gap, self._of.stored.get(key, gap))
        return ran, logits

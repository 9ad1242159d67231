"""Toy denoisers: logits are a fixed function of the row's canvas, cheap and different at every
state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pbcore.models.base import Attention, Prompt, Query, Request
from pbcore.models.info import ModelInfo

MASK = 0
EOS = 1
Rule = Callable[
    [tuple[int, ...], int, int], list[float]
]  # (canvas of the row, position, key) → logits


def scrambled(vocab_size: int = 12, sharpness: float = 3.0) -> Rule:
    """Logits that look random and change with every revealed token."""

    def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
        generator = torch.Generator().manual_seed(hash((canvas, position, key)) % (1 << 31))
        return (torch.randn(vocab_size, generator=generator) * sharpness).tolist()

    return rule


def web(sharpness: float = 0.3) -> Callable[[tuple[int, ...]], list[list[float]]]:
    """Attention weights (L, L) that look random and change with every revealed token; rows sum to
    1.
    """

    def weights(canvas: tuple[int, ...]) -> list[list[float]]:
        generator = torch.Generator().manual_seed(hash(("web", canvas)) % (1 << 31))
        noise = torch.randn(len(canvas), len(canvas), generator=generator, dtype=torch.double)
        return (noise / sharpness).softmax(-1).tolist()  # type: ignore[no-any-return]

    return weights


@dataclass
class Toy:
    """A denoiser over token ids; it counts its forwards and remembers how many rows each had."""

    rule: Rule = field(default_factory=scrambled)
    vocab_size: int = 12
    name: str = "toy"
    mask_id: int = MASK
    eos_id: int = EOS
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    caches: frozenset[str] = frozenset({"prefix", "dual"})
    reviews: frozenset[str] = frozenset({"seen", "hidden"})
    frequencies: Tensor | None = field(default_factory=lambda: torch.arange(1, 13) / 78)
    attention: bool = True
    web: Callable[[tuple[int, ...]], list[list[float]]] = field(default_factory=web)
    info: ModelInfo = field(default_factory=ModelInfo)
    forwards: list[int] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt of token ids; after a 0 in it comes the canvas (infilling: 0 there is the
        mask).
        """
        ids = [int(token) for token in prompt]  # type: ignore[arg-type, call-overload]
        if -1 in ids:
            cut = ids.index(-1)
            return Request(tuple(ids[:cut]), tuple(ids[cut + 1 :]), key)
        return Request(tuple(ids), (self.mask_id,) * (max_new_tokens or 8), key)

    def text(self, token_ids: Sequence[int]) -> str:
        return " ".join(map(str, token_ids))

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> ToyContext:
        lengths = torch.tensor([len(request.canvas) for request in requests])
        return ToyContext(self, torch.tensor([request.key for request in requests]), lengths)


@dataclass
class Shareable(Toy):
    """A toy whose logits follow from the row's request and canvas alone."""

    deterministic: bool = True


@dataclass
class ToyContext:
    toy: Toy
    keys: Tensor
    lengths: Tensor  # (R,) of the rows' own canvases

    def logits(self, query: Query) -> Tensor:
        assert len(query.canvas) == len(self.keys), "rows of the query and of the context"
        self.toy.forwards.append(len(self.keys))
        self.toy.queries.append(query)
        canvases = [tuple(row) for row in query.canvas.tolist()]
        return self._at(query.want, canvases)

    def logits_and_review(self, query: Query) -> tuple[Tensor, Tensor]:
        assert query.review is not None
        assert bool((query.canvas[query.review] != self.toy.mask_id).all()), (
            "only revealed tokens are reviewed"
        )
        canvases = [tuple(row) for row in query.canvas.tolist()]
        return self.logits(query), self._at(query.review, canvases, query.hidden)

    def logits_and_attention(self, query: Query) -> tuple[Tensor, Tensor | None, Attention]:
        """The toy's web among its canvas, without prompt columns; the sinks are the mean over the
        columns.
        """
        assert query.attending is not None
        assert query.slots is not None
        canvases = [tuple(row) for row in query.canvas.tolist()]
        weights = torch.zeros(*query.canvas.shape, query.canvas.shape[1], dtype=torch.double)
        for row, (canvas, count) in enumerate(zip(canvases, self.lengths.tolist(), strict=True)):
            weights[row, :count, :count] = torch.tensor(
                self.toy.web(canvas[:count]), dtype=torch.double
            )
        chosen = weights.gather(1, query.slots[:, :, None].expand(-1, -1, weights.shape[2]))
        if not query.attending.prompt:
            chosen = chosen.gather(2, query.slots[:, None, :].expand(-1, query.slots.shape[1], -1))
        own = torch.arange(query.canvas.shape[1]) < self.lengths[:, None]
        visible = own & (query.canvas != self.toy.mask_id)
        sinks = weights.sum(1) / self.lengths[:, None] if query.attending.sinks else None
        again = None if query.review is None else self._at(query.review, canvases)
        return self.logits(query), again, Attention(chosen, visible, sinks=sinks)

    def _at(
        self, positions: Tensor, canvases: list[tuple[int, ...]], hidden: bool = False
    ) -> Tensor:
        """Logits of marked positions (R, L), if `hidden` each with its own token masked."""
        rows = []
        for r, c in positions.nonzero().tolist():
            seen = (
                (*canvases[r][:c], self.toy.mask_id, *canvases[r][c + 1 :])
                if hidden
                else canvases[r]
            )
            rows.append(self.toy.rule(seen, c, int(self.keys[r])))
        return torch.tensor(rows).reshape(len(rows), -1 if rows else self.toy.vocab_size)

    def keep(self, rows: Tensor) -> None:
        self.keys = self.keys[rows]
        self.lengths = self.lengths[rows]

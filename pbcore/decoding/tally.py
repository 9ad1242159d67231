"""What the network computed for each answer of a batch, counted on the host: no count waits for a
device.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from pbcore.costs.calls import CallShape, RowSize
from pbcore.models.base import Denoiser, Query, Request, SizedBlockContext, SizedContext


class Tally:
    """How often the network was called for each request, by the size of the call, and the positions
    computed beside, which only filled the batch.

    Args:
        requests: the rows of the batch, as they are decoded.
        counted: whether the sizes of all forwards are known.
    """

    def __init__(self, requests: Sequence[Request], counted: bool) -> None:
        self._whole = [len(request.prompt_ids) + len(request.canvas) for request in requests]
        self._calls: list[Counter[CallShape]] = [Counter() for _ in requests]
        self._padded = [0] * len(requests)
        self._shares = [0.0] * len(requests)
        self.counted = counted

    def count(
        self, origins: Sequence[int], sizes: Sequence[RowSize | None], prefill: bool = False
    ) -> None:
        """One forward.

        Args:
            origins: the request of each of its rows; with what-if rows one occurs several times.
            sizes: what it computed for each of its rows; None: the row took no part.
            prefill: whether it only stored prompts.
        """
        together = defaultdict[tuple[int, int, int], list[RowSize]](list)
        taking_part = defaultdict[int, set[int]](set)  # call of the network → requests
        for origin, size in zip(origins, sizes, strict=True):
            if size is not None:
                together[origin, size.tokens, size.context].append(size)
                taking_part[size.call].add(origin)
        for (origin, tokens, context), alike in together.items():
            rows = len(alike)
            logits = -(-sum(size.logits for size in alike) // rows)  # rounded up
            self._calls[origin][CallShape(rows, tokens, context, logits, prefill)] += 1
            self._padded[origin] += sum(size.padding for size in alike)
        for answers in taking_part.values():
            for origin in answers:
                self._shares[origin] += 1 / len(answers)

    def whole(self, origins: Sequence[int], query: Query) -> list[RowSize]:
        """The sizes of a forward of whole rows, prompt and canvas."""
        wanted = query.wanted or [0] * len(origins)
        again = query.shown or [0] * len(origins)
        return [
            RowSize(self._whole[origin], 0, logits + reviewed)
            for origin, logits, reviewed in zip(origins, wanted, again, strict=True)
        ]

    def calls(self, row: int) -> dict[CallShape, int] | None:
        """The calls for one request; None if they aren't counted."""
        return dict(self._calls[row]) if self.counted else None

    def padded(self, row: int) -> int | None:
        """The positions computed beside those of one request; None if they aren't counted."""
        return self._padded[row] if self.counted else None

    def share(self, row: int) -> float | None:
        """One request's part of the batch's calls, each divided among the answers that take part in
        it; None if they aren't counted.
        """
        return self._shares[row] if self.counted else None


def knows_sizes(model: Denoiser, context: Any, cache: str | None) -> bool:
    """Whether the sizes of all forwards are known: the context gives them, or each is one of whole
    rows.

    Args:
        model: in blocks or not.
        context: of the batch.
        cache: the sampler's, None without one; a cached forward computes parts of a row.
    """
    if model.block:
        return isinstance(context, SizedBlockContext)
    return cache is None or isinstance(context, SizedContext)

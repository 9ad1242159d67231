"""What the harness's results say of each request: forwards, tokens, and the error of a likelihood."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pbcore.results.build import sample_record
from pbcore.tasks.scoring import Scored

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from pbcore.models.base import Generation


@dataclass(frozen=True, slots=True)
class Told:
    """One request: document, number of the request within it, and the turn of a repeated one.

    `canvas_tokens` were decoded, `answer_tokens` of them stand before the first EOS; both None for a likelihood, whose
    `nfe` counts a forward per draw and those of decoding the continuation.
    """

    doc: int
    idx: int
    turn: int
    nfe: int | None = None
    prefill: int | None = None
    store: int | None = None
    canvas_tokens: int | None = None
    answer_tokens: int | None = None
    log_likelihood: float | None = None
    standard_error: float | None = None


@dataclass(slots=True)
class TaskTold:
    """A task's requests, and the seconds that they took together."""

    requests: list[Told] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """With the mean NFE, and tokens per forward summed over requests first, of those that tell them."""
        forwards = [one.nfe for one in self.requests if one.nfe is not None]
        decoded = [one for one in self.requests if one.nfe is not None and one.answer_tokens is not None]
        nfe = sum(one.nfe or 0 for one in decoded)
        return {
            "seconds": self.seconds,
            "nfe_mean": sum(forwards) / len(forwards) if forwards else None,
            "tokens_per_forward": sum(one.answer_tokens or 0 for one in decoded) / nfe if nfe else None,
            "requests": [{k: v for k, v in asdict(one).items() if v is not None} for one in self.requests],
        }


def of_generation(request: Instance, turn: int, answer: Generation) -> Told:
    """What a decoded answer tells, counted as in a record."""
    record = sample_record(0, answer, Scored({}))
    return Told(
        request.doc_id or 0,
        request.idx,
        turn,
        record.nfe,
        record.prefill,
        record.store,
        record.canvas_tokens,
        record.answer_tokens,
    )

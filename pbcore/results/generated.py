"""What a record needs of answers, and what models tell beside them. Imports no torch."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol


class Answer(Protocol):
    """The attributes of a `models.base.Generation` that a record needs."""

    @property
    def text(self) -> str: ...
    @property
    def token_ids(self) -> Sequence[int]: ...
    @property
    def nfe(self) -> int | None: ...
    @property
    def answer_tokens(self) -> int | None: ...
    @property
    def steps(self) -> Sequence[int]: ...
    @property
    def confidences(self) -> Sequence[float]: ...


def generated(answers: Sequence[Answer]) -> dict[str, Any]:
    """Statistics of answers by models without a canvas of the task's length: how many ended by themselves (`stop`) or
    at their limit (`length`), how many had which limit in tokens (`max_new_tokens`), and the mean forwards of the model
    that drafted; empty for other models.
    """
    told = [getattr(answer, "extra", {}) for answer in answers]
    ends = Counter(extra["finish_reason"] for extra in told if "finish_reason" in extra)
    limits = Counter(extra["max_new_tokens"] for extra in told if "max_new_tokens" in extra)
    drafted = [extra["draft_forwards"] for extra in told if "draft_forwards" in extra]
    return {
        **({"finish": dict(sorted(ends.items()))} if ends else {}),
        **({"max_new_tokens": {str(limit): count for limit, count in sorted(limits.items())}} if limits else {}),
        **({"draft_forwards": sum(drafted) / len(told)} if drafted else {}),
    }


def texts_after_eos(answers: Sequence[Answer]) -> int | None:
    """How many answers have text after their first EOS; None unless all of them tell."""
    told = [
        getattr(answer, "official_text", None) is not None or getattr(answer, "text_after_eos", None)
        for answer in answers
    ]
    return None if None in told else sum(map(bool, told))

"""Sample: one question with its label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """One question with its label.

    `messages` is the whole chat, shots included. `input` holds the values that fill the prompt (`context`, `word`,
    `index`, `words`, `text`, `sudoku`, `symbols` …) and `label` the official `answer` value: a string, or a mapping
    such as `{"input": [...], "example": "..."}` where several answers are valid. `max_new_tokens` is the canvas length
    in tokens; `limited` says that a run or a harness task asked for it, so that it also holds for models without a
    canvas. `canvas` is None, or for infilling the answer with `[MASK]` for each token to predict. `source` is `own`,
    `official` or `rewrite-2026` (`tasks.naming.REWRITE`).
    """

    task: str
    index: int
    messages: tuple[Message, ...]
    input: Mapping[str, Any]
    label: Any
    max_new_tokens: int
    length: int | None = None
    canvas: str | None = None
    source: str = "own"
    limited: bool = False

    def answer_limit(self, own: int) -> int:
        """The most tokens of an answer by a model without a canvas, whose own limit is `own`: what was asked for, else
        the larger of that limit and the canvas length."""
        return self.max_new_tokens if self.limited else max(self.max_new_tokens, own)

    @property
    def prompt(self) -> str:
        """The last user turn: the question without its shots."""
        return self.messages[-1]["content"]

    @property
    def answer(self) -> str | None:
        """One correct answer as text; None if the label has none."""
        if isinstance(self.label, str):
            return self.label
        for key in ("example", "summary"):
            if isinstance(self.label.get(key), str):
                return str(self.label[key])
        return None

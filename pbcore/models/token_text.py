"""Single tokens as text, for showing trajectories."""

from collections.abc import Callable
from functools import cache
from typing import Any

EOS = "<eos>"


def pieces(model: Any) -> Callable[[int], str] | None:
    """Token id → its text (`<eos>` for tokens that end an answer, `<7>` for those without a text), for any kind of
    model; None for one that tells no tokens.
    """
    text = getattr(model, "text", None)
    if not callable(text):
        return None
    stops = frozenset(getattr(model, "stop_ids", ())) | {getattr(model, "eos_id", None)}

    @cache
    def piece(token: int) -> str:
        return EOS if token in stops else str(text([token])) or f"<{token}>"

    return piece

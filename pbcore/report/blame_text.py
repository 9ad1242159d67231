"""What the blame of an answer says, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from pbcore.base.printable import step_number
from pbcore.results.record import Blame, BlamedToken

NAMED = 8  # tokens of a step that a sentence names


def blame_sentences(blame: Blame) -> list[str]:
    """Why an answer is wrong, a line per thought."""
    if blame.verdict == "model":
        return ["One token at a time from the start: wrong, too. The model is to blame."]
    if blame.verdict == "gained":
        return ["One token at a time from the start: wrong."]
    if blame.step is None:
        return [f"Not decided which step broke it: {blame.reason}."]
    number = step_number(blame.step)
    if blame.verdict == "undecided":
        lines = [f"Step {number} broke it. Not decided by which token: {blame.reason}."]
    else:
        lines = [f"Step {number} {_revealed(blame)}"]
    start = "the start" if blame.step == 0 else f"step {number - 1}"
    return [*lines, f"One at a time from {start}: right."]


def _revealed(blame: Blame) -> str:
    """What the step revealed, and what came of it."""
    names = _listed(blame.revealed)
    if len(blame.revealed) == 1 and blame.verdict == "token":
        return f"revealed {names}, which ends wrong one at a time, too."
    tried = [token for token in blame.revealed if token.alone is not None]
    if blame.verdict == "token":
        wrong = _listed([token for token in tried if not token.alone])
        return f"revealed {names} together. Alone, {wrong} would have ended wrong, too."
    each = "Each"
    if len(tried) < len(blame.revealed):
        each = f"Each of the {len(tried)} least sure"
    return f"revealed {names} together. {each} alone would still have ended right."


def _listed(tokens: Sequence[BlamedToken]) -> str:
    """`Hannah (.69), Bob (.70) and Hannah (.74)`."""
    names = [f"{_name(token.token)} ({_share(token.confidence)})" for token in tokens[:NAMED]]
    if len(tokens) > NAMED:
        names.append(f"{len(tokens) - NAMED} more")
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _name(text: str) -> str:
    """A token as a sentence names it."""
    if text == "<eos>":
        return "end"
    return text.strip() or "space"


def _share(value: float) -> str:
    """`.69`, and `1` for what rounds to it."""
    text = f"{value:.2f}"
    return "1" if text.startswith("1") else text.removeprefix("0")

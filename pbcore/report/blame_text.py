"""What broke an answer: the step, the tokens that clash, and the sentences about them. Without
`--blame` it is the step that wrote an item once more than it may stand, where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pbcore.base.printable import printable, step_number
from pbcore.models.tokenizer import EOS
from pbcore.results.record import Blame, BlamedToken, SampleRecord
from pbcore.tasks.cot import final_answer
from pbcore.tasks.scoring import Repeated

ORDINALS = ("second", "third", "fourth", "fifth")
ITEM = 60  # characters of an item that a sentence names


@dataclass(frozen=True, slots=True)
class Broken:
    """What broke an answer.

    - `lines`: a sentence per thought.
    - `step`: the step, from 0 as in records; None where it isn't known.
    - `places`: the positions of the tokens that clash; `names` are theirs, with their confidences,
      where its blame tells.
    - `verdict`: that of its blame in a word or two; empty without one.
    """

    lines: Sequence[str]
    step: int | None = None
    places: Sequence[int] = ()
    verdict: str = ""
    names: str = ""


def broken(record: SampleRecord) -> Broken | None:
    """What broke an answer, as far as its record tells: its blame, and where that names no step, or
    is missing, the item that stands once too often; None if neither is known.
    """
    blame = record.blame
    if blame is not None and blame.verdict == "gained":
        return None
    lines = [] if blame is None else blame_sentences(blame)
    if blame is not None and blame.step is not None:
        places = [token.at for token in clashing(blame)]
        return Broken(lines, blame.step, places, blame.verdict, clash_names(blame))
    again = written_again(record)
    verdict = "" if blame is None else blame.verdict
    if again is not None:
        return Broken([*lines, again.sentence], again.step, again.places, verdict)
    return Broken(lines, verdict=verdict) if lines else None


def before_end(tokens: Sequence[str]) -> Sequence[str]:
    """The tokens of an answer before its first EOS."""
    return tokens[: tokens.index(EOS)] if EOS in tokens else tokens


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
        lines = [f"Step {number} revealed {_outcome(blame)}"]
    start = "the start" if blame.step == 0 else f"step {number - 1}"
    return [*lines, f"One at a time from {start}: right."]


def clashing(blame: Blame) -> list[BlamedToken]:
    """The tokens that clash: the smallest set that was found; else the least sure of those that end
    wrong alone, or all that aren't certain.
    """
    if blame.clash:
        return [token for token in blame.revealed if token.at in blame.clash]
    wrong = [token for token in blame.revealed if token.alone is False]
    if wrong:
        return [min(wrong, key=lambda token: token.confidence)]
    return [token for token in blame.revealed if not token.certain] or list(blame.revealed)


def clash_names(blame: Blame) -> str:
    """The tokens that clash with their confidences: `Hannah (.69) and Hannah (.74)`."""
    names = [f"{_name(token.token)} ({_share(token.confidence)})" for token in clashing(blame)]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _outcome(blame: Blame) -> str:
    """The tokens that clash, and what would have come of fewer."""
    names = clash_names(blame)
    if blame.verdict == "token":
        return f"{names}, which ends wrong one at a time, too."
    if len(blame.clash) > 2:
        return f"{names} together. Without any one of them it would still have ended right."
    return f"{names} together. Each alone would still have ended right."


def _name(text: str) -> str:
    """A token as a sentence names it."""
    if text == EOS:
        return "end"
    return printable(text.strip(), ITEM) or "space"


def _share(value: float) -> str:
    """`.69`, and `1` for what rounds to it."""
    text = f"{value:.2f}"
    return "1" if text.startswith("1") else text.removeprefix("0")


class Again(NamedTuple):
    """An item that was written once more than it may stand: by which step (from 0), where all its
    tokens are that stood then, and a sentence.
    """

    step: int
    places: Sequence[int]
    sentence: str


def written_again(record: SampleRecord) -> Again | None:
    """The first step after which an item stands more often than it may; None where no item does, or
    where the record doesn't tell its steps.
    """
    tokens = record.tokens or []
    repeats = record.details.get("repeated")
    if not record.steps or not isinstance(repeats, list):
        return None
    ended = before_end(tokens)
    text = _scored_text(record, repeats)
    start = "".join(ended).rfind(text.strip())
    if not text or start < 0:  # the tokens' texts don't join to the answer's
        return None
    start -= len(text) - len(text.lstrip())
    found = []
    for entry in repeats:
        stands = []
        for at in entry["at"]:
            places = _places(ended, start + at, len(entry["item"]))
            if places:
                stands.append((max(record.steps[place] for place in places), places))
        if len(stands) > entry["allowed"] and sorted(stands)[entry["allowed"]][0] >= 0:
            found.append(_again(entry, sorted(stands)))
    return min(found, key=lambda again: again.step, default=None)


def _scored_text(record: SampleRecord, repeats: Sequence[Repeated]) -> str:
    """The text in which the items begin where `repeats` says: the answer, or its final answer after
    steps; empty without one.
    """
    for text in (record.text, final_answer(record.text) or ""):
        if all(text.startswith(entry["item"], at) for entry in repeats for at in entry["at"]):
            return text
    return ""


def _again(entry: Repeated, stands: Sequence[tuple[int, Sequence[int]]]) -> Again:
    """How an item came to stand once too often.

    Args:
        entry: the item.
        stands: each place where it stands, in order: the step that completed it, and its tokens.
    """
    most = entry["allowed"]
    step = stands[most][0]
    times = f"{ORDINALS[most - 1]} time" if most <= len(ORDINALS) else f"{most + 1}th time"
    within = f" in {entry['within']}" if "within" in entry else ""
    item = printable(entry["item"], ITEM)
    places = [place for _, of_item in stands[: most + 1] for place in of_item]
    return Again(step, places, f"Step {step_number(step)} wrote {item} for the {times}{within}.")


def _places(tokens: Sequence[str], start: int, length: int) -> list[int]:
    """The positions of the tokens that hold some characters of their joined text.

    Args:
        tokens: texts.
        start: the first character.
        length: how many.
    """
    places = []
    at = 0
    for place, token in enumerate(tokens):
        if at < start + length and start < at + len(token):
            places.append(place)
        at += len(token)
    return places

"""A film strip of one answer: the canvas before the step that broke it, what that step revealed,
the answer, and how it ends one token at a time instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from pbcore.base.errors import InputError
from pbcore.base.printable import some, step_number
from pbcore.metrics.answers import any_layout_list
from pbcore.report.blame_text import Broken, before_end, broken
from pbcore.report.style import CsvRow, Drawing, label
from pbcore.results.record import Continued, SampleRecord
from pbcore.results.rundir import StoredCell

EDGE = "#B8B8B8"
WRONG = "#C04A00"
RIGHT = "#007A5A"
LETTER = 0.105  # inches a letter, about
GAP = 0.07
ROW = 0.62


@dataclass(frozen=True, slots=True)
class Strip:
    """A canvas of the film: its head, its tokens by position (None: masked), and the positions
    that are pointed out, in `colour`.
    """

    head: str
    tokens: Sequence[str | None]
    marked: frozenset[int]
    colour: str


def film(
    cells: Sequence[StoredCell], cell: str | None = None, question: int | None = None
) -> Drawing:
    """An answer that tokens revealed together broke, step by step: the shortest.

    Args:
        cells: of runs with `--blame`.
        cell: the only one to look at, by its id (`tiny/shuffle/confidence-k4`).
        question: the only one to look at, by its index.

    Raises:
        InputError: for a cell or a question that the runs lack, and if no answer was broken by
            tokens revealed together.
    """
    chosen = [stored for stored in cells if cell in (None, stored.cell.id)]
    if cell is not None and not chosen:
        known = some([stored.cell.id for stored in cells], 6)
        raise InputError(f"no cell {cell!r} in the runs; they have {known}")
    asked = sorted({sample.index for stored in chosen for sample in stored.samples})
    if question is not None and question not in asked:
        raise InputError(f"no question {question} there; there are {some(asked, 12)}")
    broken = list(_broken(chosen, question))
    if not broken:
        which = "" if question is None else f" to question {question}"
        raise InputError(
            f"the runs hold no answer{which} that tokens revealed together broke; measure with"
            " `pytest benches --blame` and a sampler that reveals several tokens per step"
        )
    _, cell_id, sample, strips = min(broken, key=lambda found: found[0])
    rows: list[CsvRow] = []
    for strip in strips:
        for at, token in enumerate(strip.tokens):
            rows.append(
                {"canvas": strip.head, "at": at, "token": token, "marked": at in strip.marked}
            )
    said = f"{cell_id}, question {sample.index}; {strips[-1].head}"
    return Drawing("film", _drawn(strips), rows, said)


def _broken(
    cells: Iterable[StoredCell], question: int | None
) -> Iterator[tuple[int, str, SampleRecord, list[Strip]]]:
    """Answers that tokens revealed together broke: their length in tokens, their cell's id, and
    their canvases.
    """
    for stored in cells:
        for sample in stored.samples:
            why = broken(sample)
            if question not in (None, sample.index) or why is None or why.verdict != "together":
                continue
            if why.step is not None and sample.blame is not None and sample.blame.rest is not None:
                strips = _strips(sample, why, why.step, sample.blame.rest)
                yield len(before_end(sample.tokens or [])), stored.cell.id, sample, strips


def _strips(sample: SampleRecord, why: Broken, step: int, rest: Continued) -> list[Strip]:
    """The four canvases of an answer.

    Args:
        sample: the answer.
        why: what broke it.
        step: that broke it.
        rest: how it ends from the canvas before that step.
    """
    tokens = before_end(sample.tokens or [])
    instead = before_end(rest.tokens)
    clash = frozenset(place for place in why.places if place < len(tokens))
    drawn = [at for at, when in enumerate(rest.steps[: len(instead)]) if when >= step]
    before = _canvas(tokens, sample.steps, step)
    after = _canvas(tokens, sample.steps, step + 1)
    number = step_number(step)
    together = f"step {number} reveals {why.names} together; each alone would still end right"
    one_by_one = f"one token at a time from step {number - 1}: right"
    return [
        Strip(f"before step {number}", before, frozenset(), EDGE),
        Strip(together, after, clash, WRONG),
        Strip(one_by_one, instead, frozenset(drawn), RIGHT),
        Strip(f"the answer, wrong: {_why(sample, rest)}", tokens, clash, WRONG),
    ]


def _why(sample: SampleRecord, rest: Continued) -> str:
    """What stands twice in a wrong answer, else the first item that differs from the right one,
    else what its scorer says.
    """
    why = str(sample.details.get("why", ""))
    if sample.details.get("failure") == "item twice":
        return why
    given = any_layout_list(sample.text)
    right = any_layout_list(rest.text)
    for place, (item, other) in enumerate(zip(given, right, strict=False), start=1):
        if item != other:
            return f"{item} at place {place}, where {other} is right"
    return why


def _canvas(tokens: Sequence[str], steps: Sequence[int], step: int) -> list[str | None]:
    """What stands before a step."""
    return [
        token if when < step else None
        for token, when in zip(tokens, steps[: len(tokens)], strict=True)
    ]


def _drawn(strips: Sequence[Strip]) -> Figure:
    size = max(len(strip.tokens) for strip in strips)
    widths = [_width(strips, at) for at in range(size)]
    width = sum(widths) + GAP * (size + 1)
    height = ROW * len(strips)
    figure = Figure(figsize=(width, height), dpi=150)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_xlim(0, width)
    axis.set_ylim(0, height)
    axis.axis("off")
    for number, strip in enumerate(strips):
        _draw(axis, strip, height - ROW * number, widths)
    return figure


def _width(strips: Sequence[Strip], at: int) -> float:
    """Inches of a position, which the longest of its tokens needs."""
    longest = max(len(_shown(strip.tokens[at])) for strip in strips if at < len(strip.tokens))
    return max(0.3, LETTER * longest + 0.12)


def _shown(token: str | None) -> str:
    return "" if token is None else label(token.strip())


def _draw(axis: Axes, strip: Strip, top: float, widths: Sequence[float]) -> None:
    """One canvas below its head."""
    axis.text(
        GAP, top - 0.07, strip.head.replace("$", r"\$"), fontsize=9, va="top", color="#333333"
    )
    left = GAP
    for at, (token, width) in enumerate(zip(strip.tokens, widths, strict=False)):
        marked = at in strip.marked
        look: Mapping[str, object] = {
            "facecolor": "#E9E9E9" if token is None else "white",
            "edgecolor": strip.colour if marked else EDGE,
            "linewidth": 1.8 if marked else 0.8,
        }
        axis.add_patch(Rectangle((left, top - 0.55), width, 0.27, **look))  # type: ignore[arg-type]
        colour = strip.colour if marked else "#222222"
        axis.text(
            left + width / 2,
            top - 0.42,
            _shown(token),
            fontsize=9,
            ha="center",
            va="center",
            color=colour,
            family="monospace",
        )
        left += width + GAP

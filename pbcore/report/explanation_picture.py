"""An explanation as a picture: from one score to the other, a bar for each option's part."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from pbcore.analysis.explanation import Explanation, OptionShare
from pbcore.base.printable import fixed, signed
from pbcore.report import style
from pbcore.report.explanation import OPEN

NAME = "waterfall"
UP = "#0072B2"
DOWN = "#D55E00"
WHOLE = "#6A6A6A"


def waterfall(explanation: Explanation) -> style.Drawing:
    """From the first score to the second, a bar for each part."""
    steps: list[tuple[str, float]] = [
        (share.change, share.part.points) for share in _known(explanation)
    ]
    if explanation.unexplained is not None:
        steps.append((OPEN, explanation.unexplained.points))
    drawn, [axis] = style.panels([1], 0, "", "")
    drawn.set_size_inches(6.6, 0.9 + 0.34 * (len(steps) + 2))
    names = ["first", *(name for name, _ in steps), "second"]
    level = 100 * explanation.before
    axis.barh(0, level, color=WHOLE)
    axis.text(level, 0, f" {fixed(level)}", va="center", fontsize=8)
    rows: list[style.CsvRow] = [{"part": "first", "points": level}]
    for place, (name, points) in enumerate(steps, 1):
        axis.barh(place, points, left=level, color=UP if points >= 0 else DOWN)
        axis.plot([level, level], [place - 1, place], color=WHOLE, linewidth=0.7)
        level += points
        edge = max(level, level - points)
        axis.text(edge, place, f" {signed(points)}", va="center", fontsize=8)
        rows.append({"part": name, "points": points})
    last = len(steps) + 1
    after = 100 * explanation.after
    axis.barh(last, after, color=WHOLE)
    axis.text(after, last, f" {fixed(after)}", va="center", fontsize=8)
    rows.append({"part": "second", "points": after})
    axis.set_yticks(range(len(names)), [style.label(name) for name in names])
    axis.invert_yaxis()
    axis.set_xlabel("score in %", fontsize=9)
    left, right = axis.get_xlim()
    axis.set_xlim(min(0.0, left), right * 1.12)
    style.finish(axis, style.label(f"{explanation.model}: {signed(explanation.gap.points)} points"))
    drawn.subplots_adjust(left=0.42, right=0.97, top=0.86, bottom=0.2)
    return style.Drawing(NAME, drawn, rows)


def _known(explanation: Explanation) -> Sequence[OptionShare]:
    return [share for share in explanation.shares if not isnan(share.part.points)]

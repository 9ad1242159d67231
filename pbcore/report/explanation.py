"""An explanation as a sentence and a table."""

from __future__ import annotations

from math import isnan

from pbcore.analysis.explanation import Explanation, OptionShare
from pbcore.analysis.shares import Part
from pbcore.base.printable import counted, fixed, signed, some
from pbcore.report import columns as tables
from pbcore.report.cells import NONE
from pbcore.report.sections import Section
from pbcore.tasks.naming import short

TITLE = "Why the scores differ"
OPEN = "not explained"


def sentence(explanation: Explanation) -> str:
    """The explanation in one sentence."""
    gap = explanation.gap
    of_all = f"of {signed(gap.points)} points {_interval(gap)}".rstrip()
    parts = []
    for share in explanation.shares:
        if share.added is not None and share.taken is not None:
            alone = f"{_text(share.added)} alone, {_text(share.taken)} with all others"
            parts.append(f"{share.change}: {alone}")
        elif not isnan(share.part.points):
            parts.append(f"{_text(share.part)} are from {share.change}")
    reasons = dict.fromkeys(share.why for share in explanation.shares if share.why)
    parts += [f"each one's part is {reason}" for reason in reasons]
    if explanation.unexplained is not None:
        parts.append(f"{_text(explanation.unexplained)} {OPEN}")
    tail = ""
    if explanation.unmeasured:
        tail = f"; possible, unmeasured: {some(explanation.unmeasured, 6)}"
    return f"{of_all}, {', '.join(parts)}{tail}"


def explanation_section(explanation: Explanation) -> Section:
    """Its table: a row for each option, what is not explained, and the whole."""
    rows = [_row(share) for share in explanation.shares]
    if explanation.unexplained is not None:
        rows.append({"option": OPEN, "part": _text(explanation.unexplained)})
    rows.append({"option": "in all", "part": _text(explanation.gap)})
    keys = ["option", "first", "second", "part"]
    if not explanation.additive:
        keys = ["option", "first", "second", "added", "taken"]
        rows[-1]["added"] = rows[-1].pop("part")
    heads = {"part": "points", "added": "points, added alone", "taken": "points, in the second"}
    columns = [tables.words(key, heads.get(key, key)) for key in keys]
    shown = [{key: row.get(key, "") for key in keys} for row in rows]
    return Section(TITLE, TITLE, _note(explanation), columns, shown)


def _row(share: OptionShare) -> dict[str, str]:
    row = {"option": share.option, "first": share.before, "second": share.after}
    row["part"] = share.why or _text(share.part)
    row["added"] = share.why if share.added is None else _text(share.added)
    row["taken"] = "" if share.taken is None else _text(share.taken)
    return row


def _note(explanation: Explanation) -> str:
    tasks = ", ".join(map(short, explanation.tasks))
    before = fixed(100 * explanation.before)
    after = fixed(100 * explanation.after)
    how = (
        "an option's part is the mean, over all orders of switching the options, of what its own"
        " switch changes; the parts sum to the whole (Shapley)"
    )
    if not explanation.additive:
        how = (
            f"{len(explanation.shares)} options are too many for shares: each is added alone to the"
            " first setting, and taken alone from the second; these parts need not sum to the whole"
        )
    unmeasured = ""
    if explanation.unmeasured:
        unmeasured = f" Possible, unmeasured: {'; '.join(explanation.unmeasured)}."
    return (
        f"{explanation.model}, {tasks}, {counted(explanation.n, 'question')}:"
        f" {before} → {after} % from {explanation.first} to {explanation.second}; {how}."
        f" In brackets 95 % intervals by resampled questions.{unmeasured}"
    )


def _text(part: Part) -> str:
    """Points with their interval: `−6.1 [−9.0, −3.2]`."""
    if isnan(part.points):
        return NONE
    return f"{signed(part.points)} {_interval(part)}".rstrip()


def _interval(part: Part) -> str:
    if isnan(part.low):
        return ""
    return f"[{signed(part.low)}, {signed(part.high)}]"

"""The section on blame: what samplers lose to one token at a time, and by what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pbcore.analysis.order import natural, sorted_tasks
from pbcore.base.printable import counted, fixed, signed
from pbcore.report import columns as tables
from pbcore.report.answers import ReportCell
from pbcore.report.cells import NONE
from pbcore.report.sections import Section
from pbcore.results.record import BlameShares, Score
from pbcore.results.table_row import Row
from pbcore.tasks.naming import short

TITLE = "Why answers are wrong, in points of answers"
NOTE = (
    "Net loss: the share of wholly right answers of the reference, one token at a time with the"
    " sampler's own blocks and rules of EOS, less the sampler's. Together: answers that tokens"
    " revealed in one step broke, each of which alone would still have ended right. Token: answers"
    " that a token broke which ends wrong alone, too. Gained: right answers to questions that the"
    " reference answers wrong. Model errors: wrong one at a time, too; no way of decoding in"
    " parallel is to blame for them. In brackets the 95 % interval over samples. Another order"
    " might have saved an answer, too."
)


def blame_section(answers: Iterable[ReportCell]) -> Section:
    """A row per cell whose wrong answers were traced to a step, models as they come, tasks and
    samplers in their order; no rows without any.
    """
    cells = [entry for entry in answers if entry.cell.blame is not None]
    models = list(dict.fromkeys(entry.model for entry in cells))
    tasks = sorted_tasks(entry.cell.task for entry in cells)

    def place(entry: ReportCell) -> tuple[Any, ...]:
        cell = entry.cell
        return models.index(entry.model), tasks.index(cell.task), natural(cell.sampler)

    rows = [_row(entry) for entry in sorted(cells, key=place)]
    columns = [
        tables.Column("task", lambda row: short(str(row["task"]))),
        tables.MODEL,
        tables.SAMPLER,
        tables.words("answers", "answers"),
        tables.words("net", "net loss to one at a time", "together + token + undecided − gained"),
        tables.words("together", "together", "broken by tokens that were revealed together"),
        tables.words("errors", "model errors", "wrong one token at a time, too"),
    ]
    return Section(TITLE, "Why wrong", NOTE, columns, rows)


def with_wrong_answers(section: Section) -> Section:
    """The section without the cells in which no answer is wrong, nor right against the reference;
    its note counts them.
    """
    rows = [row for row in section.rows if not row["clean"]]
    left_out = len(section.rows) - len(rows)
    note = section.note
    if left_out:
        note += f" Left out: {counted(left_out, 'cell')} in which no answer is wrong."
    return replace(section, rows=rows, note=note)


def _row(entry: ReportCell) -> Row:
    blame = entry.cell.blame
    assert blame is not None
    known = blame.reference is not None
    verdicts = (blame.model, blame.together, blame.token, blame.undecided, blame.gained)
    return {
        "task": entry.cell.task,
        "model": entry.model,
        "sampler": entry.cell.sampler,
        "id": entry.id,
        "clean": all(share.mean == 0 for share in verdicts),
        "answers": str(len(entry.samples)),
        "net": net_loss_text(blame),
        "together": _share(blame.together) if known else NONE,
        "errors": _share(blame.model) if known else NONE,
    }


def net_loss_text(blame: BlameShares) -> str:
    """`26 = 24 together + 4 token + 1 undecided − 3 gained`, in points."""
    if blame.net_loss is None:
        return f"unknown: {fixed(100 * blame.undecided.mean, 0)} undecided"
    parts = f"{_points(blame.together.mean)} together + {_points(blame.token.mean)} token"
    if blame.undecided.mean:
        parts += f" + {_points(blame.undecided.mean)} undecided"
    parts += f" − {_points(blame.gained.mean)} gained"
    return f"{_points(blame.net_loss)} = {parts}"


def _points(share: float) -> str:
    """A share in points, without decimals that say nothing."""
    text = signed(100 * share, 1).removeprefix("+").replace("-", "−")
    return text.removesuffix(".0")


def _share(share: Score) -> str:
    low = fixed(100 * share.low, 0)
    return f"{_points(share.mean)} [{low}–{fixed(100 * share.high, 0)}]"

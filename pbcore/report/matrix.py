"""A run's scores on a terminal: a matrix per model, a row per task and a column per sampler, whose
heads take two lines. `n` is how many samples a cell has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pbcore.base.text import name
from pbcore.report.cells import prompts_note, rates_beside, samples_a_cell
from pbcore.report.columns import decimals
from pbcore.report.scopes import Scope, overview
from pbcore.report.sections import Section
from pbcore.report.tables import mark, marks_notes, note_lines, task_column
from pbcore.tasks.naming import short

LONGEST = 24  # columns of a task's or sampler's name; a longer one loses its middle


@dataclass(frozen=True, slots=True)
class _Column:
    """A sampler's texts: the policy, which neighbours share, what distinguishes it, an entry for
    each task, and its means.
    """

    policy: str
    under: str
    entries: Sequence[str]

    @property
    def width(self) -> int:
        return max(map(len, (self.under, *self.entries)))


def matrices(whole: Scope, width: int) -> list[str]:
    """A matrix per model, each with the notes on its marks. Dummy models are left out.

    Args:
        whole: all tasks of the run.
        width: the most columns of a line.
    """
    texts = []
    for model in whole.models:
        of_model = whole.part(name(model), "model", model)
        texts.append("\n".join(_matrix(of_model, width)))
    return texts


def _section(scope: Scope) -> Section:
    """One model's scores: a row per sampler, with a column per task, their mean, and the rates."""
    tasks = scope.tasks
    columns = []
    for task, label in zip(tasks, _task_labels(tasks), strict=True):
        columns.append(task_column(task, mark, label))
    if len(tasks) > 1:  # the mean of one task would stand there twice
        columns.append(decimals("score", "mean"))
    columns += [decimals(rate.key, rate.head) for rate in rates_beside(scope.records)]
    return Section(_short(scope.title), scope.title, "", columns, overview(scope))


def _matrix(scope: Scope, width: int) -> Iterator[str]:
    """The lines of one model's matrix: its section turned on its side."""
    section = _section(scope)
    columns = []
    marks: set[str] = set()
    for row in section.rows:
        policy, under = _two_lines(row["sampler"])
        entries = [column.text(row) for column in section.columns]
        columns.append(_Column(policy, under, entries))
        marks.update(entries[: len(scope.tasks)])
    number, _, _ = samples_a_cell(scope.records).partition(" ")
    corner = [section.title, f"score in %, n = {number}" if number else "score in %"]
    labels = [*corner, *(column.head for column in section.columns)]
    side = max(map(len, labels))
    for part in _parts(columns, width - side):
        yield from _lines(labels, side, part)
    for note in [*marks_notes(scope.records, marks), *prompts_note(scope.records)]:
        yield from note_lines(note, width)


def _task_labels(tasks: Sequence[str]) -> list[str]:
    """Short names of tasks, with the category before one that another task has already."""
    labels: list[str] = []
    for task in tasks:
        label = _short(name(short(task)))
        labels.append(_short(name(task)) if label in labels else label)
    return labels


def _two_lines(sampler: str) -> tuple[str, str]:
    """A sampler's policy, and the rest of its name."""
    policy, sign, rest = sampler.partition("-")
    if not sign:
        policy, sign, rest = sampler.partition("+")
        rest = f"{sign}{rest}"
    return _short(name(policy)), _short(name(rest))


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = (LONGEST - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def _groups(columns: Sequence[_Column]) -> Iterator[tuple[str, list[int]]]:
    """Each policy with the widths of its neighbouring columns, the first one widened where the
    policy's name needs it.
    """
    for policy, members in groupby(columns, key=lambda column: column.policy):
        widths = [column.width for column in members]
        span = sum(widths) + len(widths) - 1
        widths[0] += max(0, len(policy) - span)
        yield policy, widths


def _parts(columns: Sequence[_Column], room: int) -> list[list[_Column]]:
    """The columns in parts that fit beside the tasks' names; a wider one is a part by itself."""
    parts: list[list[_Column]] = [[]]
    for column in columns:
        taken = 0
        for _, widths in _groups([*parts[-1], column]):
            taken += sum(widths) + len(widths) + 1
        if parts[-1] and taken > room:
            parts.append([])
        parts[-1].append(column)
    return parts


def _lines(labels: Sequence[str], side: int, columns: Sequence[_Column]) -> Iterator[str]:
    """Two lines of heads, then one for each task and mean; `labels` stand before all of them."""
    policies = f"{labels[0]:<{side}}"
    widths: list[int] = []
    starts: set[int] = set()
    for policy, of_group in _groups(columns):
        starts.add(len(widths))
        widths += of_group
        policies += f"  {policy:<{sum(of_group) + len(of_group) - 1}}"
    yield policies.rstrip()
    rows = zip(*([column.under, *column.entries] for column in columns), strict=True)
    for label, texts in zip(labels[1:], rows, strict=True):
        line = f"{label:<{side}}"
        for number, (text, width) in enumerate(zip(texts, widths, strict=True)):
            gap = "  " if number in starts else " "
            line += f"{gap}{text:>{width}}"
        yield line.rstrip()

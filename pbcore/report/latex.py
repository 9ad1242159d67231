"""Tables of scores in LaTeX, with the rules of the package booktabs: what `pbcore export --latex`
writes, and what the page's button copies (`latex` of page/assets/take.js).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from pathlib import Path

from pbcore.base.printable import fixed, printable
from pbcore.report.columns import Column
from pbcore.report.report import Report
from pbcore.report.sections import Section
from pbcore.report.tables import category_table, scores_table
from pbcore.results.rundir import write_atomic
from pbcore.results.table_row import Row

SIGNS: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "{}&%$#_"},
    "–": "--",
    "−": "$-$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "→": r"$\to$",
}
_SIGN = re.compile("|".join(map(re.escape, SIGNS)))
_INTERVAL = re.compile(r" \[.*\]$")
_NOT_A_FILE_NAME = re.compile(r"[^\w.+-]+")


def latex_text(text: str) -> str:
    """Foreign text as LaTeX prints it."""
    return _SIGN.sub(lambda sign: SIGNS[sign[0]], printable(text, len(text)))


def latex_table(table: Section, more: str = "") -> str:
    """A table of a report in LaTeX: numbers on the right with their intervals, the best of each
    model in bold.

    Args:
        table: what it shows.
        more: sentences of the caption, after the table's own.
    """
    columns = table.shown
    sides = "".join("l" if column.value is None else "r" for column in columns)
    caption = latex_text(" ".join(filter(None, [f"{table.said}.", more])))
    best = _best(columns, table.rows)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        *_heads(columns, table.groups),
        r"\midrule",
    ]
    for number, row in enumerate(table.rows):
        entries = []
        for place, column in enumerate(columns):
            entries.append(_entry(column, row, (number, place) in best))
        lines.append(_line(entries))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _line(entries: Iterable[str]) -> str:
    return " & ".join(entries) + r" \\"


def _heads(columns: Sequence[Column], groups: Sequence[tuple[str, int]]) -> list[str]:
    """The columns' heads, under those of their groups where there are any."""
    lines = []
    if groups:
        above = []
        for title, count in groups:
            if title:
                above.append(rf"\multicolumn{{{count}}}{{c}}{{{latex_text(title)}}}")
            else:
                above += [""] * count
        lines.append(_line(above))
    return [*lines, _line(latex_text(column.head) for column in columns)]


def _figure(column: Column, row: Row) -> str:
    """An entry's text without the interval."""
    text = column.text(row)
    return text if column.value is None else _INTERVAL.sub("", text)


def _entry(column: Column, row: Row, best: bool) -> str:
    text = latex_text(_figure(column, row))
    if column.code:
        text = rf"\texttt{{{text}}}"
    if best:
        text = rf"\textbf{{{text}}}"
    if column.bounds is None or column.empty(row):
        return text
    bounds = column.bounds(row)
    if any(map(isnan, bounds)):
        return text
    return rf"{text} {{\scriptsize[{'--'.join(fixed(bound, 0) for bound in bounds)}]}}"


def _best(columns: Sequence[Column], rows: Sequence[Row]) -> set[tuple[int, int]]:
    """The places (row, column) of the best figures of each model, as they are shown; none of a
    model with a single row.
    """
    by_model: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        by_model[str(row.get("model", ""))].append(number)
    places = set()
    for place, column in enumerate(columns):
        if not column.best:
            continue
        for numbers in by_model.values():
            figures = {}
            for number in numbers:
                if not column.empty(rows[number]):
                    figures[number] = _number(_figure(column, rows[number]))
            if len(figures) > 1:
                top = (max if column.best == "high" else min)(figures.values())
                places |= {(number, place) for number, figure in figures.items() if figure == top}
    return places


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def write_latex(report: Report, folder: Path) -> list[Path]:
    """Writes scores.tex, and a table for each category where there are several tasks, and returns
    the paths.

    Args:
        report: what they show.
        folder: for the files.
    """
    tables = {"scores": scores_table(report.whole)}
    for scope in report.categories:
        name = _NOT_A_FILE_NAME.sub("-", scope.title)
        while name in tables:
            name += "-2"
        tables[name] = category_table(scope)
    written = []
    for name, table in tables.items():
        written.append(write_atomic(folder / f"{name}.tex", latex_table(table, report.proof)))
    return written

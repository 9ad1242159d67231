"""Columns of a report's tables: what each row's entry says, for Markdown, terminal and page."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Literal

from pbcore.base.tabular import Code
from pbcore.base.text import name
from pbcore.report.cells import interval_text, or_dash
from pbcore.report.rows import is_missing
from pbcore.results.measures import Measure
from pbcore.results.table_row import Row


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, each row's text, and the value to sort by (default: the text, in natural
    order).
    """

    head: str
    text: Callable[[Row], str]
    value: Callable[[Row], float | None] | None = None
    about: str = ""  # tooltip of the head
    wide: bool = False  # long text, which wraps, and is not cut as a name is
    optional: bool = False  # left out where no row has a value
    none: str = ""  # why a row may have no value
    task: str = ""  # a column of one task, for the page's filter
    code: bool = False  # a name that people type
    key: str = ""  # of a row's number
    bounds: Callable[[Row], tuple[float, float]] | None = None  # of its interval
    best: Literal["high", "low", ""] = ""  # which of its numbers is the best
    align: Literal["l", "r", ""] = ""  # by default numbers are on the right

    def empty(self, row: Row) -> bool:
        """Whether a row has nothing here."""
        return not self.text(row) if self.value is None else is_missing(self.value(row))

    def entry(self, row: Row) -> str:
        """A row's text in a table for terminal and Markdown."""
        text = self.text(row)
        if self.wide:
            return text
        return Code(name(text)) if self.code else name(text)

    def side(self, rows: Iterable[Row]) -> str:
        """`r` for a column of numbers, or of texts that begin as such; else `l`."""
        texts = [self.text(row) for row in rows]
        numbers = all(not text or text[0].isdigit() or text[0] in "+-−–" for text in texts)
        return self.align or ("r" if numbers else "l")


def decimals(
    key: str,
    head: str,
    places: int = 1,
    about: str = "",
    optional: bool = False,
    none: str = "not measured",
) -> Column:
    """A column of numbers; `–` for what was not measured.

    Args:
        key: of a row's number.
        head: the column's.
        places: decimals.
        about: the tooltip of the head.
        optional: whether it is left out where no row has a value.
        none: why a row may have no value.
    """
    value = itemgetter(key)
    return Column(
        head,
        lambda row: or_dash(row[key], places),
        value,
        about,
        optional=optional,
        none=none,
        key=key,
    )


def of_measure(measure: Measure) -> Column:
    """The column of a number of cells."""
    column = decimals(
        measure.key,
        measure.head,
        measure.decimals,
        measure.about,
        measure.optional,
        measure.none,
    )
    if measure.kind == "cost":
        return replace(column, best="low")
    return replace(column, best="high" if measure.kind in ("rate", "time") else "")


def words(key: str, head: str, about: str = "", wide: bool = False) -> Column:
    """A column of foreign text.

    Args:
        key: of a row's text.
        head: the column's.
        about: the tooltip of the head.
        wide: whether texts are long and wrap.
    """
    return Column(head, lambda row: str(row[key]), None, about, wide)


def score_column(head: str, about: str = "", none: str = "") -> Column:
    """A column of scores in %, each with its 95 % interval.

    Args:
        head: the column's.
        about: the tooltip of the head.
        none: why a row may have no score.
    """

    def shown(row: Row) -> str:
        return or_dash(row["score"]) + interval_text(row["low"], row["high"])

    bounds = itemgetter("low", "high")
    return Column(
        head,
        shown,
        itemgetter("score"),
        about,
        none=none,
        key="score",
        bounds=bounds,
        best="high",
    )


FILTERED = ("model", "task", "sampler")  # by which the page filters rows
MODEL = words("model", "model")
SAMPLER = Column("sampler", lambda row: str(row["sampler"]), code=True)

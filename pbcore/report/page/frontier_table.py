"""The page's table of cells beside the optimal frontier: the best accuracy of independent draws in as many steps."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from pbcore.analysis.frontier_gap import Room, room
from pbcore.analysis.order import natural, sorted_tasks
from pbcore.printable import fixed
from pbcore.report.page.data import Answers
from pbcore.report.page.svg import text
from pbcore.report.page.tables import MODEL, NONE, SAMPLER, Column, decimals, html_table, scored, words

KINDS = {
    "order": "positions first",
    "seen": "tokens first",
    "back": "takes tokens back",
    "own": "writes own tokens",
    "tries": "tries canvases",
    "unknown": "not declared",
}
NOTE = (
    "Best: the highest expected accuracy, in the cell's mean steps, of samplers that write only tokens drawn "
    "independently of each other from the exact predictions and keep each, adaptive orders included; for each n at its "
    "own steps, then averaged over samples. They choose positions before they look at predicted tokens or noise "
    "(positions first), or after they see them (tokens first). It doesn't bind samplers that take tokens back, choose "
    "their own tokens or declare nothing, nor models whose predictions aren't the exact ones. Only list_ops tasks with "
    "several answers are here, with one token per item, greedy or at τ = 1: other canvases, of waiting lines and Latin "
    "squares too, hold more tokens than items, and tasks with one answer need one step."
)
COLUMNS = (
    MODEL,
    SAMPLER,
    words("task", "task"),
    Column("score %", scored, lambda row: row["score"]),
    decimals("steps", "steps", 2, "mean forwards per answer"),
    words("chooses", "chooses", "which frontier binds the sampler, if one does"),
    Column(
        "best %",
        lambda row: "unbounded" if row["best"] is None else fixed(row["best"]),
        lambda row: row["best"],
        "the best accuracy of samplers of its kind in as many steps",
    ),
    Column(
        "gap, points",
        lambda row: NONE if row["gap"] is None else fixed(row["gap"]),
        lambda row: row["gap"],
        "best less score",
    ),
)


def rooms(answers: Iterable[Answers]) -> list[Room]:
    """The cells that have a frontier, by model and task, samplers in natural order."""
    found = []
    for one in answers:
        known = room(one.cell, one.samples, {index: question.length for index, question in one.questions.items()})
        found += [] if known is None else [replace(known, model=one.model)]
    models = list(dict.fromkeys(one.model for one in found))
    tasks = sorted_tasks(one.task for one in found)
    return sorted(found, key=lambda one: (models.index(one.model), tasks.index(one.task), natural(one.sampler)))


def frontier(answers: Sequence[Answers]) -> str:
    """The part of the page with the table; empty where no cell has a frontier."""
    rows = [
        asdict(one)
        | {name: 100 * value for name in ("score", "low", "high") for value in [getattr(one, name)]}
        | {"best": None if one.best is None else 100 * one.best, "gap": one.gap, "chooses": KINDS[one.kind]}
        for one in rooms(answers)
    ]
    if not rows:
        return ""
    cells = html_table(COLUMNS, rows, "the best accuracy of independent draws in as many steps")
    return f'<section><h2>Frontier</h2>{cells}<p class="note">{text(NOTE, 1000)}</p></section>'

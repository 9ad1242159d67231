"""The page's table of what changes with a run's factors; report.md has the same words."""

from collections.abc import Sequence

from pbcore.analysis.factors import FactorChange, factor_changes
from pbcore.printable import fixed, signed
from pbcore.report.page.data import Answers
from pbcore.report.page.svg import text
from pbcore.report.page.tables import html_table, words
from pbcore.results.record import Score
from pbcore.tasks.naming import short

HEAD = ("task", "model", "sampler", "factor", "from → to", "n", "answers %", "scores %", "mean", "change, points")
NOTE = (
    "Answers and scores: the share that is another one when this factor alone changes, beside the change of the mean, "
    "each with its 95 % interval over samples. Flips in both directions cancel in the mean."
)


def row(one: FactorChange) -> list[str]:
    """A row of the table."""
    means = f"{fixed(100 * one.before)} → {fixed(100 * one.after)}"
    change = f"{signed(100 * one.change)} [{signed(100 * one.low)} – {signed(100 * one.high)}]"
    names = [short(one.task), one.model, one.sampler, one.factor, f"{one.base} → {one.head}", str(one.answers.n)]
    return [*names, _percent(one.answers), _percent(one.scores), means, change]


def _percent(share: Score) -> str:
    return f"{fixed(100 * share.mean)} [{fixed(100 * share.low)}–{fixed(100 * share.high)}]"


def factor_table(answers: Sequence[Answers]) -> str:
    """The part of the page with the table; empty for a run without factors and with one seed."""
    rows = [dict(zip(HEAD, row(one), strict=True)) for one in factor_changes(answers)]
    if not rows:
        return ""
    cells = html_table([words(name, name) for name in HEAD], rows, "what changes with each factor")
    return f'<section><h2>What changes with each factor</h2>{cells}<p class="note">{text(NOTE, 400)}</p></section>'

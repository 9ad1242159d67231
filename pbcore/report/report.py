"""What a report is made of: rows, answers and facts, read once, with all that follows from them and
that several of its parts show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pbcore.analysis.explanation import Explanation, explanation_of
from pbcore.analysis.factors import factor_changes
from pbcore.report.answers import ReportCell, read_result, report_cells, side_by_side
from pbcore.report.axes import Axis, chosen_axis
from pbcore.report.blame_section import blame_section
from pbcore.report.captions import proof_caption
from pbcore.report.cells import facts_text, gaps, heading, measured
from pbcore.report.headline import HeadlineInWords, RunVerdicts
from pbcore.report.options import OWN, ReportOptions
from pbcore.report.prices import price_section, with_prices
from pbcore.report.rates import rates_note
from pbcore.report.rows import CellRow, cell_rows
from pbcore.report.scopes import Scope, scopes
from pbcore.report.sections import (
    Section,
    exploration_section,
    factor_section,
    frontier_section,
    rooms,
)
from pbcore.results.record import CellRecord
from pbcore.results.rundir import RunFacts, StoredRun


@dataclass(frozen=True)
class Report:
    """The cells that a report shows.

    - `rows`: its cells as tables show them, `answers` those of them;
    - `sources`: where both are from, after which the report is named;
    - `facts`: those of run.json where the report is of one run, with what was asked for in place of
      the run's own.
    """

    rows: Sequence[CellRow]
    answers: Sequence[ReportCell]
    sources: Sequence[Path]
    facts: RunFacts

    @property
    def name(self) -> str:
        return ", ".join(path.name for path in self.sources)

    @property
    def records(self) -> list[CellRecord]:
        """The records of its cells; none of published tables."""
        return [answer.cell for answer in self.answers]

    @cached_property
    def verdicts(self) -> RunVerdicts:
        """The verdicts on the models, under their names in `rows`."""
        return RunVerdicts(self.rows, self.answers, self.facts)

    @cached_property
    def told(self) -> list[HeadlineInWords]:
        """These verdicts in words."""
        return self.verdicts.in_words()

    @cached_property
    def proof(self) -> str:
        """What captions of its tables say in LaTeX of the test over all tasks."""
        return proof_caption(self.told)

    @cached_property
    def measured(self) -> str:
        """Models, tasks, samplers, samples, device and date in words."""
        return measured(self.rows, self.facts)

    @cached_property
    def heading(self) -> str:
        """Its models, and how many samplers and tasks; empty where nothing was measured."""
        return heading(self.rows)

    @cached_property
    def gaps(self) -> list[str]:
        """What is not in its tables, and notes on prompts and servers."""
        return gaps(self.rows)

    @cached_property
    def ran_as(self) -> dict[str, str]:
        """What its run was, by name."""
        return facts_text(self.rows, self.facts)

    @cached_property
    def rates_note(self) -> str:
        """Why its tokens per step and its TPF differ; empty where they don't."""
        return rates_note(self.whole)

    @cached_property
    def explanation(self) -> Explanation | None:
        """That of its run, where there is one."""
        return explanation_of(self.facts)

    @cached_property
    def _scopes(self) -> tuple[Scope, list[Scope]]:
        return scopes(self.priced)

    @property
    def whole(self) -> Scope:
        """All its tasks."""
        return self._scopes[0]

    @property
    def categories(self) -> list[Scope]:
        """The categories of its tasks, in the paper's order."""
        return self._scopes[1]

    @cached_property
    def priced(self) -> list[CellRow]:
        """`rows` with the seconds by the run's price lists."""
        return with_prices(self.rows, self.answers, self.facts)

    @property
    def axis(self) -> Axis:
        """That of its plots."""
        return chosen_axis(self.facts, self.priced)

    @cached_property
    def prices(self) -> Section:
        """Seconds of an answer by the run's price lists."""
        return price_section(self.whole, self.answers, self.facts)

    @cached_property
    def factors(self) -> Section:
        """What changes with the run's factors."""
        return factor_section(factor_changes(self.answers))

    @cached_property
    def blame(self) -> Section:
        """Why answers are wrong."""
        return blame_section(self.answers)

    @cached_property
    def exploration(self) -> Section:
        """Order, remasks and variety of answers."""
        return exploration_section(self.rows)

    @cached_property
    def frontier(self) -> Section:
        """Cells beside the best possible samplers."""
        return frontier_section(rooms(self.answers))


def read_report(
    paths: Sequence[Path], options: ReportOptions = OWN, with_questions: bool = True
) -> Report:
    """The report of one result, or of several side by side.

    Args:
        paths: run directories and files that `results.load` reads.
        options: what is asked for instead of what the run says.
        with_questions: whether each answer's question is looked up, too.

    Raises:
        LoadError: as of `results.load`.
    """
    results = [read_result(path, with_questions) for path in paths]
    if len(results) == 1:
        (result,) = results
        return Report(result.rows, result.answers, paths, options.replaced(result.facts))
    rows, answers = side_by_side(results)
    return Report(rows, answers, paths, options.replaced(RunFacts()))


def report_of(run: StoredRun) -> Report:
    """The report of a run that was read before."""
    rows = cell_rows(entry.cell for entry in run.cells)
    return Report(rows, report_cells(rows, run.path, run.cells, run.facts), [run.path], run.facts)

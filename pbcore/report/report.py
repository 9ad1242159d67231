"""What a report is made of: rows, answers and facts, read once, with the verdicts that follow from
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from pbcore.report.answers import ReportCell, read_all, report_cells
from pbcore.report.headline import RunVerdicts
from pbcore.report.options import OWN, ReportOptions
from pbcore.results.rundir import RunDir, RunFacts, StoredRun
from pbcore.results.table_row import frame


@dataclass(frozen=True)
class Report:
    """The cells that a report shows.

    - `cells`: a frame of `load` or `load_many`, `answers` those of its cells;
    - `sources`: where both are from, after which the report is named;
    - `facts`: those of run.json where the report is of one run, with what was asked for in place of
      the run's own.
    """

    cells: pd.DataFrame
    answers: Sequence[ReportCell]
    sources: Sequence[Path]
    facts: RunFacts

    @property
    def name(self) -> str:
        return ", ".join(path.name for path in self.sources)

    @cached_property
    def verdicts(self) -> RunVerdicts:
        """The verdicts on the models, under their names in `cells`."""
        return RunVerdicts(self.cells, self.answers, self.facts)


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
    cells, answers = read_all(paths, with_questions)
    alone = len(paths) == 1 and paths[0].is_dir()
    facts = RunDir(paths[0]).read_run() if alone else RunFacts()
    return Report(cells, answers, paths, options.replaced(facts))


def report_of(run: StoredRun) -> Report:
    """The report of a run that was read before."""
    cells = frame(entry.cell for entry in run.cells)
    return Report(cells, report_cells(cells, [run.path], run.cells), [run.path], run.facts)

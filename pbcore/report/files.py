"""The report of a run as files: report.md with its curves, and report.html."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from pbcore.report.answers import ReportCell, name_and_facts, read_report_cells
from pbcore.report.headline import RunVerdicts
from pbcore.report.markdown import write_markdown
from pbcore.report.options import OWN, ReportOptions
from pbcore.report.page.write import rebuild


def write_files(run_dir: str | Path) -> list[Path]:
    """Writes a run's report into its folder, also that of an unfinished one as far as it got, and
    returns the paths: report.md, report.html, then the curves (PNG). Raises the errors of
    `results.load`.
    """
    path = Path(run_dir)
    return write_files_of(*read_report_cells(path), [path], path)


def write_files_of(
    cells: pd.DataFrame,
    answers: Sequence[ReportCell],
    sources: Sequence[Path],
    out: Path,
    options: ReportOptions = OWN,
    more: str = "",
    verdicts: RunVerdicts | None = None,
    same: Mapping[str, str] = MappingProxyType({}),
) -> list[Path]:
    """Writes the report of these cells into a folder and returns the paths as `write_files` does.

    Args:
        cells: a frame of `load` or `load_many`.
        answers: the cells' answers.
        sources: where both are from.
        out: the folder.
        options: what is asked for instead of what the run says.
        more: what stands at the end of report.md.
        verdicts: those on the cells, where they are known.
        same: the run's name of a model → that of a published one, over which the page draws it.
    """
    if verdicts is None:
        _, facts = name_and_facts(sources, options)
        verdicts = RunVerdicts(cells, answers, facts)
    report, *plots = write_markdown(cells, answers, sources, out, more, options, verdicts)
    page = rebuild(cells, sources, out, answers, options, verdicts, same)
    return [report, page, *plots]

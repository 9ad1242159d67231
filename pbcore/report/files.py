"""The report of a run as files: report.md with its curves, and report.html."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pbcore.report.markdown import write_markdown
from pbcore.report.page.write import rebuild
from pbcore.report.report import Report, read_report, report_of
from pbcore.results.rundir import RunDir


def write_files(run_dir: str | Path) -> list[Path]:
    """Writes a run's report into its folder, also that of an unfinished one as far as it got, and
    returns the paths: report.md, report.html, then the curves (PNG). Raises the errors of
    `results.load`.
    """
    path = Path(run_dir)
    return write_files_of(read_report([path]), path)


def write_all(run: RunDir) -> None:
    """Writes all that a run leaves beside its cells: results.json, samples.jsonl and its report."""
    stored = run.read()
    run.assemble(stored.cells)
    write_files_of(report_of(stored), run.path)


def write_files_of(
    report: Report,
    out: Path,
    more: str = "",
    same: Mapping[str, str] = MappingProxyType({}),
) -> list[Path]:
    """Writes a report into a folder and returns the paths as `write_files` does.

    Args:
        report: what it shows.
        out: the folder.
        more: what stands at the end of report.md.
        same: the run's name of a model → that of a published one, over which the page draws it.
    """
    markdown, *plots = write_markdown(report, out, more)
    return [markdown, rebuild(report, out, same), *plots]

"""report.md: the tables, curves and facts of a run in one page."""

from __future__ import annotations

from pathlib import Path

from pbcore.report.tables import markdown, trade_off_tables
from pbcore.results.load import load
from pbcore.results.rundir import write_atomic


def write_report(run_dir: str | Path) -> list[Path]:
    """Writes report.md and the trade-off curves (PNG) into a run directory, and returns what was written.

    The run may be unfinished: what is there is reported. Raises what `results.load` raises.
    """
    run = Path(run_dir)
    cells = load(run)
    parts = [f"# {run.name}\n"]
    for table in trade_off_tables(cells):
        parts.append(f"## {table.title}\n\n{markdown(table)}")
    return [write_atomic(run / "report.md", "\n".join(parts))]

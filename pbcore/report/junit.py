"""Writes a JUnit file from records, with the same properties as the plugin's own: for merged runs
in CI.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from pbcore.printable import counted, first_line, printable
from pbcore.results.record import CellRecord
from pbcore.results.rundir import write_atomic
from pbcore.results.table_row import properties

UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # what XML 1.0 can't hold


def figures_line(cell: CellRecord) -> str:
    """A cell's headline figures in one line, for views that show a test's output but not its
    properties: GitLab's test report, most actions for GitHub, pytest-html.
    """
    told = "not measured"
    if (score := cell.scores.get(cell.headline)) is not None:
        told = f"{100 * score.mean:.1f} % [{100 * score.low:.1f}–{100 * score.high:.1f}]"
    parts = [f"{cell.headline} {told}", counted(cell.n_samples, "sample")]
    parts += (
        [f"NFE {cell.nfe_mean:.4g}"]
        if cell.nfe_mean is not None and "nfe" not in cell.absent
        else []
    )
    if cell.tokens_forwarded is not None:
        parts.append(f"{cell.tokens_forwarded:.6g} tokens forwarded")
    parts += (
        [f"{cell.tokens_per_step:.3g} tokens per step"] if cell.tokens_per_step is not None else []
    )
    parts += (
        [f"{cell.samples_per_second:.3g} samples/s"] if cell.samples_per_second is not None else []
    )
    wrong = ", ".join(f"{kind} {count}" for kind, count in cell.failures.items())
    return printable(", ".join(parts) + (f"; wrong answers: {wrong}" if wrong else ""), 600)


def write_junit(cells: Iterable[CellRecord], path: Path) -> Path:
    """Writes a testcase per cell with its properties and its headline figures as output; a cell
    that could not be run is an error with its cause.
    """
    records = list(cells)
    counts = {"tests": len(records), "errors": sum(cell.status != "ok" for cell in records)}
    suites = ElementTree.Element("testsuites", name="pbcore")
    seconds = sum(cell.seconds or 0 for cell in records)
    suite = _added(
        suites, "testsuite", name="pbcore", **counts, failures=0, skipped=0, time=f"{seconds:.3f}"
    )
    for cell in records:
        place = {"classname": cell.task.replace("/", "."), "name": f"test_cell[{cell.id}]"}
        case = _added(suite, "testcase", **place, time=f"{cell.seconds or 0:.3f}")
        listed = _added(case, "properties")
        for name, value in properties(cell):
            _added(listed, "property", name=name, value=value)
        if cell.status == "ok":
            _added(case, "system-out").text = UNPRINTABLE.sub("?", figures_line(cell))
        else:
            cause = UNPRINTABLE.sub("?", cell.error or "no cause recorded")
            _added(case, "error", message=first_line(cause, 400)).text = cause
    ElementTree.indent(suites)
    return write_atomic(
        path, ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
    )


def _added(parent: ElementTree.Element, tag: str, **attributes: object) -> ElementTree.Element:
    """A new element at the end of `parent`, its attributes without what XML can't hold."""
    return ElementTree.SubElement(
        parent, tag, {name: UNPRINTABLE.sub("?", str(value)) for name, value in attributes.items()}
    )

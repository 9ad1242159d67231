"""Writes a JUnit file from records, with the same properties as the plugin's own: for merged runs
in CI.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from pbcore.base.printable import counted, first_line, printable
from pbcore.results.measures import MEASURES
from pbcore.results.record import CellRecord
from pbcore.results.rundir import write_atomic
from pbcore.results.table_row import cell_rate, properties

# What XML 1.0 can't hold.
UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def figures_line(cell: CellRecord) -> str:
    """A cell's headline figures in one line, for views that show a test's output but not its
    properties: GitLab's test report, most actions for GitHub, pytest-html.
    """
    score = cell.scores.get(cell.headline)
    if score is None:
        parts = [f"{cell.headline} not measured"]
    else:
        interval = f"[{100 * score.low:.1f}–{100 * score.high:.1f}]"
        parts = [f"{cell.headline} {100 * score.mean:.1f} % {interval}"]
    parts.append(counted(cell.n_samples, "sample"))
    for measure in MEASURES:
        if measure.in_a_line and measure.key not in cell.absent:
            value = cell_rate(cell, measure.key)
            if value is not None:
                parts.append(measure.in_a_line.format(value))
    line = ", ".join(parts)
    if cell.failures:
        kinds = ", ".join(f"{kind} {count}" for kind, count in cell.failures.items())
        line += f"; wrong answers: {kinds}"
    return printable(line, 600)


def write_junit(cells: Iterable[CellRecord], path: Path) -> Path:
    """Writes a testcase per cell with its properties and its headline figures as output; a cell
    that could not be run is an error with its cause.
    """
    records = list(cells)
    seconds = sum(cell.seconds or 0 for cell in records)
    suites = ElementTree.Element("testsuites", name="pbcore")
    suite = _added(
        suites,
        "testsuite",
        name="pbcore",
        tests=len(records),
        errors=sum(cell.status != "ok" for cell in records),
        failures=0,
        skipped=0,
        time=f"{seconds:.3f}",
    )
    for cell in records:
        case = _added(
            suite,
            "testcase",
            classname=cell.task.replace("/", "."),
            name=f"test_cell[{cell.id}]",
            time=f"{cell.seconds or 0:.3f}",
        )
        group = _added(case, "properties")
        for name, value in properties(cell):
            _added(group, "property", name=name, value=value)
        if cell.status == "ok":
            _added(case, "system-out").text = UNPRINTABLE.sub("?", figures_line(cell))
        else:
            cause = UNPRINTABLE.sub("?", cell.error or "no cause recorded")
            _added(case, "error", message=first_line(cause, 400)).text = cause
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)
    return write_atomic(path, f"{text}\n")


def _added(parent: ElementTree.Element, tag: str, **attributes: object) -> ElementTree.Element:
    """A new element at the end of `parent`, its attributes without what XML can't hold."""
    texts = {name: UNPRINTABLE.sub("?", str(value)) for name, value in attributes.items()}
    return ElementTree.SubElement(parent, tag, texts)

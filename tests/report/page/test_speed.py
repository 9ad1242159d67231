"""How long a page of 10,000 answers takes to open: `pytest -m speed -s
tests/report/page/test_speed.py` prints it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.report.page import write_page
from pbcore.results import create
from tests.report.page.conftest import Tab
from tests.report.page.films import filmed
from tests.results import factory

ANSWERS = 10_000
CELLS = 100


@pytest.mark.speed
@pytest.mark.browser
def test_ten_thousand_answers(tab: Tab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables, filters and sorting are there, and a cell opens. It prints bytes and milliseconds and
    asserts neither.
    """
    names = [f"confidence-k{k}+b{b}" for k in range(1, 11) for b in range(1, 11)]
    entries = [filmed(factory.cell(sampler=name, n=ANSWERS // CELLS, right=0.3)) for name in names]
    file = write_page(factory.write(create(tmp_path, "a"), entries).path)
    tab.page.goto(file.as_uri())
    opened = tab.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    link = tab.page.locator("details.category td a, details.category th a").first
    cell = tab.page.evaluate(
        """async (href) => {
            const from = performance.now();
            location.hash = href;
            while (!document.querySelector('#view table')) await new Promise((done) => setTimeout(done));
            return performance.now() - from;
        }""",
        link.get_attribute("href"),
    )
    held = tab.page.locator("meta[name=answers]").get_attribute("content")
    with capsys.disabled():
        print(
            f"\n{file.stat().st_size:,} bytes, {held} answers: open in {opened:.0f} ms, a cell in"
            f" {cell:.0f} ms"
        )
    assert tab.page.locator("#view tbody tr").count() == ANSWERS // CELLS

"""What a reader does with report.html in a browser: opens it, waits, reads a column."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tests.report.page.conftest import Tab

CELL = "#cell=tiny/shuffle/confidence-k2"


def opened(tab: Tab, address: str) -> Any:
    tab.page.goto(address)
    if "java_script_enabled" not in tab.settings:
        settled(tab.page)
    return tab.page


def settled(page: Any) -> None:
    """Waits until the page shows what its address says."""
    until(page, "document.documentElement.dataset.shown === location.hash")


def until(page: Any, condition: str) -> None:
    """Waits for a condition, also while the next page loads. The page's policy forbids playwright's
    own `wait_for_function`, which calls eval there.
    """
    from playwright.sync_api import Error  # only tests with a page come here

    for _ in range(500):
        with suppress(Error):  # between two pages there is no document
            if page.evaluate(condition):
                return
        page.wait_for_timeout(20)
    raise AssertionError(f"not within 10 s: {condition}")


def stopped(tab: Tab, address: str) -> Any:
    """A page whose clock runs only when the test says so."""
    tab.page.clock.install(time=0)
    page = opened(tab, address)
    page.clock.pause_at(3600)
    return page


def column(page: Any, table: str, number: int) -> list[str]:
    read = "(rows, number) => rows.map((row) => row.querySelectorAll('td, th')[number].innerText)"
    texts: list[str] = page.locator(f"{table} tbody tr:visible").evaluate_all(read, number)
    return texts

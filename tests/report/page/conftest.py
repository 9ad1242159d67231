"""A real browser: the distribution's Chromium, driven by playwright. Without one of the two these
tests are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd
import pytest

from pbcore.report.axes import Axis
from pbcore.report.page import write, write_page
from pbcore.results import create
from tests.report.page.films import filmed, run
from tests.results import factory

Draw = Callable[[pd.DataFrame, Axis, Mapping[str, str]], str]  # a page's picture
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """The browser's path: $PBCORE_CHROMIUM, or what is installed."""
    named = os.environ.get("PBCORE_CHROMIUM")
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


@pytest.fixture(scope="package", autouse=True)
def picture() -> Iterator[Draw]:
    """Pages lack their picture for readers without scripts, which takes a second to draw; the
    fixture draws one.
    """
    with pytest.MonkeyPatch.context() as patch:
        draw = write._picture
        patch.setattr(write, "_picture", lambda cells, axis, chosen: "")
        yield draw


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """One browser for the tests of this folder. While it runs, playwright's event loop does, so it
    ends before others'.
    """
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pbcore[dev])"
    )
    path = chromium()
    if path is None:
        pytest.skip(f"no Chromium on this machine ({', '.join(NAMES)}); apt-get install chromium")
    with (
        playwright.sync_playwright() as driver,
        driver.chromium.launch(
            executable_path=path, args=["--no-sandbox"]
        ) as started,  # containers run as root
    ):
        yield started


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of eight cells."""
    return write_page(run(tmp_path_factory.mktemp("page")).path).as_uri()


@pytest.fixture(scope="module")
def two_categories(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of two models, two samplers and tasks of two categories."""
    entries = [
        filmed(factory.cell(model, task, sampler, right=right, n=6, nfe=nfe))
        for model in ("ideal", "tiny")
        for task in ("waiting_line/copy", "waiting_line/shuffle", "puzzle/sudoku")
        for sampler, right, nfe in (("confidence-k2", 0.5, 8), ("threshold-0.9", 1.0, 16))
    ]
    return write_page(
        factory.write(create(tmp_path_factory.mktemp("two"), "a"), entries).path
    ).as_uri()


class Tab:
    """A page of the browser that notes every request and every error; none may be left at the
    end.
    """

    def __init__(self, browser: Any, **settings: Any) -> None:
        self.settings = settings
        self.context = browser.new_context(
            **{"viewport": {"width": 1200, "height": 800}, **settings}
        )
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console", lambda told: self.errors.append(told.text) if told.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def close(self) -> None:
        self.context.close()

    def leave(self) -> None:
        """Leaves what a test opened, and forgets what was noted of it."""
        self.page.mouse.move(0, 0)
        self.page.goto("about:blank")
        self.errors.clear()
        self.requests.clear()


@pytest.fixture(scope="package")
def kept_tab(browser: Any) -> Iterator[Tab]:
    """The tab of all tests that change nothing but its page: to open one takes several times as
    long as to show a page.
    """
    opened = Tab(browser)
    yield opened
    opened.close()


@pytest.fixture
def tab(kept_tab: Tab) -> Iterator[Tab]:
    """A tab that shows nothing yet. Errors in it fail the test."""
    yield kept_tab
    errors = list(kept_tab.errors)
    kept_tab.leave()
    assert errors == []


@pytest.fixture
def own_tab(browser: Any, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """A new tab, for what outlasts a page, such as its clock; settings of its context through
    indirect parametrisation. Errors in it fail the test.
    """
    opened = Tab(browser, **getattr(request, "param", {}))
    yield opened
    opened.close()
    assert opened.errors == []

"""report.html in a real browser: ways back and around, printing."""

from __future__ import annotations

import pytest

from tests.report.page.browsing import CELL, opened, settled, until
from tests.report.page.conftest import Tab
from tests.report.page.test_browser import FIRST

TITLE = "ideal and tiny · 2 samplers · 2 tasks · a"
pytestmark = [pytest.mark.browser, pytest.mark.slow]


class TestNobodyGetsLost:
    def test_back_restores_place_and_focus(self, tab: Tab, address: str) -> None:
        """The browser's own way back ends at the link that was followed, scrolled as it was
        left.
        """
        page = opened(tab, address)
        link = page.locator(FIRST).first
        link.scroll_into_view_if_needed()
        page.evaluate("scrollBy(0, 40)")
        page.wait_for_timeout(50)
        y = page.evaluate("scrollY")
        link.click()
        settled(page)
        assert (page.evaluate("scrollY"), y > 0) == (0, True)
        page.go_back()
        until(page, "!document.getElementById('main').hidden")
        until(page, f"Math.abs(scrollY - {y}) < 2")
        assert page.evaluate("document.activeElement.getAttribute('href')") == CELL
        page.go_forward()
        until(page, "document.getElementById('main').hidden")

    def test_few_tab_stops(self, tab: Tab, two_categories: str) -> None:
        """At most 60 on the first view."""
        page = opened(tab, two_categories)
        stops = 0
        while stops <= 60:
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement === document.body"):
                break
            stops += 1
        assert 10 < stops <= 60

    def test_titles(self, tab: Tab, address: str) -> None:
        """Each view has its own."""
        wanted = {
            "": TITLE,
            "#answers=all": f"All answers · {TITLE}",
            CELL: f"shuffle · tiny · confidence-k2 · {TITLE}",
            f"{CELL}&sample=3": (f"sample 3 · shuffle · tiny · confidence-k2 · {TITLE}"),
        }
        assert {where: opened(tab, address + where).title() for where in wanted} == wanted

    def test_skip_link_stays_on_its_view(self, tab: Tab, address: str) -> None:
        page = opened(tab, address + CELL)
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        assert page.url.endswith(CELL)
        assert page.evaluate("document.activeElement.id") == "content"
        assert page.locator("#view h2").is_visible()

    def test_sections(self, tab: Tab, two_categories: str) -> None:
        """The navigation opens a category and goes there."""
        page = opened(tab, two_categories)
        assert not page.locator("details.category .matrix").first.is_visible()
        page.locator("#sections").get_by_text("puzzle").click()
        settled(page)
        assert page.locator("details.category[open] .matrix:visible").count() == 1
        assert page.evaluate("document.activeElement.textContent").startswith("puzzle")

    def test_folds_after_printing(self, tab: Tab, two_categories: str) -> None:
        """They are as before."""
        page = opened(tab, two_categories)
        count = "[...document.querySelectorAll('details')].filter((one) => one.open).length"
        before = page.evaluate(count)
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(count) > before
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.evaluate(count) == before

    def test_on_paper(self, own_tab: Tab, address: str) -> None:
        """A film with its confidence bars and the plot with its intervals, without what is there to
        be clicked.
        """
        page = opened(own_tab, f"{address}{CELL}&sample=1")
        assert page.get_by_label("beside it").is_visible()
        page.emulate_media(media="print")
        assert page.locator(".tok .sure span").first.bounding_box()["width"] > 5
        for gone in (
            page.get_by_label("beside it"),
            page.locator(".controls"),
            page.locator("#filters"),
        ):
            assert not gone.first.is_visible()
        page = opened(own_tab, address)
        assert page.locator(".first-plot .dot .mark").first.is_visible()

    def test_the_films_step_stands_in_the_address(self, tab: Tab, address: str) -> None:
        page = opened(tab, f"{address}{CELL}&sample=1")
        page.get_by_role("button", name="one step back").click()
        until(page, "location.hash.endsWith('&step=3')")
        page.reload()
        settled(page)
        assert "step 3 of 4" in page.locator(".film output").inner_text()

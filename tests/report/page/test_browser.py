"""report.html in a real browser: sorting, filters, addresses, keyboard, colours, hostile text,
accessibility.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.report.page import write_page
from pbcore.report.view import serve_folder
from pbcore.results import create, error_cell
from tests.report.page.browsing import CELL, column, opened, settled, until
from tests.report.page.conftest import Draw, Tab
from tests.report.page.films import filmed, run
from tests.report.page.test_view import running, served
from tests.results import factory

pytestmark = [pytest.mark.browser, pytest.mark.slow]
OVERVIEW = "table.means >>"


def overlap(a: dict[str, float], b: dict[str, float], least: float) -> bool:
    """Whether two boxes share an area that is at least so wide and high."""
    wide = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
    high = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
    return wide > least and high > least


FIRST = "details.category a[href='" + CELL + "']"


def illustrated(folder: Path, picture: Draw) -> str:
    """The address of a page with its picture for readers without scripts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pbcore.report.page.write._picture", picture)
        return write_page(run(folder).path).as_uri()


class TestTables:
    def test_sort(self, tab: Tab, address: str) -> None:
        """A head sorts by numbers, once up and once down, and says so."""
        page = opened(tab, address)
        page.get_by_role("button", name="more columns").first.click()
        head = page.locator("table.means thead th[data-key=nfe]")
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert column(page, OVERVIEW, 5) == ["8.0", "8.0", "16.0", "16.0"]
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert column(page, OVERVIEW, 5) == ["16.0", "16.0", "8.0", "8.0"]

    def test_filter(self, tab: Tab, address: str) -> None:
        """A filter hides the other models' rows and curves, stands in the address, and can be taken
        back.
        """
        page = opened(tab, address)
        page.locator("#filter-model").select_option("tiny")
        settled(page)
        assert set(column(page, OVERVIEW, 0)) == {"tiny"}
        assert page.url.endswith("#model=tiny")
        assert page.locator("figure.plot g[data-model=ideal]:visible").count() == 0
        page.get_by_role("button", name="show all").click()
        settled(page)
        assert set(column(page, OVERVIEW, 0)) == {"ideal", "tiny"}

    def test_tables_without_answers(self, tab: Tab, tmp_path: Path) -> None:
        """Results that came without samples, such as a file that a CI kept, are filtered all the
        same.
        """
        made = run(tmp_path)
        made.assemble()
        assert main(["report", str(made.path / "results.json"), "-o", str(tmp_path / "out")]) == 0
        page = opened(tab, (tmp_path / "out" / "report.html").as_uri())
        page.locator("#filter-sampler").select_option("threshold-0.9")
        settled(page)
        assert set(column(page, OVERVIEW, 1)) == {"threshold-0.9"}

    def test_filter_by_task(self, tab: Tab, address: str) -> None:
        """The task is opened, the others are away."""
        page = opened(tab, f"{address}#task=waiting_line/copy")
        assert page.locator("details.task:visible").count() == 1
        assert page.locator("details.task:visible table").first.is_visible()

    @pytest.mark.parametrize("own_tab", [{"java_script_enabled": False}], indirect=True)
    def test_without_a_script(self, own_tab: Tab, tmp_path: Path, picture: Draw) -> None:
        """Tables and the first plot are there, and what needs a script is said."""
        page = opened(own_tab, illustrated(tmp_path, picture))
        assert "50.0" in page.locator("table").first.inner_text()
        drawn = page.locator("figure.first-plot img")
        assert drawn.bounding_box()["height"] > 200
        assert "need it" in page.locator("noscript").inner_text()
        assert not page.locator("#filters").is_visible()

    def test_in_an_old_browser(self, own_tab: Tab, tmp_path: Path, picture: Draw) -> None:
        """One without DecompressionStream shows what reads without a script, and says so."""
        own_tab.page.add_init_script("delete window.DecompressionStream")
        own_tab.page.goto(illustrated(tmp_path, picture))
        assert "too old to unpack" in own_tab.page.locator("#old").inner_text()
        assert own_tab.page.locator("figure.first-plot img").bounding_box()["height"] > 200
        assert "50.0" in own_tab.page.locator("table").first.inner_text()


class TestCells:
    def test_from_table_to_sample(self, tab: Tab, address: str) -> None:
        """Overview → cell → sample and back by the browser's own way."""
        page = opened(tab, address)
        page.locator(FIRST).first.click()
        settled(page)
        assert page.locator("h2:visible").inner_text() == "shuffle · tiny · confidence-k2"
        assert column(page, "#view table", 1)[:3] == ["✗ wrong"] * 3
        assert column(page, "#view table", 1).count("✗ wrong") == 3
        page.get_by_role("link", name="sample 0").click()
        settled(page)
        text = page.locator("#view").inner_text()
        assert text.index("prompt") < text.index("step 4 of 4") < text.index("why it is wrong")
        assert '["Ann Li", ' in page.locator("pre.answer").inner_text()
        page.go_back()
        page.go_back()
        settled(page)
        assert page.locator("#main").is_visible()

    def test_only_wrong(self, tab: Tab, address: str) -> None:
        """Only wrong answers are listed, and ‹ › goes through them alone."""
        page = opened(tab, address + CELL)
        page.get_by_label("answers:").select_option("wrong")
        settled(page)
        assert column(page, "#view table", 1) == ["✗ wrong"] * 3
        page.locator("#view tbody a").first.click()
        settled(page)
        seen = 1
        while page.get_by_role("link", name="next ›").count():
            page.get_by_role("link", name="next ›").click()
            settled(page)
            assert "✗ wrong" in page.locator("#view h3").inner_text()
            seen += 1
        assert seen == 3

    def test_a_cell_that_is_not_there(self, tab: Tab, address: str) -> None:
        """An address of another run's cell says so."""
        assert (
            "no answers of cell none/x/<b>"
            in opened(tab, f"{address}#cell=none/x/<b>").locator("#view").inner_text()
        )

    def test_served(self, own_tab: Tab, tmp_path: Path) -> None:
        """A page of `pbcore view` asks its server for the answers of a cell, and nobody else for
        anything.
        """
        with served(run(tmp_path).path) as local:
            page = opened(own_tab, f"{local}/{CELL}&sample=1")
            assert "sample 1" in page.locator("#view h3").inner_text()
            assert page.locator(".film").count() == 1
            own_tab.context.close()
        assert own_tab.requests
        assert all(url.startswith(local) for url in own_tab.requests)


class TestList:
    def test_it_follows_and_compares(self, own_tab: Tab, tmp_path: Path) -> None:
        """Cells of a run at work are counted as they finish, what is marked stays marked, and two
        marked runs are compared.
        """
        for name in ("a", "b"):
            write_page(run(tmp_path, name).path)
        made = create(tmp_path, "c")
        made.write_run({"started": "2999-01-01T00:00:00+00:00"})
        with running(serve_folder(tmp_path)) as local:
            page = own_tab.page
            page.goto(f"{local}/")
            button = page.get_by_role("button", name="compare the two")
            assert button.is_disabled()
            for box in page.get_by_role("checkbox").all():
                box.check()
            made.write_cell(*factory.cell(n=2))
            until(page, "document.querySelectorAll('#runs input').length === 3")
            assert page.locator("#runs input:checked").count() == 2
            button.click()
            assert page.locator("h1").inner_text() in ("a against b", "b against a")
            page.go_back()
            page.get_by_role("link", name="c", exact=True).click()
            settled(page)
            assert page.locator("h1").inner_text() == "tiny · 1 sampler · 1 task"
            own_tab.context.close()
        assert all(url.startswith((local, "data:")) for url in own_tab.requests)


class TestLooks:
    @pytest.mark.parametrize(
        ("own_tab", "light"),
        [({"color_scheme": "light"}, True), ({"color_scheme": "dark"}, False)],
        indirect=["own_tab"],
    )
    def test_colours(self, own_tab: Tab, address: str, light: bool) -> None:
        """Light or dark as the system is, and by the button."""
        page = opened(own_tab, address)

        def is_light() -> bool:
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            return sum(map(int, colour.strip("rgb()").split(","))) > 600

        assert is_light() == light
        page.locator("#theme").click()
        assert not is_light()
        page.locator("#theme").click()
        assert is_light()

    @pytest.mark.parametrize(
        "own_tab", [{"viewport": {"width": 390, "height": 800}}], indirect=True
    )
    def test_the_first_screen_of_a_phone(self, own_tab: Tab, tmp_path: Path) -> None:
        """The verdict stands above the curves; a long word of an error widens nothing; no text of
        the plot lies on another, and none of the table's numbers touch.
        """
        entries = [
            filmed(factory.cell(sampler=sampler, right=right, n=8, nfe=nfe))
            for sampler, right, nfe in (("confidence-k1", 1.0, 32), ("confidence-k2", 0.5, 16))
        ]
        entries += [
            filmed(factory.cell(sampler=sampler, right=1.0, n=8, nfe=2))
            for sampler in ("eb-0.1", "threshold-0.9", "factor-1.0")
        ]
        failed = error_cell(factory.cell(sampler="random-k2", n=8)[0], "no " + "x" * 300)
        file = write_page(factory.write(create(tmp_path, "a"), [*entries, (failed, [])]).path)
        page = opened(own_tab, file.as_uri())
        card = page.locator(".card").first.bounding_box()
        assert card["y"] + card["height"] <= page.locator("figure.first-plot").bounding_box()["y"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        texts = page.locator("figure.first-plot svg text").all()
        boxes = [text.bounding_box() for text in texts]
        assert len(boxes) > 8
        assert [pair for pair in combinations(boxes, 2) if overlap(*pair, 1.0)] == []
        for row in page.locator("table.heat tbody tr").all():
            ends = row.locator("td:visible").evaluate_all(
                "cells => cells.map(cell => { const range = document.createRange();"
                " range.selectNodeContents(cell); const box = range.getBoundingClientRect();"
                " return [box.left, box.right]; })"
            )
            assert all(left[1] + 3 <= right[0] for left, right in pairwise(ends))

    @pytest.mark.parametrize(
        "own_tab", [{"viewport": {"width": 390, "height": 800}}], indirect=True
    )
    def test_lists_fit_a_phone(self, own_tab: Tab, tmp_path: Path) -> None:
        """Answers and runs are blocks there: all they say is seen without moving sideways."""
        made = run(tmp_path)
        for where in (CELL, "#answers=all"):
            page = opened(own_tab, write_page(made.path).as_uri() + where)
            page.locator("table.answers tbody tr").first.wait_for()
            fits = "box => box.scrollWidth <= box.clientWidth"
            assert page.locator(".wide").evaluate_all(f"boxes => boxes.every({fits})")
        with running(serve_folder(tmp_path)) as address:
            own_tab.page.goto(address)
            assert own_tab.page.locator(".wide").evaluate(
                "box => box.scrollWidth <= box.clientWidth"
            )

    @pytest.mark.parametrize(
        "own_tab", [{"viewport": {"width": 400, "height": 800}}], indirect=True
    )
    @pytest.mark.parametrize(
        "where", ["", CELL, f"{CELL}&sample=0&with=tiny/shuffle/threshold-0.9", "#answers=all"]
    )
    def test_narrow(self, own_tab: Tab, address: str, where: str) -> None:
        """At 400 px nothing but tables scrolls sideways."""
        page = opened(own_tab, address + where)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400

    def test_print(self, own_tab: Tab, address: str) -> None:
        """On paper there are no controls, and nothing is dark or folded."""
        page = opened(own_tab, address)
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert not page.locator("#filters").is_visible()
        assert page.locator("details.task table").first.is_visible()


class TestEverybody:
    @pytest.mark.parametrize(
        "where", ["", CELL, f"{CELL}&sample=0&with=tiny/shuffle/threshold-0.9", "#answers=all"]
    )
    @pytest.mark.parametrize("own_tab", [{"color_scheme": "light"}], indirect=True)
    def test_axe(self, own_tab: Tab, address: str, where: str) -> None:
        """axe finds nothing; in dark colours, which alone differ there, their contrasts are looked
        at again.
        """
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing"
        )
        page = opened(own_tab, address + where)
        page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            page.emulate_media(
                color_scheme=scheme, reduced_motion="reduce"
            )  # no colours half-way to their place
            assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == light) is (
                scheme == "light"
            )
            found = (
                axe.Axe()
                .run(page, options={"resultTypes": ["violations"], **rules})
                .response["violations"]
            )
            assert [
                (one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found
            ] == [], scheme

    def test_keyboard_alone(self, tab: Tab, address: str) -> None:
        """Tab, arrows and Enter lead from the top into a cell, where the heading has the focus."""
        page = opened(tab, address)
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('.matrix a')"):
                break
        for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
            page.keyboard.press(key)
        assert page.evaluate("document.activeElement.getAttribute('href')") == CELL
        page.keyboard.press("Enter")
        page.wait_for_selector("#view h2")
        assert page.evaluate("document.activeElement.tagName") == "H2"


HOSTILE = (
    "<script>window.hit = 1</script>",
    "</script><img src=x onerror='window.hit = 1'>",
    "<!-- <script>",
    "{{script}} ${hit} `",
    "\x1b[31mred\x00",
    "\u202egnp\u2028\u2029",
    "\ud800",
    "=HYPERLINK(1)",
    "javascript:window.hit=1",
)


class TestHostile:
    def test_shown_as_text(self, tab: Tab, tmp_path: Path) -> None:
        """Answers, names, reasons and tokens that are code or hidden signs are text, which can be
        seen.
        """
        cell, samples = filmed(factory.cell(n=len(HOSTILE), right=0.0))
        told = [
            replace(
                one, text=bad, tokens=[bad, bad, "<eos>"], steps=[0, 1, 1], details={"why": bad}
            )
            for one, bad in zip(samples, HOSTILE, strict=True)
        ]
        bad = replace(cell, sampler=HOSTILE[1], id=f"tiny/{HOSTILE[0]}")
        entry = factory.failing(HOSTILE[0], bad, told)
        file = write_page(factory.write(create(tmp_path, "a"), [entry, factory.cell(n=1)]).path)
        page = opened(tab, file.as_uri())
        page.locator("details.category a").first.click()
        page.wait_for_selector("#view table")
        assert HOSTILE[0] in page.locator("#view").inner_text()
        for index, text in enumerate(HOSTILE):
            page.locator(f"#view tbody tr >> nth={index} >> a").click()
            settled(page)
            shown = page.locator("pre.answer").inner_text()
            assert shown == text or "U+" in shown
            page.get_by_role("button", name="first step").click()
            page.get_by_role("button", name="one step on").click()
            page.get_by_role("link", name="all answers of this cell").click()
            settled(page)
        assert page.evaluate("window.hit") is None
        assert all(url.startswith("file:") for url in tab.requests)

    def test_a_million_characters(self, tab: Tab, tmp_path: Path) -> None:
        """They are cut, which is said, and the page stays usable."""
        cell, samples = factory.cell(n=1)
        told = [replace(samples[0], text="ab " * 400_000)]
        file = write_page(factory.write(create(tmp_path, "a"), [(cell, told)]).path)
        page = opened(tab, f"{file.as_uri()}{CELL}&sample=0")
        assert "The first part of 1,200,000 characters" in page.locator("#view").inner_text()


def test_no_request(tab: Tab, address: str) -> None:
    """Going through the page asks nobody for anything."""
    page = opened(tab, address)
    page.goto(f"{address}{CELL}&sample=0")
    assert set(tab.requests) == {address}

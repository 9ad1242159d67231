"""report.html in a real browser: sorting, filters, addresses, films, keyboard, colours, hostile text, accessibility."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.report.page import write_page
from pbcore.results import create
from pbcore.results.record import FormerToken
from tests.report.page.conftest import Tab
from tests.report.page.films import filmed, run
from tests.report.page.test_view import served
from tests.results import factory

pytestmark = pytest.mark.browser
OVERVIEW = "table >> nth=0 >>"
CELL = "#cell=tiny/shuffle/confidence-k2"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of eight cells."""
    return write_page(run(tmp_path_factory.mktemp("page")).path).as_uri()


def opened(tab: Tab, address: str) -> Any:
    tab.page.goto(address)
    if "java_script_enabled" not in tab.settings:
        settled(tab.page)
    return tab.page


def settled(page: Any) -> None:
    """Waits until the page shows what its address says."""
    until(page, "document.documentElement.dataset.shown === location.hash")


def until(page: Any, condition: str) -> None:
    """Waits for a condition. The page's policy forbids playwright's own `wait_for_function`, which calls eval there."""
    for _ in range(500):
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
    rows = page.locator(f"{table} tbody tr:visible")
    return [rows.nth(i).locator("td, th").nth(number).inner_text() for i in range(rows.count())]


class TestTables:
    def test_sort(self, tab: Tab, address: str) -> None:
        """A head sorts by numbers, once up and once down, and says so."""
        page = opened(tab, address)
        head = page.locator("section table").first.locator("thead th", has_text="NFE")
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert column(page, OVERVIEW, 5) == ["8.0", "8.0", "16.0", "16.0"]
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert column(page, OVERVIEW, 5) == ["16.0", "16.0", "8.0", "8.0"]

    def test_filter(self, tab: Tab, address: str) -> None:
        """A filter hides the other models' rows and curves, stands in the address, and can be taken back."""
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
        """Results that came without samples, such as a file that a CI kept, are filtered all the same."""
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
        assert page.locator("details.task:visible table").is_visible()

    @pytest.mark.parametrize("tab", [{"java_script_enabled": False}], indirect=True)
    def test_without_a_script(self, tab: Tab, address: str) -> None:
        """Tables and plots are there, and what needs a script is said."""
        page = opened(tab, address)
        assert "50.0" in page.locator("table").first.inner_text()
        assert page.locator("figure.plot svg").first.is_visible()
        assert "need it" in page.locator("noscript").inner_text()
        assert not page.locator("#filters").is_visible()


class TestCells:
    def test_from_table_to_sample(self, tab: Tab, address: str) -> None:
        """Overview → cell → sample and back by the browser's own way."""
        page = opened(tab, address)
        page.locator("section.category table a[href='" + CELL + "']").first.click()
        settled(page)
        assert page.locator("h2:visible").inner_text() == "waiting_line/shuffle · tiny · confidence-k2"
        assert column(page, "#view table", 1).count("✗ wrong") == 3
        page.get_by_role("link", name="sample 0").click()
        settled(page)
        assert "prompt" in page.locator("#view").inner_text()
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
            assert "✗ wrong" in page.locator("h3").inner_text()
            seen += 1
        assert seen == 3

    def test_a_cell_that_is_not_there(self, tab: Tab, address: str) -> None:
        """An address of another run's cell says so."""
        assert (
            "no answers of cell none/x/<b>" in opened(tab, f"{address}#cell=none/x/<b>").locator("#view").inner_text()
        )

    def test_served(self, tab: Tab, tmp_path: Path) -> None:
        """A page of `pbcore view` asks its server for the answers of a cell, and nobody else for anything."""
        with served(run(tmp_path).path) as local:
            page = opened(tab, f"{local}/{CELL}&sample=1")
            assert "sample 1" in page.locator("h3").inner_text()
            assert page.locator(".film").count() == 1
            tab.context.close()
        assert tab.requests
        assert all(url.startswith(local) for url in tab.requests)


class TestFilm:
    def test_step_by_step(self, tab: Tab, address: str) -> None:
        """Each step reveals its tokens as one outlined group, with step and confidence."""
        page = opened(tab, f"{address}{CELL}&sample=0")
        film = page.locator(".film")
        film.get_by_role("button", name="first step").click()
        assert film.locator(".tok.mask").count() == 10
        film.get_by_role("button", name="one step on").click()
        assert film.locator(".tok.fresh").count() == 2
        assert film.locator(".tok.fresh .at").all_inner_texts() == ["1", "1"]
        assert "2 tokens together" in film.locator(".told").inner_text()
        assert ".90" in film.locator(".told").inner_text()
        film.get_by_role("button", name="last step").click()
        assert film.locator(".tok.mask").count() == 0
        assert "end × 3" in film.locator(".told").inner_text()

    def test_keyboard_and_slider(self, tab: Tab, address: str) -> None:
        """Arrow keys, Home and End step; the slider says where it is."""
        page = opened(tab, f"{address}{CELL}&sample=0")
        film = page.locator(".film")
        film.focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        slider = film.get_by_role("slider")
        assert slider.get_attribute("aria-valuetext") == "step 2 of 4"
        slider.focus()
        page.keyboard.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "step 3 of 4"
        page.keyboard.press("End")
        assert slider.get_attribute("aria-valuetext") == "step 4 of 4"

    def test_play(self, tab: Tab, address: str) -> None:
        """Play begins anew at the end, goes on by itself and ends at the last step."""
        page = stopped(tab, f"{address}{CELL}&sample=0")
        film = page.locator(".film")
        film.get_by_role("button", name="play").click()
        assert film.locator("output").inner_text() == "step 0 of 4"
        page.clock.run_for(1500)
        assert film.locator("output").inner_text() == "step 2 of 4"
        film.get_by_role("button", name="pause").click()
        page.clock.run_for(5000)
        assert film.locator("output").inner_text() == "step 2 of 4"
        film.get_by_role("button", name="play").click()
        page.clock.run_for(5000)
        assert film.locator("output").inner_text() == "step 4 of 4"
        assert film.get_by_role("button", name="play").count() == 1

    @pytest.mark.parametrize("tab", [{"reduced_motion": "reduce"}], indirect=True)
    def test_less_motion(self, tab: Tab, address: str) -> None:
        """For those who want less motion it plays slower and nothing slides."""
        page = stopped(tab, f"{address}{CELL}&sample=0")
        page.get_by_role("button", name="play").click()
        page.clock.run_for(1500)
        assert page.locator(".film output").inner_text() == "step 0 of 4"
        assert page.locator(".tok").first.evaluate("e => getComputedStyle(e).transitionDuration") == "0s"

    def test_tokens_that_went(self, tab: Tab, tmp_path: Path) -> None:
        """A token masked again is there, then struck out, then another."""
        cell, samples = filmed(factory.cell(n=1, right=1.0))
        went = replace(samples[0], former=[FormerToken(2, " Xu", 0, 2, 0.3)], steps=[0, 0, 3, 1, 2, 2, 3, 3, 3, 3])
        file = write_page(factory.write(create(tmp_path, "a"), [(cell, [went])]).path)
        page = opened(tab, f"{file.as_uri()}{CELL}&sample=0")
        film, token = page.locator(".film"), page.locator(".tok").nth(2)
        film.focus()
        page.keyboard.press("Home")
        seen = []
        for _ in range(4):
            page.keyboard.press("ArrowRight")
            seen.append((token.locator(".piece").inner_text().strip(), token.locator(".at").inner_text()))
        assert seen == [("Xu", "1"), ("Xu", "1"), ("Xu", "masked"), ("Li", "4")]

    def test_replaced_tokens(self, tab: Tab, tmp_path: Path) -> None:
        """A token that replaces another in one step is named."""
        cell, samples = filmed(factory.cell(n=1, right=1.0))
        went = replace(samples[0], former=[FormerToken(2, " Xu", 0, 2, 0.3)], steps=[0, 0, 2, 1, 2, 2, 3, 3, 3, 3])
        file = write_page(factory.write(create(tmp_path, "a"), [(cell, [went])]).path)
        page = opened(tab, f"{file.as_uri()}{CELL}&sample=0")
        page.get_by_text("All steps as a list").click()
        steps = page.locator("ol.steps li").all_inner_texts()
        assert "Xu .30" in steps[0]
        assert steps[2] == "3 tokens together: Li .70, Bo .50, Ek .40; replacing another token: Li"

    def test_steps_without_confidences(self, tab: Tab, tmp_path: Path) -> None:
        """A model with its own decoder may tell the steps alone."""
        cell, samples = filmed(factory.cell(n=1, right=1.0))
        told = [replace(samples[0], confidences=[])]
        page = opened(
            tab, f"{write_page(factory.write(create(tmp_path, 'a'), [(cell, told)]).path).as_uri()}{CELL}&sample=0"
        )
        page.get_by_text("All steps as a list").click()
        words = page.locator("ol.steps li").all_inner_texts()[3]
        assert words == '4 tokens together: "] –, end × 3 –'

    def test_two_samplers_on_one_sample(self, tab: Tab, address: str) -> None:
        """Chosen from a list, they play under one slider, and the address names both."""
        page = opened(tab, f"{address}{CELL}&sample=0")
        page.get_by_label("beside it").select_option("tiny/shuffle/threshold-0.9")
        until(page, "document.querySelectorAll('.film ol.canvas').length === 2")
        assert "with=tiny/shuffle/threshold-0.9" in page.url
        assert page.locator(".film").get_by_role("slider").count() == 1
        assert page.locator(".told b").all_inner_texts() == ["tiny · confidence-k2", "tiny · threshold-0.9"]

    def test_no_film(self, tab: Tab, tmp_path: Path) -> None:
        """An answer without tokens, as of a server, says why there is none."""
        cell, samples = factory.cell(n=1)
        told = [replace(samples[0], served={"finish_reason": "stop"})]
        file = write_page(factory.write(create(tmp_path, "a"), [(cell, told)]).path)
        text = opened(tab, f"{file.as_uri()}{CELL}&sample=0").locator("#view").inner_text()
        assert "No film: a model behind a server does not tell its steps." in text
        assert "The prompt was not kept with this run." in text

    def test_grammar(self, tab: Tab, tmp_path: Path) -> None:
        """A match is underlined with its rule in the answer, and its tokens in the film."""
        cell, samples = filmed(factory.cell(n=1, right=1.0))
        match = {"rule": "EN_A_VS_AN", "message": "Use an", "offset": 2, "length": 3, "category": "MISC"}
        told = [replace(samples[0], details={"matches": [match]})]
        file = write_page(factory.write(create(tmp_path, "a"), [(cell, told)]).path)
        page = opened(tab, f"{file.as_uri()}{CELL}&sample=0")
        assert page.locator("mark").inner_text() == "AnnEN_A_VS_AN"
        assert page.locator(".tok.match .piece").all_inner_texts() == ["Ann"]


class TestLooks:
    @pytest.mark.parametrize(
        ("tab", "light"),
        [({"color_scheme": "light"}, True), ({"color_scheme": "dark"}, False)],
        indirect=["tab"],
    )
    def test_colours(self, tab: Tab, address: str, light: bool) -> None:
        """Light or dark as the system is, and by the button."""
        page = opened(tab, address)

        def is_light() -> bool:
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            return sum(map(int, colour.strip("rgb()").split(","))) > 600

        assert is_light() == light
        page.locator("#theme").click()
        assert not is_light()
        page.locator("#theme").click()
        assert is_light()

    @pytest.mark.parametrize("tab", [{"viewport": {"width": 400, "height": 800}}], indirect=True)
    @pytest.mark.parametrize("where", ["", CELL, f"{CELL}&sample=0&with=tiny/shuffle/threshold-0.9"])
    def test_narrow(self, tab: Tab, address: str, where: str) -> None:
        """At 400 px nothing but tables scrolls sideways."""
        page = opened(tab, address + where)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400

    def test_print(self, tab: Tab, address: str) -> None:
        """On paper there are no controls, and nothing is dark or folded."""
        page = opened(tab, address)
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert not page.locator("#filters").is_visible()
        assert page.locator("details.task table").first.is_visible()


class TestEverybody:
    @pytest.mark.parametrize("where", ["", CELL, f"{CELL}&sample=0&with=tiny/shuffle/threshold-0.9"])
    @pytest.mark.parametrize("tab", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
    def test_axe(self, tab: Tab, address: str, where: str) -> None:
        """axe finds nothing, in either colours."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing")
        page = opened(tab, address + where)
        page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        found = axe.Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        assert [(one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found] == []

    def test_keyboard_alone(self, tab: Tab, address: str) -> None:
        """Tab and Enter lead from the top into a cell, where the heading has the focus."""
        page = opened(tab, address)
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.getAttribute('href')") == CELL:
                break
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
        """Answers, names, reasons and tokens that are code or hidden signs are text, which can be seen."""
        cell, samples = filmed(factory.cell(n=len(HOSTILE), right=0.0))
        told = [
            replace(one, text=bad, tokens=[bad, bad, "<eos>"], steps=[0, 1, 1], details={"why": bad})
            for one, bad in zip(samples, HOSTILE, strict=True)
        ]
        bad = replace(cell, sampler=HOSTILE[1], id=f"tiny/{HOSTILE[0]}", failures={HOSTILE[0]: 1})
        file = write_page(factory.write(create(tmp_path, "a"), [(bad, told), factory.cell(n=1)]).path)
        page = opened(tab, file.as_uri())
        page.locator("section.category a").first.click()
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

"""The film of a sample in a real browser: step by step, by keyboard, by itself, two samplers side
by side.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.report.page import write_page
from pbcore.results import create
from pbcore.results.record import Blame, BlamedToken, Continued, FormerToken
from tests.report.page.browsing import CELL, column, opened, settled, stopped, until
from tests.report.page.conftest import Tab
from tests.report.page.films import SURE, WORDS, filmed
from tests.results import factory

pytestmark = [pytest.mark.browser, pytest.mark.slow]


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

    def test_play(self, own_tab: Tab, address: str) -> None:
        """Play begins anew at the end, goes on by itself and ends at the last step."""
        page = stopped(own_tab, f"{address}{CELL}&sample=0")
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

    @pytest.mark.parametrize("own_tab", [{"reduced_motion": "reduce"}], indirect=True)
    def test_less_motion(self, own_tab: Tab, address: str) -> None:
        """For those who want less motion it plays slower and nothing slides."""
        page = stopped(own_tab, f"{address}{CELL}&sample=0")
        page.get_by_role("button", name="play").click()
        page.clock.run_for(1500)
        assert page.locator(".film output").inner_text() == "step 0 of 4"
        assert (
            page.locator(".tok").first.evaluate("e => getComputedStyle(e).transitionDuration")
            == "0s"
        )

    def test_tokens_that_went(self, tab: Tab, tmp_path: Path) -> None:
        """A token masked again is there, then struck out, then another."""
        cell, samples = filmed(factory.cell(n=1, right=1.0))
        went = replace(
            samples[0],
            former=[FormerToken(2, " Xu", 0, 2, 0.3)],
            steps=[0, 0, 3, 1, 2, 2, 3, 3, 3, 3],
        )
        file = write_page(factory.write(create(tmp_path, "a"), [(cell, [went])]).path)
        page = opened(tab, f"{file.as_uri()}{CELL}&sample=0")
        film = page.locator(".film")
        token = page.locator(".tok").nth(2)
        film.focus()
        page.keyboard.press("Home")
        seen = []
        for _ in range(4):
            page.keyboard.press("ArrowRight")
            seen.append(
                (token.locator(".piece").inner_text().strip(), token.locator(".at").inner_text())
            )
        assert seen == [("Xu", "1"), ("Xu", "1"), ("Xu", "masked"), ("Li", "4")]

    def test_replaced_tokens(self, tab: Tab, tmp_path: Path) -> None:
        """A token that replaces another in one step is named."""
        cell, samples = filmed(factory.cell(n=1, right=1.0))
        went = replace(
            samples[0],
            former=[FormerToken(2, " Xu", 0, 2, 0.3)],
            steps=[0, 0, 2, 1, 2, 2, 3, 3, 3, 3],
        )
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
            tab,
            f"{write_page(factory.write(create(tmp_path, 'a'), [(cell, told)]).path).as_uri()}{CELL}&sample=0",
        )
        page.get_by_text("All steps as a list").click()
        words = page.locator("ol.steps li").all_inner_texts()[3]
        assert words == '4 tokens together: "] –, end × 3 –'

    def test_it_opens_at_the_step_to_blame(self, tab: Tab, tmp_path: Path) -> None:
        """It says which step broke the answer, and a button plays beside it how the answer would
        have gone on one token at a time.
        """
        cell, samples = filmed(factory.cell(n=1, right=0.0))
        rest = Continued("".join(WORDS[:-1]), list(WORDS), [0, 0, 2, 3, 4, 5, 6, 1, 1, 1], SURE)
        revealed = [BlamedToken(2, " Li", 0.7, True), BlamedToken(3, '", "', 0.6, True)]
        blamed = replace(samples[0], blame=Blame("together", "", 1, revealed, rest))
        file = write_page(factory.write(create(tmp_path, "a"), [(cell, [blamed])]).path)
        page = opened(tab, f"{file.as_uri()}{CELL}&sample=0")
        assert page.locator(".film output").inner_text() == "step 2 of 4"
        lines = page.locator(".blame p").all_inner_texts()
        assert lines[0].startswith("Step 2 revealed Li (.70)")
        assert lines[1].startswith("One at a time from step 1: right.")
        assert page.locator(".tok.clash .piece").all_inner_texts() == ["Li", '", "']
        page.locator(".film").get_by_role("button", name="one step back").click()
        assert page.locator(".tok.clash").count() == 0
        page.locator(".film").get_by_role("button", name="one step on").click()
        page.get_by_role("button", name="▶ beside it").click()
        until(page, "document.querySelectorAll('.film ol.canvas').length === 2")
        assert "one token at a time" in page.locator(".told").inner_text()
        assert "with=one-at-a-time" in page.url
        page.get_by_role("button", name="take it away").click()
        until(page, "document.querySelectorAll('.film ol.canvas').length === 1")

    def test_it_opens_where_an_item_was_written_again(self, tab: Tab, tmp_path: Path) -> None:
        """Without blame; both items are marked, the list names the step, and a command is offered
        that finds what broke it.
        """
        cell, samples = filmed(factory.cell(n=1, right=0.0))
        words = ['["', "Ann", " Li", '", "', "Ann", " Li", '"]', "<eos>"]
        twice = {"item": "Ann Li", "allowed": 1, "at": [2, 12]}
        told = replace(
            samples[0],
            text='["Ann Li", "Ann Li"]',
            tokens=words,
            details={**samples[0].details, "repeated": [twice]},
        )
        run = factory.write(create(tmp_path, "a"), [(cell, [told])])
        page = opened(tab, f"{write_page(run.path).as_uri()}{CELL}&sample=0")
        assert page.locator(".film output").inner_text() == "step 3 of 4"
        assert page.locator(".tok.clash .piece").all_inner_texts() == ["Ann", "Li"] * 2
        assert page.locator(".blame p").all_inner_texts() == [
            "Step 3 wrote Ann Li for the second time.",
            f"pbcore blame {run.path} finds the step that broke it, and whether tokens that were"
            " revealed together are to blame, or the model.",
        ]
        page.get_by_role("link", name="all answers of this cell").click()
        settled(page)
        heads = page.locator("#view thead th").all_inner_texts()
        assert (heads[1], heads[-1]) == ("verdict", "step")
        assert column(page, "#view table", len(heads) - 1) == ["3"]

    def test_steps_that_write_the_end_play_as_one(self, own_tab: Tab, tmp_path: Path) -> None:
        """Four steps fill the canvas with the end; stepping by hand still takes each."""
        cell, samples = filmed(factory.cell(n=1, right=1.0))
        told = replace(samples[0], steps=[0, 0, 1, 1, 1, 1, 1, 2, 3, 5])
        run = factory.write(create(tmp_path, "a"), [(cell, [told])])
        page = stopped(own_tab, f"{write_page(run.path).as_uri()}{CELL}&sample=0")
        film = page.locator(".film")
        film.get_by_role("button", name="play").click()
        page.clock.run_for(1500)
        assert film.locator("output").inner_text() == "step 2 of 6"
        page.clock.run_for(700)
        assert film.locator("output").inner_text() == "step 4 of 6"
        assert film.locator(".told").inner_text() == "steps 3 to 4: end × 2 .99"
        assert film.locator(".tok.fresh").count() == 2
        film.get_by_role("button", name="pause").click()
        film.get_by_role("button", name="one step back").click()
        assert film.locator("output").inner_text() == "step 3 of 6"
        assert film.locator(".tok.fresh").count() == 1

    def test_two_samplers_on_one_sample(self, tab: Tab, address: str) -> None:
        """Chosen from a list, they play under one slider, and the address names both."""
        page = opened(tab, f"{address}{CELL}&sample=0")
        page.get_by_label("beside it").select_option("tiny/shuffle/threshold-0.9")
        until(page, "document.querySelectorAll('.film ol.canvas').length === 2")
        assert "with=tiny/shuffle/threshold-0.9" in page.url
        assert page.locator(".film").get_by_role("slider").count() == 1
        assert page.locator(".told b").all_inner_texts() == [
            "tiny · confidence-k2",
            "tiny · threshold-0.9",
        ]

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
        match = {
            "rule": "EN_A_VS_AN",
            "message": "Use an",
            "offset": 2,
            "length": 3,
            "category": "MISC",
        }
        told = [replace(samples[0], details={"matches": [match]})]
        file = write_page(factory.write(create(tmp_path, "a"), [(cell, told)]).path)
        page = opened(tab, f"{file.as_uri()}{CELL}&sample=0")
        assert page.locator("mark").inner_text() == "AnnEN_A_VS_AN"
        assert page.locator(".tok.match .piece").all_inner_texts() == ["Ann"]

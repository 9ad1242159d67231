"""What Chromium shows of the canonical run is what happened in it."""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import quote

import pytest

from pbcore.base.printable import fixed
from tests import screens
from tests.canonical import CanonicalRun
from tests.report.page.browsing import opened
from tests.report.page.conftest import Tab
from tests.test_one_fact import happened, or_error

pytestmark = [pytest.mark.slow, pytest.mark.browser]  # each starts Chromium


def shown(tab: Tab, run: CanonicalRun, place: str = "") -> str:
    """The page as text, after its script has run."""
    page = opened(tab, f"{(run.run / 'report.html').as_uri()}{place}")
    return screens.page_text(page.content())


def test_the_page_shows_what_happened(tab: Tab, canonical: CanonicalRun) -> None:
    """Verdicts, the gate and the scores, in the document that the script leaves."""
    facts = happened(canonical)
    text = shown(tab, canonical)
    assert screens.page_verdicts(text) == facts["verdict"]
    assert screens.gates(text) == [facts["gate"]]
    assert screens.by_task(text) == or_error(facts["scores"])


@pytest.mark.parametrize("cell", ["müller/shuffle/mine-k2", "ideal/küche/tausch/mine-k2"])
def test_a_cell_shows_what_happened(tab: Tab, canonical: CanonicalRun, cell: str) -> None:
    """Its score, how many of its answers are wrong, and its forwards."""
    facts = happened(canonical)
    lines = shown(tab, canonical, f"#cell={quote(cell)}").partition("← all cells")[2].splitlines()
    beside = dict(reversed([*pairwise(lines)]))  # of two lines that are alike the first
    assert beside["wrong answers"] == f"{facts['wrong'][cell]} of {facts['n'][cell]}"
    assert beside["accuracy"].partition(" ")[0] == fixed(facts["scores"][cell], 0)
    assert beside["NFE"].partition(" ")[0] == fixed(facts["forwards"][cell], 1)


def test_an_answer_shows_what_happened(tab: Tab, canonical: CanonicalRun) -> None:
    """The step to blame is the one in the sentence and the one at which the film stands."""
    facts = happened(canonical)
    for cell, index in (("müller/shuffle/mine-k2", 1), ("müller/küche/tausch/mine-k2", 2)):
        text = shown(tab, canonical, f"#cell={quote(cell)}&sample={index}")
        step = str(facts["steps"][cell, index])
        assert re.findall(r"Step (\d+) revealed", text) == [step]
        assert re.findall(r"^step (\d+) of (\d+)$", text, re.MULTILINE) == [
            (step, fixed(facts["forwards"][cell], 0))
        ]

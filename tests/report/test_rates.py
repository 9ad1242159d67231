"""pbcore.report.rates: why tokens per step and TPF differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pbcore.report.markdown import report_text
from pbcore.report.page.write import page
from pbcore.report.rates import rates_note
from pbcore.report.scopes import scopes
from pbcore.report.summary import summary
from tests.results import factory

NOTE = (
    "tokens/step is a mean over answers and counts the whole canvas, TPF divides sums and stops at"
    " the first EOS: 4.0 and 2.3 of tiny with confidence-k4"
)


def test_the_sampler_whose_rates_lie_furthest_apart() -> None:
    """With the numbers that its table has."""
    records = [factory.cell(sampler=f"confidence-k{k}", nfe=32 // k)[0] for k in (1, 4, 2)]
    assert rates_note(scopes(factory.rows(records))[0]) == NOTE


def test_the_same_sentence_everywhere() -> None:
    """Terminal, also in detail, report.md and page."""
    records = [factory.cell(sampler=f"confidence-k{k}", nfe=32 // k)[0] for k in (1, 4)]
    report = factory.report(records)
    assert NOTE in summary(report, 400)
    assert NOTE in summary(report, 400, detailed=True)
    assert NOTE[1:] in report_text(report)
    assert NOTE in page(report)


@pytest.mark.parametrize("rate", [None, 2.0, 1.95])
def test_nothing_to_explain(rate: float | None) -> None:
    """A rate that nobody has, and rates that are about the same."""
    record = replace(factory.cell()[0], tokens_per_forward=rate)
    assert rates_note(scopes(factory.rows([record]))[0]) == ""
    assert "tokens/step is" not in summary(factory.report([record]))


def test_a_mean_that_lacks_a_task() -> None:
    """It has no rates to explain."""
    cells = [factory.cell(task="waiting_line/copy")[0], factory.cell()[0]]
    silent = replace(cells[1], tokens_per_forward=None)
    assert rates_note(scopes(factory.rows([cells[0], silent]))[0]) == ""

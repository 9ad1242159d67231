"""pbcore.report.rates: why tokens per step and TPF differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pbcore.report.markdown import report_text
from pbcore.report.page.write import page
from pbcore.report.rates import rates_note
from pbcore.report.summary import summary
from pbcore.results import frame
from tests.results import factory

NOTE = (
    "tokens/step is a mean over answers and counts the whole canvas, TPF divides sums and stops at"
    " the first EOS: 4.0 and 2.3 of tiny with confidence-k4"
)


def test_the_sampler_whose_rates_lie_furthest_apart() -> None:
    """With the numbers that its table has."""
    records = [factory.cell(sampler=f"confidence-k{k}", nfe=32 // k)[0] for k in (1, 4, 2)]
    assert rates_note(frame(records)) == NOTE


def test_the_same_sentence_everywhere() -> None:
    """Terminal, also in detail, report.md and page."""
    records = [factory.cell(sampler=f"confidence-k{k}", nfe=32 // k)[0] for k in (1, 4)]
    cells = frame(records)
    assert NOTE in summary(records, 400)
    assert NOTE in summary(records, 400, detailed=True)
    assert NOTE[1:] in report_text(cells, "run", {}, [])
    assert NOTE in page(factory.report(records))


@pytest.mark.parametrize("rate", [None, 2.0, 1.95])
def test_nothing_to_explain(rate: float | None) -> None:
    """A rate that nobody has, and rates that are about the same."""
    record = replace(factory.cell()[0], tokens_per_forward=rate)
    assert rates_note(frame([record])) == ""
    assert "tokens/step is" not in summary([record])


def test_a_mean_that_lacks_a_task() -> None:
    """It has no rates to explain."""
    cells = [factory.cell(task="waiting_line/copy")[0], factory.cell()[0]]
    silent = replace(cells[1], tokens_per_forward=None)
    assert rates_note(frame([cells[0], silent])) == ""

"""Seconds by price lists in reports."""

from dataclasses import make_dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from pbcore.analysis.headline import headline
from pbcore.cli import main
from pbcore.costs.calls import CallShape
from pbcore.costs.measured import Fit, Measurement, Timing
from pbcore.costs.price_list import OwnPrice
from pbcore.decoding import register_policy
from pbcore.decoding.policies.registry import POLICIES
from pbcore.names import parse
from pbcore.report.answers import answers_alone
from pbcore.report.headline import RunVerdicts
from pbcore.report.prices import NO_CALLS, Prices, comparison_prices, price_section, with_prices
from pbcore.report.rows import CellRow
from pbcore.report.scopes import scopes
from pbcore.results import create
from pbcore.results.rundir import StoredCell
from pbcore.results.seconds import price_list
from tests.results import factory

FACTS = {"price": ["h200", "a100"], "price_batch": 1}


def cell(
    sampler: str, right: float, rows: int, nfe: int, n: int = 200, model: str = "tiny"
) -> StoredCell:
    """A cell of whole canvases of 186 tokens, all answers together in `nfe · n` calls."""
    record, samples = factory.cell(model=model, sampler=sampler, right=right, nfe=nfe, n=n)
    calls = {CallShape(rows, 186, 0, 32): nfe * n}
    return StoredCell(replace(record, calls=calls), tuple(samples))


def without(entry: StoredCell) -> StoredCell:
    """The cell as a record from before calls were counted."""
    return StoredCell(replace(entry.cell, calls=None), entry.samples)


PLAIN = cell("confidence-k1", 1.0, rows=1, nfe=32)
FAST = cell("eb-0.1", 1.0, rows=1, nfe=16)
WIDE = cell("spec-8", 1.0, rows=8, nfe=12)


def answers(*entries: StoredCell) -> list[Any]:
    return [answers_alone(entry) for entry in entries]


def cells(*entries: StoredCell) -> list[CellRow]:
    return factory.rows(entry.cell for entry in entries)


class TestSeconds:
    """Of a cell."""

    def test_are_the_price_of_its_calls_and_its_own_work(self) -> None:
        """32 calls of a whole canvas, by the list itself."""
        prices = price_list("h200", "tiny")
        expected = 32 * prices.call_seconds(CallShape(1, 186, 0, 32)) + prices.own_seconds(
            parse("confidence-k1"), 32
        )
        assert Prices("h200").seconds(PLAIN.cell) == pytest.approx(expected)

    def test_without_counts_are_none_with_the_reason(self) -> None:
        """A record from before."""
        prices = Prices("h200")
        assert prices.seconds(without(PLAIN).cell) is None
        assert list(prices.reasons) == [NO_CALLS]

    def test_of_a_model_without_a_shape_are_none_with_the_reason(self) -> None:
        """`ideal` has no network."""
        of_ideal = cell("confidence-k1", 1.0, rows=1, nfe=32, model="ideal").cell
        prices = Prices("h200")
        assert prices.seconds(of_ideal) is None
        assert "ideal: the shape" in next(iter(prices.reasons))


class TestSection:
    """The table of report.md, terminal and page."""

    def test_has_a_column_for_each_list_with_its_basis_and_marks_the_front(self) -> None:
        """Equal scores: the fastest alone is on the front."""
        entries = [PLAIN, FAST, WIDE]
        section = price_section(scopes(cells(*entries))[0], answers(*entries), FACTS)
        assert [column.head for column in section.columns][-2:] == [
            "ms, h200, computed",
            "ms, a100, computed",
        ]
        marked = [row["sampler"] for row in section.rows if "*" in row["ms, a100, computed"]]
        assert marked == ["eb-0.1"]

    def test_shows_a_dash_and_why(self) -> None:
        """For a record without counts, beside those with them."""
        entries = [PLAIN, without(FAST)]
        section = price_section(scopes(cells(*entries))[0], answers(*entries), FACTS)
        by_sampler = {row["sampler"]: row["ms, h200, computed"] for row in section.rows}
        assert by_sampler["eb-0.1"] == "–"
        assert by_sampler["confidence-k1"] != "–"
        assert NO_CALLS in section.note

    def test_shows_how_far_measured_calls_scatter(self, tmp_path: Path) -> None:
        """Beside the list's name; and of a busy machine that it was one."""
        shape = CallShape(1, 186, 0, 32)
        fit = Fit(call=4e-3, token=2e-5, floor=32, cached=0, refresh=0, pair=0, logit=0)
        own = {"confidence-k1": OwnPrice(1e-4)}
        state = Measurement("tiny", "float32", None, {}, fit=fit, own=own, busy=[1.5], free=1)
        state.timings = [Timing(shape, 1, False, [0.9, 1.0, 1.1])]
        path = tmp_path / "mine.json"
        path.write_text(state.text())
        section = price_section(scopes(cells(PLAIN))[0], answers(PLAIN), {"price": [str(path)]})
        assert section.columns[-1].head == "ms, mine, measured ± 7 %"
        why = "busy machine (other processes used 1.5 cores (free: 1))"
        assert why in section.note
        told = "\n".join(comparison_prices([PLAIN], [PLAIN], [str(path)], 1))
        assert "on mine, measured ± 7 %: " in told
        assert why in told

    def test_says_what_the_price_of_an_own_policy_assumes(self) -> None:
        """Nobody counted its work; under the table, and where two runs are compared."""
        own = cell("mine-k2", 1.0, rows=1, nfe=8)
        says = "the own work of mine-k2 isn't known and counts as that of confidence-k2"
        with POLICIES.restored():
            select = {"select": lambda policy, step: step.best(step.confidence, policy.k)}
            register_policy("mine")(
                make_dataclass("Mine", [("k", int, 1)], namespace=select, frozen=True)
            )
            section = price_section(
                scopes(cells(PLAIN, own))[0], answers(PLAIN, own), {"price": ["h200"]}
            )
            told = "\n".join(comparison_prices([own], [own], ["h200"], 1))
        assert f"Assumed by h200: {says}." in section.note
        assert f"assumed by h200: {says}" in told
        assert "ssumed" not in "\n".join(comparison_prices([PLAIN], [PLAIN], ["h200"], 1))

    def test_is_left_out_without_lists(self) -> None:
        """As before."""
        assert price_section(scopes(cells(PLAIN))[0], answers(PLAIN), {}).markdown() == ""

    def test_cells_get_the_seconds_of_each_list(self) -> None:
        """By which the page's plots are drawn: NaN for a record without counts, and nothing of a
        list that prices no cell.
        """
        entries = [PLAIN, without(FAST), WIDE]
        priced: Any = with_prices(cells(*entries), answers(*entries), FACTS)
        seconds = [row["price_seconds:a100, computed"] for row in priced]
        assert seconds[0] == pytest.approx(Prices("a100").seconds(PLAIN.cell))
        assert list(map(isnan, seconds)) == [False, True, False]
        old = [without(entry) for entry in entries]
        for row in with_prices(cells(*old), answers(*old), FACTS):
            assert not [key for key in row if key.startswith("price")]


class TestHeadline:
    """The verdict with seconds as speed."""

    def test_rows_of_whole_canvases_are_not_faster_in_seconds(self) -> None:
        """Eight rows in 12 calls against one in 16: fewer calls, more seconds on an A100."""
        entries = [(entry.cell, entry.samples) for entry in (PLAIN, FAST, WIDE)]
        by_price = headline("tiny", entries, price=Prices("a100").seconds)
        assert by_price.chosen is not None
        assert by_price.chosen.sampler == "eb-0.1"
        assert by_price.chosen.fewer("calls") is None
        assert by_price.chosen.fewer("seconds") == pytest.approx(
            Prices("a100").seconds(PLAIN.cell) / Prices("a100").seconds(FAST.cell)  # type: ignore[operator]
        )

    def test_a_verdict_for_each_list_names_it(self) -> None:
        """After the one by forwards."""
        entries = [PLAIN, FAST]
        verdicts = RunVerdicts(cells(*entries), answers(*entries), FACTS).in_words()
        assert len(verdicts) == 3
        speed = verdicts[1].lines[0]
        ranked = "(ranked in seconds on h200, computed, 1 answer at a time)"
        assert speed.endswith(f"× less time than confidence-k1 {ranked}")
        assert "forwards" not in speed

    def test_what_is_missing_of_a_sampler(self) -> None:
        """Its price, with the reason, where its forwards are counted; by forwards it is ranked."""
        entries = [PLAIN, FAST, without(WIDE)]
        facts = FACTS | {"price": ["h200"]}
        by_calls, by_price = RunVerdicts(cells(*entries), answers(*entries), facts).in_words()
        told = " ".join([*by_calls.lines, *by_calls.notes, *by_price.notes])
        assert f"(no seconds by h200: {NO_CALLS}" in told
        assert "was not measured" not in told
        assert "not ranked" not in " ".join(by_calls.notes)

    @pytest.mark.parametrize("sampler", ["mine-k4", "analytic-s2"])
    def test_a_policy_that_is_not_known_here(self, sampler: str) -> None:
        """A user's own, and a model's, have a price, with what it assumes."""
        prices = Prices("h200")
        entry = cell(sampler, 1.0, rows=1, nfe=8)
        known = cell("confidence-k2", 1.0, rows=1, nfe=8)
        assert prices.seconds(entry.cell) == prices.seconds(known.cell)
        counts = "isn't known and counts as that of confidence-k2"
        assert f"the own work of {sampler} {counts}" in prices.assumed

    def test_what_is_missing_of_all(self) -> None:
        """Without a single price there is no verdict by it, for that reason."""
        entries = [(entry.cell, entry.samples) for entry in map(without, (PLAIN, FAST))]
        prices = Prices("h200")
        verdict = headline("tiny", entries, price=prices.seconds, unpriced=prices.why)
        assert verdict.why == f"no seconds by h200: {NO_CALLS}"


class TestCommands:
    """`--price` of `pbcore report`."""

    def test_an_old_run_shows_a_dash(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With the reason."""
        run = factory.write(
            create(tmp_path, "run"), [factory.cell(), factory.cell(sampler="eb-0.1")]
        )
        assert main(["report", str(run.path), "--price", "h200", "--width", "200"]) == 0
        told = capsys.readouterr().out
        assert "Seconds of an answer" in told
        assert NO_CALLS in told

    def test_an_unknown_device_is_refused_before_anything_is_read(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """In a line that names near ones."""
        assert main(["report", str(tmp_path), "--price", "h300"]) == 2
        assert "h300" in capsys.readouterr().err

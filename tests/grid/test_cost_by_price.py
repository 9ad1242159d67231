"""What a grid takes on devices that aren't here."""

from __future__ import annotations

import re
from dataclasses import make_dataclass
from typing import Any

import pytest

from pbcore.costs.calls import summed, tokens_forwarded
from pbcore.costs.devices import devices
from pbcore.decoding import decode, register_policy
from pbcore.decoding.batch_size import SHARE, rows_within
from pbcore.decoding.policies.registry import POLICIES
from pbcore.grid.cost_by_price import bill_by_price, cell_work, priced_machines, run_text
from pbcore.grid.plan import Plan, make_plan
from pbcore.grid.settings import Settings
from pbcore.models import load_model, resolve_model
from pbcore.models.sizes import held_shape, sized_model

TASKS = ("copy", "shuffle")


def plan_of(model: str, *samplers: str, **settings: Any) -> Plan:
    return make_plan(
        Settings.of(
            model=(model,), task=TASKS, sampler=samplers, limit=4, estimate=True, **settings
        )
    )


def bill(plan: Plan, here: bool = False) -> list[str]:
    """The bill of a plan's one model."""
    [model] = plan.models
    sized = sized_model(resolve_model(model), plan.settings.dtype)
    text = "\n".join(bill_by_price(plan, sized, list(plan.items.values()), here))
    return text.splitlines()


def time_on(device: str, model: str, **settings: Any) -> float:
    """Seconds that a bill says of a device."""
    plan = plan_of(model, "confidence-k2", price=(device,), **settings)
    [row] = [line for line in bill(plan) if line.startswith(f"  {device}")]
    number, unit, *_ = re.split(r"  +", row.strip())[-1].split()
    return float(number) * {"s": 1, "min": 60, "h": 3600}[unit]


class TestBill:
    """bill_by_price."""

    def test_two_devices_where_none_is_named(self) -> None:
        """Download, memory and time, within 80 columns."""
        lines = bill(plan_of("llada-8b", "confidence-k4", "threshold-0.9"))
        assert lines[0] == "  8.02 billion parameters, 16.0 GB to download"
        assert lines[1] == "  4 cells, 16 answers"
        assert "forwards of fixed schedules: 64, exact" in lines[2]
        assert "bounds 8 to 256" in lines[3]
        assert [line.split()[0] for line in lines if " GB " in line][1:] == ["rtx4090", "h100"]
        assert max(map(len, lines)) <= 80

    def test_a_model_too_large(self) -> None:
        """Its row says so, and has no time."""
        lines = bill(plan_of("llada2.0-flash", "confidence-k4", price=("b200", "h100:graphs")))
        rows = [line for line in lines if line.startswith(("  b200", "  h100:graphs"))]
        assert len(rows) == 2
        for row in rows:
            assert "205.8 GB" in row
            assert row.endswith("doesn't fit")

    def test_as_many_as_fit_and_no_more(self) -> None:
        """By the run's own rule for a GPU's memory, the time is that of so many together."""
        plan = plan_of("sdar-8b", "confidence-k2", price=("rtx4090",))
        sized = sized_model(resolve_model("sdar-8b"))
        shape = sized.shape
        assert shape is not None
        work = cell_work(plan, sized.model, list(plan.items.values()), shape)
        free = devices()["rtx4090"].memory * 1e9 - sized.weights
        most = min(rows_within(SHARE * free, shape, cell.reads) for cell in work)
        assert most > 4  # more than a cell's answers, which are decoded together
        whole, four, one = (
            time_on("rtx4090", "sdar-8b", **size)
            for size in ({}, {"batch_size": (4,)}, {"batch_size": (1,)})
        )
        assert whole == four < one

    def test_no_column_of_the_batch(self) -> None:
        """The working memory decides what fits; the reader learns what it costs."""
        lines = bill(plan_of("llada-8b", "confidence-k4"))
        [heads] = [line for line in lines if line.startswith("  device  ")]
        assert re.split(r"  +", heads.strip()) == [
            "device",
            "memory",
            "weights",
            "decoding (bounds)",
        ]

    def test_weights_that_are_here(self) -> None:
        assert "on this machine" in bill(plan_of("tiny", "confidence-k4"), here=True)[0]

    def test_autoregressive_models(self) -> None:
        """Memory without forwards, which are their own affair."""
        lines = bill(plan_of("llama-3.1-8b", "ar"))
        assert "they are not known beforehand" in "\n".join(lines)
        assert [line.split()[-1] for line in lines if "GB  " in line] == ["–", "–"]

    def test_an_own_policy_says_what_its_price_assumes(self) -> None:
        """By each list."""
        with POLICIES.restored():
            select = {"select": lambda policy, step: step.best(step.confidence, policy.k)}
            register_policy("mine")(
                make_dataclass("Mine", [("k", int, 1)], namespace=select, frozen=True)
            )
            lines = bill(plan_of("llada-8b", "mine-k2", "confidence-k2", price=("h100",)))
        says = "the own work of mine-k2 isn't known and counts as that of confidence-k2"
        assert [line for line in lines if "own work" in line] == [f"  h100: {says}"]

    def test_a_list_without_a_price_says_why(self) -> None:
        """Its device's memory is known all the same."""
        lines = bill(plan_of("llada-8b", "confidence-k4", price=("here",)))
        assert any("no prices of llada-8b were measured" in line for line in lines)


class TestCellWork:
    """cell_work."""

    @pytest.mark.parametrize(
        ("model", "sampler"),
        [
            ("tiny", "confidence-k4"),
            ("tiny", "confidence-k4+b8"),
            ("tiny", "confidence-k4+b8+prefix"),
            ("tiny", "confidence-k4+b8+dual"),
            ("tiny-block", "confidence-k2"),
        ],
    )
    def test_fixed_schedules_cost_what_they_take(self, model: str, sampler: str) -> None:
        """Forwards exactly, and positions up to the ends of prompts and blocks; a block model may
        end an answer before its last block.
        """
        plan = plan_of(model, sampler)
        loaded: Any = load_model(model)
        shape = held_shape(loaded)
        assert shape is not None
        copy, *_ = plan.items.values()
        [cell] = cell_work(plan, loaded, [copy], shape)
        answers = decode(loaded, plan.task(copy.task).samples, sampler)
        forwards = sum(answer.nfe or 0 for answer in answers)
        assert cell.exact == (model == "tiny")
        assert cell.forwards[1] <= forwards <= cell.forwards[2]
        expected = tokens_forwarded(cell.calls(forwards))
        taken = tokens_forwarded(summed(answer.calls for answer in answers))
        assert expected == pytest.approx(taken, rel=0.25)

    def test_samplers_that_ask_forward_their_rows(self) -> None:
        plan = plan_of("tiny", "spec-4")
        loaded: Any = load_model("tiny")
        shape = held_shape(loaded)
        assert shape is not None
        for cell in cell_work(plan, loaded, list(plan.items.values()), shape):
            [shape] = cell.calls(cell.forwards[0])
            assert shape.rows == 5
            assert cell.forwards[1] <= cell.forwards[0] <= cell.forwards[2]


def test_more_seeds_take_longer() -> None:
    """Each answers once more."""
    sized = sized_model(resolve_model("tiny"))
    shape = sized.shape
    assert shape is not None
    totals = []
    for seeds in ((0,), (0, 1)):
        plan = plan_of("tiny", "threshold-0.9", seed=seeds)
        work = cell_work(plan, sized.model, list(plan.items.values()), shape)
        totals.append(sum(cell.forwards for cell in work))
    assert (totals[1] == 2 * totals[0]).all()


def test_samplers_of_another_decoder() -> None:
    """Their own work isn't counted, and a line says for what it is taken."""
    lines = bill(plan_of("sedd-medium", "analytic-s8"))
    assert "h100: the own work of analytic-s8 isn't known" in "\n".join(lines)
    assert lines[-1].endswith("scoring comes on top")


def test_priced_machines() -> None:
    """A backend belongs to a device; a file has no memory."""
    [graphs, missing] = priced_machines(("h100:graphs", "no.json"), "llada-8b", None)
    assert graphs.memory == 80e9
    assert missing.memory is None
    assert isinstance(missing.prices, str)


def test_the_head_of_a_run() -> None:
    """Download, memory and forwards in one line."""
    plan = plan_of("llada-8b", "confidence-k4", gpu=True)
    sized = sized_model(resolve_model("llada-8b"))
    text = run_text(plan, sized, list(plan.items.values()), here=False)
    assert text.startswith("8.02 billion parameters, 16.0 GB to download; 16.0 GB of weights in")
    assert text.endswith("2 cells, about 64 forwards")


def test_what_a_cache_saves() -> None:
    """`dual` computes a block again, `prefix` all that follows it, too."""
    loaded: Any = load_model("tiny")
    shape = held_shape(loaded)
    assert shape is not None
    taken = []
    for cache in ("", "+prefix", "+dual"):
        plan = plan_of("tiny", f"confidence-k4+b8{cache}")
        [cell] = cell_work(plan, loaded, [next(iter(plan.items.values()))], shape)
        taken.append(tokens_forwarded(cell.calls(cell.forwards[0])))
    without, prefix, dual = taken
    assert dual < prefix < without

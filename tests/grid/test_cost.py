"""Forwards known before a run, and the time that its cells will take, over recorded cells with a
clock of our own.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import make_dataclass
from operator import attrgetter
from pathlib import Path

import pytest

from pbcore.decoding import decode, denoise, register_policy
from pbcore.decoding.policies.registry import POLICIES
from pbcore.decoding.samplers import resolve, sampler_of
from pbcore.grid.cellid import CellName
from pbcore.grid.cost import ForwardBounds, TimeLeft, bounds_of, forward_bounds, weights
from pbcore.grid.plan import make_plan, masked_tokens
from pbcore.grid.settings import Settings
from pbcore.models import load_model
from pbcore.models.base import Request
from pbcore.tasks import load_task
from tests.decoding.toys import Toy

FIXED = [
    "random-k1",
    "confidence-k4",
    "confidence-k3",
    "margin-k4+b8",
    "entropy-k16+b8",
    "left_to_right-k2+b16",
    "confidence+linear5",
    "confidence+s4_2_2",
    "confidence-k2+rcr",
    "confidence-k2+remdm3",
    "confidence-k4+b16+remdm2",
]
ADAPTIVE = [
    "threshold-0.9",
    "threshold-0.5+b4",
    "factor-1.0",
    "eb-0.1+b8",
    "origin-8",
    "confidence-k4+eos_stop",
]


class TestForwards:
    def test_of_an_own_policy_are_fixed_by_its_declaration(self) -> None:
        """A field named k alone fixes nothing."""
        members = {"select": lambda policy, step: step.best(step.confidence, policy.k)}
        with POLICIES.restored():
            for name, declared in (("plain", {}), ("promising", {"reveals": "k"})):
                namespace = {**members, **declared}
                cls = make_dataclass("Own", [("k", int, 1)], namespace=namespace, frozen=True)
                register_policy(name)(cls)
            plain = forward_bounds(sampler_of("plain-k2"), 8)
            assert (plain.low, plain.high) == (1, 8)
            promising = forward_bounds(sampler_of("promising-k2"), 8)
            assert (promising.low, promising.high) == (4, 4)

    @pytest.mark.parametrize("sampler", FIXED)
    def test_of_a_fixed_schedule_are_exact(self, sampler: str) -> None:
        """Decoding takes exactly so many."""
        samples = load_task("waiting_line/shuffle", limit=2).samples
        found = forward_bounds(sampler_of(sampler), masked_tokens(samples[0]))
        assert found.exact
        assert [answer.nfe for answer in decode(load_model("ideal"), samples, sampler)] == [
            found.low
        ] * 2

    @pytest.mark.parametrize("sampler", ADAPTIVE)
    def test_of_others_have_bounds(self, sampler: str) -> None:
        """Decoding stays within them, and they are no mere 0 to infinity."""
        samples = load_task("waiting_line/shuffle", limit=4).samples
        tokens = masked_tokens(samples[0])
        found = forward_bounds(sampler_of(sampler), tokens)
        assert not found.exact
        assert 1 <= found.low < found.guess < found.high <= tokens
        nfe = [answer.nfe for answer in decode(load_model("ideal"), samples, sampler)]
        assert found.low <= min(nfe) <= max(nfe) <= found.high


COUNTS = ("-k1", "-k3", "-k9", "+linear5", "+cosine8", "+s20_12", "+s0_3_0_9", "+s1_0_0_2")
MODIFIERS = (
    "",
    "+b4",
    "+b4+prefix",
    "+gap2",
    "+no_early_eos",
    "+eos_last",
    "+eos_stop",
    "+eos_stop+eos_last",
    "+counts",
    "+adas40",
    "+t1.0",
    "+remdm1",
    "+remdm3+b4",
    "+remdm2-early",
    "+remdm2-early+eos_last",
    "+remdm2+no_early_eos",
    "+rcr",
    "+rcr+b4",
    "+rcr-max+eos_last",
)
CHANGED = {"gap2", "no_early_eos", "eos_last", "eos_stop", "remdm2-early"}  # what isn't exact


class TestAgainstTheLoop:
    """Forwards known beforehand are those that the loop takes."""

    @pytest.mark.parametrize("modifiers", MODIFIERS)
    def test_bounds_hold(self, modifiers: str) -> None:
        """For canvases of any size, whole or given in part; exact ones wherever nothing changes how
        many tokens a step reveals.
        """
        sizes = (4, 8, 12) if "b4" in modifiers else (1, 2, 3, 5, 8, 12)
        requests = [Request((5,), (0,) * size, size) for size in sizes]
        if "prefix" not in modifiers:  # the same, with tokens given between the masks
            requests += [Request((5,), (7, 0) * size, size) for size in sizes]
        exact = not CHANGED & set(modifiers.split("+"))
        for counts in COUNTS:
            sampler = resolve(f"confidence{counts}{modifiers}")
            batches = [requests]
            if "prefix" in modifiers:
                batches = [[request] for request in requests]
            answers = [
                answer
                for batch in batches
                for answer in denoise(Toy(), batch, sampler.policy, sampler.name)
            ]
            for request, answer in zip(requests, answers, strict=True):
                found = forward_bounds(sampler, request.canvas.count(0))
                assert found.low <= answer.nfe <= found.high, (str(sampler), request.canvas)
                assert found.exact or not exact, str(sampler)

    @pytest.mark.parametrize(
        "sampler",
        ["confidence-k2", "random+cosine8", "confidence-k3+gap2", "threshold-0.5", "spec-8"],
    )
    def test_of_a_block_model(self, sampler: str) -> None:
        """It stores blocks, stops at EOS and shares its first block with the prompt."""
        model = load_model("tiny-block")
        for task in ("waiting_line/copy", "list_ops/copy"):
            samples = load_task(task, limit=2).samples
            for sample, answer in zip(samples, decode(model, samples, sampler), strict=True):
                found = bounds_of(sampler_of(sampler), sample, model.block)
                assert not found.exact
                assert found.low <= answer.nfe <= found.high

    @pytest.mark.parametrize("sampler", ["confidence+cosine8", "confidence+s20_12"])
    def test_of_places_given_before(self, sampler: str) -> None:
        """A schedule for long answers ends early, or reveals nothing at times, on short ones."""
        samples = load_task("list_ops/shuffle", limit=4).samples
        found = [bounds_of(sampler_of(sampler), sample, None) for sample in samples]
        assert all(bounds.exact for bounds in found)
        nfe = [answer.nfe for answer in decode(load_model("ideal"), samples, sampler)]
        assert nfe == [bounds.low for bounds in found]

    def test_nothing_to_decode(self) -> None:
        """A canvas without masks takes no forward."""
        assert forward_bounds(sampler_of("confidence-k2"), 0) == ForwardBounds(0, 0)


class TestWhatIfRows:
    @pytest.mark.parametrize(
        "sampler", ["spec-8", "spec-8+b8", "punt-0.05", "recheck-4", "freedave-4"]
    )
    def test_forwards_stay_within_the_bounds(self, sampler: str) -> None:
        """A step may take several forwards, so that one a token is no bound; their number is never
        exact.
        """
        samples = load_task("waiting_line/shuffle", limit=4).samples
        found = forward_bounds(sampler_of(sampler), masked_tokens(samples[0]))
        nfe = [answer.nfe for answer in decode(load_model("ideal"), samples, sampler)]
        assert resolve(sampler).asks
        assert not found.exact
        assert found.low <= min(nfe) <= max(nfe) <= found.high

    def test_one_forward_a_token_is_no_bound(self) -> None:
        """Where nothing goes together a step's second forward adds to that of the next."""
        found = forward_bounds(sampler_of("punt-0"), 32)
        answers = decode(
            load_model("ideal"), load_task("waiting_line/insert_random", limit=2).samples, "punt-0"
        )
        assert max(answer.nfe for answer in answers) > 32
        assert found.high > 32

    def test_of_samplers_that_do_not_ask(self) -> None:
        """Nothing changes for them, nor for those of models that decode by themselves."""
        assert not any(sampler_of(sampler).asks for sampler in (*FIXED, *ADAPTIVE, "ar"))


def recorded(name: str) -> tuple[Settings, list[tuple[CellName, float]]]:
    """The cells of a recorded run in the order in which they ran, and their seconds: the recorded
    forwards × the CPU seconds of one, measured for each task (`ideal`: for each category).
    """
    with (Path(__file__).parent / "data" / f"{name}.csv").open(encoding="utf-8") as file:
        rows = [
            (CellName(row["model"], row["task"], resolve(row["sampler"])), float(row["seconds"]))
            for row in csv.DictReader(file)
        ]
    if name == "paper":
        return Settings(profile="paper", model=("tiny",), limit=1), rows
    plan = make_plan(Settings())
    asked = {"ideal": 40, "tiny": 16}  # questions a task when it was recorded
    scaled = []
    for cell, seconds in rows:
        questions = plan.limit(cell.model, cell.task)
        assert questions is not None
        scaled.append((cell, seconds * questions / asked[cell.model]))
    return Settings(), scaled


def errors(name: str, overhead: float = 0.02) -> Iterator[tuple[float, float]]:
    """Share of the run that is over → the remaining time as foretold over what it then was, less
    one.
    """
    settings, rows = recorded(name)
    clock = TimeLeft(weights(make_plan(settings)))
    total = sum(seconds + overhead for _, seconds in rows)
    passed = 0.0
    for number, (cell, seconds) in enumerate(rows[:-1], 1):
        clock.running(1)
        clock.done(cell, seconds + overhead, seconds, seconds)
        passed += seconds + overhead
        left = clock.left([cell for cell, _ in rows[number:]], {})
        assert left is not None
        yield passed / total, left / (total - passed) - 1


class TestClock:
    @pytest.mark.parametrize("name", ["quick", "paper"])
    def test_is_right_within_a_fifth_after_a_tenth(self, name: str) -> None:
        """In recorded runs of the default profile and of the paper's grid on three tasks, until 95
        % are over.
        """
        late = [error for share, error in errors(name) if 0.1 <= share <= 0.95]
        assert len(late) > 50
        assert max(map(abs, late)) < 0.2

    def test_the_same_sampler_on_another_task_tells_most(self) -> None:
        """Sharing makes later cells of a task cheap, whatever their forwards; so they are on the
        next task.
        """
        clock = TimeLeft(lambda cell: 2.0 if cell.task == "b" else 1.0)
        clock.done(CellName("m", "a", resolve("random-k1")), 11.0, 10.0, 10.0)
        clock.done(CellName("m", "a", resolve("random-k2")), 1.5, 0.5, 0.5)
        assert clock.expected(CellName("m", "b", resolve("random-k1"))) == 20.0
        assert clock.expected(CellName("m", "b", resolve("random-k2"))) == 1.0
        assert clock.expected(CellName("m", "b", resolve("random-k4"))) == 10.5

    def test_nothing_is_foretold_before_the_first_cell(self) -> None:
        """Nor for cells that run then."""
        clock = TimeLeft(lambda cell: 1.0)
        cell = CellName("m", "a", resolve("random-k1"))
        assert clock.left([cell], {}) is None
        assert clock.left([], {cell: 3.0}) is None

    def test_cells_that_run_at_once(self) -> None:
        """Two workers need half of the time, and what a running cell has taken is not left. What
        the first cell took outside its test, imports, doesn't come again.
        """
        clock = TimeLeft(lambda cell: 1.0)
        cells = [CellName("m", "a", resolve(f"random-k{k}")) for k in range(1, 6)]
        clock.running(2)
        clock.done(cells[0], 11.0, 10.0, 10.0)
        assert clock.left(cells[3:], {cells[1]: 4.0, cells[2]: 12.0}) == (2 * 10.0 + 6.0) / 2
        clock.done(
            cells[1], 13.0, 10.0, 10.0
        )  # the first cell's second outside its test was imports
        assert clock.left(cells[3:], {cells[2]: 12.0}) == 2 * 13.0 / 2

    def test_what_warms_up_counts_once(self) -> None:
        """The first text cell starts a grammar server: half a minute beside its decoding. Loading,
        imports and that start are not foretold again; from a tenth of the cells on the time left
        is right within a factor of two.
        """
        clock = TimeLeft(lambda cell: 1.0)
        cells = []
        for kind, beside in (("waiting_line", 0.1), ("text_writing", 0.4), ("puzzle", 1.5)):
            for number in range(20):
                first = number == 0
                warm = 30.0 if first and kind == "text_writing" else 0.0
                cell = CellName("m", f"{kind}/t", resolve(f"random-k{number + 1}"))
                cells.append((cell, 2.0, beside + warm, 8.0 if not cells else 0.02))
        total = sum(decoding + beside + around for _, decoding, beside, around in cells)
        passed = 0.0
        for done, (cell, decoding, beside, around) in enumerate(cells[:-1], 1):
            clock.running(1)
            call = decoding + beside
            clock.done(cell, call + around, call, decoding)
            passed += call + around
            left = clock.left([name for name, *_ in cells[done:]], {})
            assert left is not None
            if done >= len(cells) / 10:
                assert 1 / 2 < left / (total - passed) < 2, cell


class TestWeights:
    def test_the_most_that_a_cell_can_take(self) -> None:
        """A threshold can need a forward for each token, as k = 1 does; less is expected of it."""
        plan = make_plan(Settings(model=("ideal",), limit=2))
        fixed, adaptive = (
            CellName("ideal", "waiting_line/copy", resolve(name))
            for name in ("random-k1", "threshold-0.9")
        )
        most = weights(plan, attrgetter("high"))
        expected = weights(plan)
        assert most(adaptive) == most(fixed) == expected(fixed) > expected(adaptive)

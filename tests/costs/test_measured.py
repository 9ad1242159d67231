"""Measured prices: the fit, the file, and what `pbcore price` keeps."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.errors import InputError
from pbcore.cli import main
from pbcore.cli import price as command
from pbcore.costs.calls import CallShape
from pbcore.costs.fit import fit_calls, fit_own
from pbcore.costs.lists import here_file, of_measurement
from pbcore.costs.load import CpuClock, CpuSeconds, unsteady, used_by_others
from pbcore.costs.measured import Fit, MeasuredOwnWork, Measurement, OwnTiming, Timing
from pbcore.costs.price_list import OwnPrice
from pbcore.decoding import resolve
from pbcore.grid import timed_prices as measure
from pbcore.grid.timed_prices import measure_prices, timed_samplers
from pbcore.models.registry import load_model
from pbcore.models.shape import shape_of
from pbcore.names import parse
from pbcore.results.seconds import check_price, price_list
from tests.models.block_models import block_model
from tests.models.checkpoints import llama_checkpoint

TRUE = Fit(call=4e-3, token=2e-5, floor=32, cached=1e-5, refresh=5e-6, pair=3e-8, logit=7e-6)
SIZES = [(1, 8), (1, 40), (2, 90), (4, 190), (16, 60), (8, 190)]


def timings(fit: Fit = TRUE) -> Iterator[Timing]:
    """Calls as they would be timed if the form were exact."""
    for batch, tokens in SIZES:
        for context, logits, refresh in ((0, tokens, False), (0, 4, True), (100, 8, False)):
            call = CallShape(1, tokens, context, logits)
            yield Timing(call, batch, refresh, [fit.seconds(call, batch, refresh)])


def measurement(**more: Any) -> Measurement:
    """A complete one of `tiny`."""
    return Measurement(
        "tiny",
        "float32",
        shape_of("tiny"),
        {"device": "a CPU"},
        timings=list(timings()),
        fit=TRUE,
        own={"confidence-k2": OwnPrice(1e-3, 1e-6, 2e-4), "spec-8": OwnPrice(3e-3)},
        **more,
    )


@pytest.fixture
def few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid of two forwards and decodings, for tests of rounds."""
    monkeypatch.setattr(measure, "SIZES", ((1, 8, 8), (2, 16, 8)))
    monkeypatch.setattr(measure, "DECODINGS", ((1, 4), (1, 8)))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a masked model with a single narrow layer."""
    return str(llama_checkpoint(tmp_path_factory.mktemp("small"), layers=1))


@pytest.fixture(scope="module")
def loaded(small: str) -> Any:
    return load_model(small)


def busy_machine(others: list[float]) -> CpuClock:
    """CPU seconds as if others used so many cores in one round after the other, the last one's in
    all that follow.
    """
    now = [0.0, 0.0]
    calls = count()

    def usage() -> CpuSeconds:
        number, ends = divmod(next(calls), 2)
        if ends:
            now[0] += 10
            now[1] += 10 * (others[min(number, len(others) - 1)] + 1)
        return CpuSeconds(now[0], now[1], now[0])

    return usage


class Ticks:
    """A clock whose ticks are as long as the round's speed says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tick = 1.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def told(self, line: str, lines: list[str], speeds: Iterator[float]) -> None:
        lines.append(line)
        if line.startswith("round"):
            self.tick = next(speeds, 1.0)


def measured(
    model: Any,
    rounds: int,
    usage: CpuClock,
    *,
    told: list[str],
    free: float,
    repeats: int | None = None,
) -> Measurement:
    """A model's, by a clock that counts, on a machine of this usage."""
    state = Measurement("small", "float32", None, {})
    ticks = count()
    measure_prices(
        model,
        state,
        lambda now: None,
        samplers=["confidence-k4"],
        rounds=rounds,
        clock=lambda: float(next(ticks)),
        tell=told.append,
        usage=usage,
        free=free,
        repeats=repeats,
    )
    return state


class TestFit:
    """Numbers of the form from timed calls."""

    def test_finds_the_numbers_that_made_the_timings(self) -> None:
        """Without noise every number comes back, and the error is none."""
        fit = fit_calls(list(timings()))
        for name in ("call", "token", "floor", "cached", "refresh", "pair", "logit"):
            assert getattr(fit, name) == pytest.approx(getattr(TRUE, name), rel=1e-3, abs=1e-9)
        assert fit.error < 1e-6

    def test_gives_no_negative_number_for_calls_that_get_cheaper(self) -> None:
        """Calls that cost less the more they compute have an overhead and nothing else."""
        odd = [Timing(CallShape(1, tokens), 1, False, [1 / tokens]) for tokens in (10, 20, 40)]
        fit = fit_calls(odd)
        assert min(fit.call, fit.token, fit.cached, fit.pair, fit.logit) >= 0

    def test_own_work_is_told_apart_by_calls_logits_and_answers(self) -> None:
        """Three decodings give the three prices."""
        runs = [(8, 60, 1), (30, 400, 1), (16, 900, 4)]
        made = [OwnTiming(c, m, a, [2e-3 * c + 1e-6 * m + 5e-4 * a]) for c, m, a in runs]
        price = fit_own(made)
        assert (price.call, price.logit, price.answer) == pytest.approx((2e-3, 1e-6, 5e-4))

    def test_own_work_of_another_policy_says_whose_it_is(self) -> None:
        """The median's where no sampler of the policy was timed; none of one that was."""
        prices = [OwnPrice(1e-3), OwnPrice(3e-3), OwnPrice(2e-3)]
        own = MeasuredOwnWork(
            dict(zip(("confidence-k2", "spec-8", "margin-k2+b8"), prices, strict=True))
        )
        other, near = parse("eb-0.1"), parse("margin-k4")
        assert (own.of(other), own.stand_in(other)) == (OwnPrice(2e-3), "margin-k2+b8")
        assert (own.of(near), own.stand_in(near)) == (OwnPrice(2e-3), "")

    def test_the_median_of_rounds_counts(self) -> None:
        """One round on a busy machine changes nothing."""
        assert Timing(CallShape(1, 8), 1, False, [1.0, 9.0, 1.1]).seconds == 1.1


class TestScatter:
    """How far repeated calls lie apart."""

    def test_is_the_share_of_the_median(self) -> None:
        """In the mean over rounds, and the median over calls."""
        calls = [[1.0, 1.2, 0.8], [2.0, 2.0, 2.0], [5.0, 5.5, 6.0]]
        shape = CallShape(1, 8)
        state = Measurement("tiny", "float32", None, {})
        state.timings = [Timing(shape, batch, False, each) for batch, each in enumerate(calls, 1)]
        assert state.scatter == pytest.approx((0.5 + 0.5) / 5.5 / 3)
        assert unsteady(state) == ""
        state.timings[1].all_seconds[:] = [2.0, 3.0, 1.0]
        assert state.scatter == pytest.approx(0.4 / 3)
        assert unsteady(state) == "repeated calls lie 13 % from their median"

    def test_of_a_single_round_nobody_knows(self) -> None:
        """Such a list has none."""
        assert measurement().scatter is None
        assert of_measurement("here", measurement()).basis_text == "measured"

    def test_stands_beside_predictions(self) -> None:
        """As a share of the seconds."""
        state = measurement()
        for timing in state.timings:
            timing.all_seconds = [timing.seconds * factor for factor in (0.97, 1.0, 1.03)]
        prices = of_measurement("here", state)
        assert prices.basis_text == "measured ± 2 %"
        assert prices.about.endswith("float32: measured ± 2 %")

    def test_others_use_what_this_process_does_not(self) -> None:
        """Cores in the mean, never fewer than none."""
        before = CpuSeconds(10, 100, 5)
        assert used_by_others(before, CpuSeconds(14, 108, 7)) == 1.5
        assert used_by_others(before, CpuSeconds(14, 101, 8)) == 0
        assert used_by_others(before, before) == 0


class TestFile:
    """The JSON file."""

    def test_is_read_as_it_was_written(self) -> None:
        """All of it."""
        timed = {"spec-8": [OwnTiming(3, 9, 1, [0.5, 0.6])]}
        whole = measurement(own_timings=timed, busy=[0.2, 1.5], free=1)
        assert Measurement.of(whole.text(), resolve) == whole

    @pytest.mark.parametrize(
        ("change", "what"),
        [
            ({"pbcore_prices": 99}, "format 99"),
            ({"fit": {"call": -1}}, "call is -1"),
            ({"timings": [{"rows": 1}]}, "tokens"),
            ({"own": {"no_such_sampler": {"call": 1}}}, "unknown policy"),
        ],
    )
    def test_a_damaged_one_is_refused_in_a_line(
        self, change: dict[str, Any], what: str, tmp_path: Path
    ) -> None:
        """It says what is wrong and how to measure again."""
        path = tmp_path / "prices.json"
        path.write_text(json.dumps({**json.loads(measurement().text()), **change}))
        for refused in (lambda: price_list(str(path), "tiny"), lambda: check_price(str(path))):
            with pytest.raises(InputError, match=what) as error:
                refused()
            assert "pbcore price" in str(error.value)
            assert "\n" not in str(error.value)

    def test_of_another_model_or_dtype_is_refused_and_of_one_shape_taken(
        self, tmp_path: Path
    ) -> None:
        """`tiny`'s prices are no LLaDA's, nor those of bfloat16; a folder with `tiny`'s config may
        use them.
        """
        path = tmp_path / "prices.json"
        path.write_text(measurement().text())
        with pytest.raises(InputError, match="of tiny, not of llada-8b"):
            price_list(str(path), "llada-8b")
        with pytest.raises(InputError, match="in float32, not in bfloat16"):
            price_list(str(path), "tiny", "bfloat16")
        with pytest.raises(InputError, match="of tiny, not of ideal"):
            price_list(str(path), "ideal")
        assert price_list(str(path), "pbcore/models/tiny", "float32").basis == "measured"


class TestOwnPrices:
    """What a sampler that wasn't timed is taken for."""

    def test_another_number_of_the_same_sampler_has_its_price(self) -> None:
        """`spec-4` as `spec-8`."""
        prices = of_measurement("here", measurement())
        assert prices.own_seconds(parse("spec-4"), 10) == prices.own_seconds(parse("spec-8"), 10)
        assert prices.own_seconds(parse("spec-8"), 10) == pytest.approx(0.03)

    def test_logits_of_all_answers_of_a_batch_count(self) -> None:
        """Calls once, logits for each answer."""
        prices = of_measurement("here", measurement())
        assert prices.own_seconds(parse("confidence-k2"), 2, batch=3, logits=50) == pytest.approx(
            2 * 1e-3 + 150 * 1e-6
        )

    def test_filling_a_cache_and_padding_cost(self) -> None:
        """A sampler with a cache pays for its refreshes, a batch for its padding."""
        prices = of_measurement("here", measurement())
        call = CallShape(1, 100, 0, 8)
        plain = prices.answer_seconds({call: 1}, 1, parse("confidence-k2"))
        cached = prices.answer_seconds({call: 1}, 1, parse("confidence-k2+b8+prefix"))
        assert cached - plain == pytest.approx(100 * TRUE.refresh)
        padded = prices.answer_seconds({call: 1}, 1, parse("confidence-k2"), padded=50)
        expected = 50 * TRUE.token + (150 * 150 - 100 * 100) * TRUE.pair
        assert padded - plain == pytest.approx(expected)


class TestMeasure:
    """The timing itself, on a small model with a clock that counts."""

    def test_goes_on_where_it_was_killed(self, loaded: Any, few_sizes: None) -> None:
        """A run that dies while it keeps its second state goes on to the same number of timings,
        without timing anything twice.
        """
        state = Measurement("small", "float32", None, {})
        ticks = count()
        kept: list[str] = []

        def keep(now: Measurement) -> None:
            kept.append(now.text())
            if len(kept) == 2:
                raise KeyboardInterrupt

        options: Any = {"samplers": ["confidence-k4"], "rounds": 2, "clock": lambda: next(ticks)}
        with pytest.raises(KeyboardInterrupt):
            measure_prices(loaded, state, keep, **options)
        again = Measurement.of(kept[-1], resolve)
        measure_prices(loaded, again, lambda now: None, **options)
        assert {len(one.all_seconds) for one in again.timings} == {2}
        assert {len(one.all_seconds) for one in again.own_timings["confidence-k4"]} == {2}
        assert again.fit is not None
        assert of_measurement("here", again).call_seconds(CallShape(1, 100, 0, 8)) > 0

    @pytest.mark.parametrize(
        ("others", "rounds", "kept", "why"),
        [
            ([0.0], 3, 3, ""),
            ([1.5, 0.0], 3, 4, ""),
            ([1.5, 1.5, 0.1], 2, 4, ""),
            ([1.4], 2, 4, "other processes used 1.4 cores (free: 1)"),
            ([1.6], 1, 2, "other processes used 1.6 cores (free: 1)"),
        ],
    )
    def test_rounds_beside_others_are_timed_again(
        self,
        others: list[float],
        rounds: int,
        kept: int,
        why: str,
        loaded: Any,
        few_sizes: None,
    ) -> None:
        """Until none is left, or as many were as there are rounds; `others` are the cores in use
        in each round, the last one's in all that follow.
        """
        told: list[str] = []
        state = measured(loaded, rounds, busy_machine(others), told=told, free=1)
        assert [line.startswith("round") for line in told].count(True) == kept
        assert unsteady(state) == why
        assert len(state.busy) == rounds
        timed = [*state.timings, *state.own_timings["confidence-k4"]]
        assert {len(one.all_seconds) for one in timed} == {rounds}
        assert of_measurement("here", state).unsteady == why

    def test_asked_to_keep_it_nothing_is_timed_again(self, loaded: Any, few_sizes: None) -> None:
        """What is left is why it can't be believed."""
        told: list[str] = []
        state = measured(loaded, 2, busy_machine([1.6]), told=told, free=1, repeats=0)
        assert told == ["round 1 of 2", "round 2 of 2"]
        assert "1.6 cores" in unsteady(state)

    def test_the_slowest_round_of_calls_that_scatter_is_timed_again(
        self, loaded: Any, few_sizes: None
    ) -> None:
        """A round three times slower than the others goes; what remains is steady."""
        told: list[str] = []
        speeds = iter([1.0, 3.0])
        ticks = Ticks()
        tell = lambda line: ticks.told(line, told, speeds)
        state = Measurement("small", "float32", None, {})
        measure_prices(
            loaded,
            state,
            lambda now: None,
            samplers=["confidence-k4"],
            rounds=2,
            clock=ticks,
            tell=tell,
            usage=busy_machine([0.0]),
        )
        assert told == [
            "round 1 of 2",
            "round 2 of 2",
            "repeated calls lie 50 % from their median: round 2 again",
            "round 2 of 2",
        ]
        assert state.scatter == 0

    def test_a_block_model_is_timed_by_its_blocks(self) -> None:
        """Its calls store a prompt or run a block behind it."""
        state = Measurement("sdar", "float32", None, {})
        ticks = count()
        measure_prices(
            block_model("sdar"),
            state,
            lambda now: None,
            samplers=["sdar_dynamic-0.9"],
            rounds=1,
            clock=lambda: float(next(ticks)),
        )
        shapes = {(one.call.tokens, one.call.prefill) for one in state.timings}
        assert (4, False) in shapes
        assert all(prefill or tokens == 4 for tokens, prefill in shapes)

    def test_only_samplers_that_the_model_runs_are_timed(self) -> None:
        """Those of block models are left out; naming one is refused."""
        model: Any = load_model("tiny")
        names = timed_samplers(model, None)
        assert "confidence-k2" in names
        assert not any(name.startswith("s2d2") for name in names)
        with pytest.raises(InputError, match="s2d2"):
            timed_samplers(model, ["s2d2-0.85"])


class TestCommand:
    """`pbcore price`."""

    def test_lists_devices_and_computes_without_measuring(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Each number says that it is computed."""
        assert main(["price"]) == 0
        assert "h200" in capsys.readouterr().out
        assert main(["price", "llada-8b", "--on", "h200:graphs"]) == 0
        assert "computed" in capsys.readouterr().out

    def test_measures_writes_and_is_used_by_here(
        self,
        small: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A second run measures nothing again, and the file serves elsewhere, too."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(command, "cpu_seconds", busy_machine([0.0]))
        out = tmp_path / "mine.json"
        options = ["--rounds", "1", "--samplers", "confidence-k4", "--out", str(out)]
        assert main(["price", small, *options]) == 0
        assert "round 1 of 1" in capsys.readouterr().out
        here = price_list("here", small, "float32")
        mine = price_list(str(out), small, "float32")
        call = CallShape(1, 100, 0, 8)
        assert here.basis == "measured"
        assert here.call_seconds(call) == mine.call_seconds(call) > 0
        assert main(["price", small, *options]) == 0
        assert "round" not in capsys.readouterr().out

    def test_on_a_busy_machine_nothing_is_kept_unless_asked_for(
        self,
        few_sizes: None,
        small: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """The refusal says why and what to do. What was timed stays: with the option nothing is
        timed again. Prices that were there before stay as they were.
        """
        monkeypatch.setenv("PBCORE_CACHE", str(tmp_path))
        monkeypatch.setattr(command, "free_cores", lambda threads: 1)
        monkeypatch.setattr(command, "cpu_seconds", busy_machine([1.6]))
        price = ["price", small, "--rounds", "1", "--samplers", "confidence-k4"]
        assert main(price) == 2
        refused = capsys.readouterr().err
        assert "aren't kept: other processes used 1.6 cores" in refused
        assert "--keep-anyway" in refused
        with pytest.raises(InputError, match="isn't complete"):
            price_list("here", small, "float32")
        assert main([*price, "--keep-anyway"]) == 0
        kept = capsys.readouterr().out
        assert "round 1 of 1" not in kept
        assert "may be far off: other processes used 1.6 cores" in kept
        before = here_file(small, "float32").read_text()
        assert main([*price, "--again"]) == 2
        assert here_file(small, "float32").read_text() == before
        assert "1.6 cores" in price_list("here", small, "float32").unsteady

    @pytest.mark.parametrize(
        ("arguments", "what"),
        [
            (["ideal"], "only masked diffusion models"),
            (["tiny", "--rounds", "0"], "at least 1"),
            (["tiny", "--on", "h300"], "h300"),
            (["dream-7b"], "downloads nothing"),
        ],
    )
    def test_what_cannot_be_priced_is_refused_in_a_line(
        self, arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """On stderr, with status 2."""
        assert main(["price", *arguments]) == 2
        told = capsys.readouterr().err
        assert what in told
        assert told.count("\n") == 1


def test_prices_are_kept_in_the_cache_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """$PBCORE_CACHE moves them; a model's name is made a file's."""
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path))
    assert here_file("org/model", "float32") == tmp_path / "prices" / "org-model-float32.json"

"""Computed prices against closed formulas and slow counts of the same thing."""

import dataclasses
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.base.errors import InputError
from pbcore.costs.calls import CallShape
from pbcore.costs.devices import backends, devices, kernels
from pbcore.costs.own_work import counted_work, own_work
from pbcore.costs.shape import ModelShape
from pbcore.models.registry import load_model
from pbcore.models.shape import shape_of
from pbcore.names import parse
from pbcore.results.seconds import price_list

LLADA = "llada-8b"
WHOLE = CallShape(rows=1, tokens=186, logits=32)


_prices = cache(price_list)


class TestShape:
    """A model's sizes by its name, without its weights."""

    @pytest.mark.parametrize(
        "name", ["tiny", "tests/reference/llada-tiny", "tests/reference/sdar-tiny"]
    )
    def test_counts_the_matrices_that_the_loaded_model_has(self, name: str) -> None:
        """Layers and head together are the matrix weights of the network, however often a head that
        is tied to the embeddings is stored.
        """
        ids = {"mask_id": 510, "eos_id": 509} if "sdar" in name else {}
        module = load_model(name, **ids).network.module  # type: ignore[union-attr, arg-type]
        layers = sum(
            weight.numel() for weight in module.model.layers.parameters() if weight.dim() == 2
        )
        shape = shape_of(name)
        assert shape.parameters == layers + module.lm_head.weight.numel()

    def test_llada_reads_seven_and_a_half_billion_weights(self) -> None:
        """The 7.50 · 10⁹ of published arithmetic for LLaDA 8B."""
        assert shape_of(LLADA).parameters == pytest.approx(7.50e9, rel=0.002)

    def test_experts_touched_follow_the_formula_for_even_routing(self) -> None:
        """163.3 of 256 experts for 32 tokens with 8 each, as tables of LLaDA2.0-mini say; all for
        many tokens, 8 for one.
        """
        shape = shape_of("llada2.0-mini")
        assert shape.touched(1) == pytest.approx(8)
        assert shape.touched(32) == pytest.approx(163.3, abs=0.1)
        assert shape.weights_read(10**6) == pytest.approx(shape.parameters - shape.head)
        assert shape.active == pytest.approx(shape.weights_read(1))

    def test_survives_a_file(self) -> None:
        """Written and read again it is the same; other data is refused."""
        shape = shape_of("llada2.0-mini")
        assert ModelShape.of(shape.as_dict()) == shape
        with pytest.raises(ValueError, match="not a model's shape"):
            ModelShape.of({**shape.as_dict(), "layers": "many"})

    @pytest.mark.parametrize("name", ["ideal", "mercury"])
    def test_a_model_without_a_known_shape_is_refused_in_a_line(self, name: str) -> None:
        """The line names the model."""
        with pytest.raises(InputError, match=rf"^{name}: the shape .* isn't known here.*") as error:
            shape_of(name)
        assert "\n" not in str(error.value)


class TestCalls:
    """Seconds of a call on a device."""

    def test_in_eager_mode_the_host_starts_each_kernel(self) -> None:
        """Of LLaDA 8B on an H200: the difference to a device without end is the host's part."""
        prices = price_list("h200", LLADA)
        endless = dataclasses.replace(devices()["h200"], tflops=1e9, bandwidth=1e9)
        calls = dataclasses.replace(prices.calls, device=endless)  # type: ignore[type-var]
        started = kernels().layer * 32 + kernels().call
        assert calls.seconds(WHOLE, 1) == pytest.approx(started * backends()["eager"].kernel)

    def test_a_graph_is_started_at_once(self) -> None:
        """On a device without end a forward takes the start of one kernel."""
        prices = price_list("h200:graphs", LLADA)
        endless = dataclasses.replace(devices()["h200"], tflops=1e9, bandwidth=1e9)
        calls = dataclasses.replace(prices.calls, device=endless)  # type: ignore[type-var]
        assert calls.seconds(WHOLE, 1) == pytest.approx(backends()["graphs"].kernel, rel=0.01)

    def test_many_tokens_take_their_operations_at_the_share_of_the_peak(self) -> None:
        """Far beyond the ridge the layers take 2 · weights · tokens operations and the attention
        4 · L · h · D · tokens · columns.
        """
        prices = price_list("a100:graphs", LLADA)
        call = CallShape(rows=64, tokens=512)
        positions = 64 * 512
        operations = 2 * 6.979e9 * positions + 4 * 32 * 4096 * positions * 512
        expected = operations / (312e12 * backends()["graphs"].operations)
        assert prices.call_seconds(call) == pytest.approx(expected, rel=0.01)

    def test_few_tokens_take_the_reading_of_the_weights(self) -> None:
        """A block behind a cache reads each weight once, and the cache."""
        graphs = backends()["graphs"]
        prices = price_list("h200:graphs", LLADA)
        call = CallShape(rows=1, tokens=4, context=100)
        bytes_ = 2 * (shape_of(LLADA).parameters - 126464 * 4096) + 2 * 100 * 2 * 32 * 4096
        expected = bytes_ / (4.8e12 * graphs.bandwidth) + graphs.kernel
        assert prices.call_seconds(call) == pytest.approx(expected, rel=0.001)

    @given(
        rows=st.integers(1, 64),
        tokens=st.integers(1, 600),
        context=st.integers(0, 1000),
        logits=st.integers(0, 600),
        batch=st.integers(1, 32),
        device=st.sampled_from(sorted(devices())),
        backend=st.sampled_from(["", ":graphs"]),
        model=st.sampled_from([LLADA, "llada2.0-mini", "tiny"]),
        size=st.sampled_from(["rows", "tokens", "context", "logits"]),
    )
    def test_more_of_anything_never_costs_less(
        self,
        rows: int,
        tokens: int,
        context: int,
        logits: int,
        batch: int,
        device: str,
        backend: str,
        model: str,
        size: str,
    ) -> None:
        """Rows, tokens, context, logits and answers only add seconds, and a row of a batch is
        forwarded as a row of an answer is.
        """
        prices = _prices(device + backend, model)
        call = CallShape(rows, tokens, context, logits)
        more = dataclasses.replace(call, **{size: 2 * getattr(call, size) + 1})
        assert 0 < prices.call_seconds(call, batch) <= prices.call_seconds(more, batch)
        together = dataclasses.replace(call, rows=rows * batch)
        assert prices.call_seconds(call, batch) == pytest.approx(prices.call_seconds(together))


class TestOwnWork:
    """A sampler's own work."""

    def test_is_its_kernels_and_waits_at_the_backends_prices(self) -> None:
        """As many of each as were counted."""
        prices = price_list("h100", LLADA)
        eager = backends()["eager"]
        work = counted_work()["confidence-k2"]
        seconds = 3 * (work.kernels + work.waits) * eager.kernel
        assert prices.own_seconds(parse("confidence-k2"), 3) == pytest.approx(seconds)

    def test_an_uncounted_sampler_has_its_policys_work_and_its_modifiers(self) -> None:
        """`margin-k4+remdm2`: that of `margin`, and what `+remdm2` adds to the base; a number that
        wasn't counted has the nearest one's.
        """
        table = counted_work()
        added = table["confidence-k2+remdm2"].kernels - table["confidence-k2"].kernels
        expected = table["margin-k2"].kernels + added
        assert own_work(parse("margin-k4+remdm2")).kernels == pytest.approx(expected)
        assert own_work(parse("margin-k4+remdm3")) == own_work(parse("margin-k4+remdm2"))

    def test_blocks_and_rows_at_a_time_run_no_kernels(self) -> None:
        """`+b8` and `+x4` leave the work as it is."""
        assert own_work(parse("confidence-k2+b8+x4")) == own_work(parse("confidence-k2"))


class TestAnswerSeconds:
    """Mean seconds of an answer from its calls."""

    def test_sums_calls_and_own_work_over_the_batch_and_the_answers(self) -> None:
        """By hand: two shapes, 5 answers, batch 4."""
        prices = price_list("h200", LLADA)
        store = CallShape(1, 154, prefill=True)
        step = CallShape(2, 32, 154, 32)
        expected = (
            (5 * prices.call_seconds(store, 4) + 40 * prices.call_seconds(step, 4)) / 4
            + prices.own_seconds(parse("confidence-k2"), 45, 4) / 4
        ) / 5
        seconds = prices.answer_seconds({store: 5, step: 40}, 5, parse("confidence-k2"), 4)
        assert seconds == pytest.approx(expected)

    def test_is_no_cheaper_for_more_rows_of_whole_canvases_once_the_device_is_full(self) -> None:
        """Half the calls with eight times the rows: dearer on an A100 for whole canvases, and
        cheaper for short blocks behind a cache in eager mode.
        """
        prices = price_list("a100", LLADA)

        def seconds(rows: int, tokens: int, context: int, calls: int) -> float:
            call = CallShape(rows, tokens, context, 32)
            return prices.answer_seconds({call: calls}, 1, parse("confidence-k2"))

        assert seconds(8, 186, 0, 8) > seconds(1, 186, 0, 16)
        assert seconds(8, 4, 154, 8) < seconds(1, 4, 154, 16)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("h300", "neither here, a device nor a file"),
        ("h200:cuda", "no such backend; choose from eager, graphs"),
        ("nothing.json", "No such file"),
    ],
)
def test_an_unknown_list_is_refused_in_a_line(text: str, what: str) -> None:
    """It says what was given and what is allowed."""
    with pytest.raises(InputError, match=what) as error:
        price_list(text, "tiny")
    assert "\n" not in str(error.value)


def test_here_without_a_measurement_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """`pbcore price tiny` makes it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match="run pbcore price tiny"):
        price_list("here", "tiny")


def test_every_device_has_a_source_and_peaks() -> None:
    """The ridge, from which on a layer computes for longer than it reads, lies between 30 and 450
    tokens for each.
    """
    for device in devices().values():
        assert device.source
        assert 30 < device.ridge < 450

"""What the steps of `pbcore check gpu` find, on the pseudo-GPU, and on a device that is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pbcore.cli import main
from pbcore.extras.check.command_gpu import STEPS
from pbcore.extras.check.engine import own
from pbcore.extras.check.engine.varied import Variation, decode_varied
from pbcore.extras.check.gpu import device, equality, made, memory, models, prices, speed, waits
from pbcore.extras.check.gpu.steps import Check, Setup
from pbcore.grid import timed_prices as measure
from pbcore.models import load_model
from pbcore.models.masked import MaskedModel
from tests.models.checkpoints import llama_checkpoint

if TYPE_CHECKING:
    from tests.pseudo_gpu import PseudoGpu

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")


def setup(place: torch.device = CUDA, model: str = "tiny") -> Setup:
    return Setup(place, model, "float32", perf_counter() + 600)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint of one narrow layer, where the steps run and not its size is what counts."""
    return str(llama_checkpoint(tmp_path_factory.mktemp("small"), layers=1))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler of each group, and one model beside `tiny`: all take minutes."""
    groups = {
        "numbers": ["threshold-0.9"],
        "tokens": ["wino"],
        "what-if": ["s2d2", "spec"],
        "modifiers": ["confidence-k4+b8+prefix"],
    }
    monkeypatch.setattr(equality, "samplers_of_groups", lambda: groups)
    monkeypatch.setattr(equality, "SAMPLES", 2)
    monkeypatch.setattr(equality, "OTHERS", {"ideal": ("confidence-k2",), "tiny-ar": ("ar",)})


@pytest.fixture
def one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a made checkpoint's cases a batch in blocks alone."""
    real = made.read_material

    def few(folder: Path) -> Any:
        material = real(folder)
        chosen = [case for case in material.cases if case.id.endswith("k4+b8/batch")]
        return replace(material, cases=chosen)

    monkeypatch.setattr(made, "read_material", few)


def found(checks: Any) -> dict[str, Check]:
    return {check.name: check for check in checks}


class TestEquality:
    """check_embedded, check_golden, check_bfloat16."""

    def test_embedded_models(self, pseudo_gpu: PseudoGpu, few: None) -> None:
        """The pseudo-GPU computes as the CPU does; what a model can't run is named."""
        checks = found(equality.check_embedded(setup()))
        assert all(check.holds for check in checks.values())
        assert checks["tiny, numbers"].text == "2 of 2 answers equal, 1 sampler"
        assert checks["tiny, what-if"].text.endswith("1 sampler; not for this model: s2d2")
        assert list(checks)[-2:] == ["ideal", "tiny-ar"]

    def test_every_policy_is_among_the_samplers(self) -> None:
        from pbcore.decoding import resolve
        from pbcore.decoding.policies import policies

        named = [name for some in equality.samplers_of_groups().values() for name in some]
        assert {resolve(name).name.policy for name in named} == set(policies())

    def test_a_device_that_is_wrong(self, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
        """A different token is ✗, with the sampler's name, unless the CPU's own float64 differs
        from its float32 there.
        """
        real = equality._answers
        place = setup(CPU)
        pair = equality.ModelOnBoth("tiny", place)
        pair._exact = SimpleNamespace(name="float64")

        def wrong(model: Any, prompts: Any, sampler: str, length: int | None) -> list[Any]:
            if model is pair._exact:
                model = pair.cpu
                return [(), *real(model, prompts[1:], sampler, length)]
            answers = real(model, prompts, sampler, length)
            return [("other", 1)] * 3 if model is pair.here else answers

        monkeypatch.setattr(equality, "_answers", wrong)
        compared = equality.DeviceEquality()
        samples = equality.load_task("waiting_line/shuffle", limit=3).samples
        pair.compare("threshold-0.9", samples, None, compared)
        assert (compared.answers, compared.equal, compared.near_ties) == (3, 0, 1)
        assert compared.differing == ["threshold-0.9"]
        check = compared.check("tiny")
        assert check.holds is False
        assert check.text.endswith("different: threshold-0.9")

    def test_golden_checkpoints(
        self, pseudo_gpu: PseudoGpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Logits and decodings of LLaDA's own program, and a block model beside the CPU."""
        if models.golden_folder() is None:
            pytest.skip("reference data not here: a clone of the repository has it")
        chosen = {
            name: equality.GOLDEN[name]._replace(length=8) for name in ("llada-tiny", "sdar-tiny")
        }
        monkeypatch.setattr(equality, "GOLDEN", chosen)
        cases = equality._cases
        monkeypatch.setattr(equality, "_cases", lambda *names: cases(*names)[9:15])  # in few steps
        checks = found(equality.check_golden(setup()))
        assert [check.holds for check in checks.values()] == [True] * 5
        assert checks["llada-tiny, logits"].figures["largest"] < 1e-4
        assert checks["llada-tiny, decodings"].figures["decodings"] > 2

    @pytest.mark.parametrize("name", sorted(equality.GOLDEN))
    @pytest.mark.slow
    def test_every_golden_checkpoint(
        self, name: str, pseudo_gpu: PseudoGpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of LLaDA's decodings those that take the most steps, a token in each, are left out."""
        monkeypatch.setattr(equality, "GOLDEN", {name: equality.GOLDEN[name]})
        cases = equality._cases

        def several(*names: Any) -> list[dict[str, Any]]:
            given = cases(*names)
            return [case for case in given if 1 not in (case.get("k"), case.get("threshold"))]

        monkeypatch.setattr(equality, "_cases", several)
        checks = found(equality.check_golden(setup()))
        assert all(check.holds for check in checks.values()), checks

    def test_wrong_logits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Beyond the bound they are ✗."""
        folder = models.golden_folder()
        if folder is None:
            pytest.skip("reference data not here: a clone of the repository has it")
        loaded = load_model(str(folder / "llada-tiny"))
        golden = equality.GOLDEN["llada-tiny"]
        name = folder / "llada-tiny"
        assert equality._golden_logits("x", loaded, name, golden).holds
        monkeypatch.setattr(equality, "LOGITS", -1.0)  # where they are equal, too
        assert equality._golden_logits("x", loaded, name, golden).holds is False

    def test_without_golden_checkpoints(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """What isn't here isn't judged, and the line says what to do."""
        monkeypatch.setattr(models, "golden_folders", lambda: [tmp_path])
        (check,) = equality.check_golden(setup(CPU))
        assert check.holds is None
        assert "set PBCORE_REFERENCE" in check.text

    def test_bfloat16(self, pseudo_gpu: PseudoGpu, monkeypatch: pytest.MonkeyPatch) -> None:
        """The pseudo-GPU is as far from float32 as the CPU; ten times as far is ✗."""
        (check,) = equality.check_bfloat16(setup())
        assert check.holds
        assert check.figures["here"] == pytest.approx(check.figures["cpu"], rel=0.1)
        real = equality.first_logits

        def off(model: Any, prompts: Any) -> Any:
            logits = real(model, prompts)
            return logits * 1.3 if model.device.type == "cuda" else logits

        monkeypatch.setattr(equality, "first_logits", off)
        (check,) = equality.check_bfloat16(setup())
        assert check.holds is False


class TestMade:
    """check_made."""

    def test_in_each_dtype(
        self, pseudo_gpu: PseudoGpu, one_case: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All equal on the device; with another loop there the line names the deviation."""
        if made.made_folder() is None:
            pytest.skip("reference data not here: a clone of the repository has it")
        checks = found(made.check_made(setup()))
        assert list(checks) == ["llada, float32", "llada, bfloat16", "llada, float16"]
        assert {check.text for check in checks.values()} == {"6 of 6 equal"}

        def causal(checkpoint: str, prompts: Any, setting: Any) -> Any:
            return decode_varied(load_model(checkpoint), prompts, setting, Variation(causal=True))

        monkeypatch.setattr(own, "engine", lambda place: causal)
        checks = found(made.check_made(setup()))
        assert {check.holds for check in checks.values()} == {False}
        assert all("as with: causal" in check.text for check in checks.values())

    @pytest.mark.slow
    def test_every_case(self, pseudo_gpu: PseudoGpu, monkeypatch: pytest.MonkeyPatch) -> None:
        """All are equal, in the dtype that loses most."""
        monkeypatch.setattr(made, "DTYPES", ("bfloat16",))
        if made.made_folder() is None:
            pytest.skip("reference data not here: a clone of the repository has it")
        checks = found(made.check_made(setup()))
        assert [check.holds for check in checks.values()] == [True]

    def test_without_one(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """It isn't judged, and the line says what to do."""
        monkeypatch.setattr(made, "golden_folders", lambda: [tmp_path])
        (check,) = made.check_made(setup(CPU))
        assert check.holds is None
        assert "set PBCORE_REFERENCE" in check.text


class TestDevice:
    def test_a_gpu(self, pseudo_gpu: PseudoGpu) -> None:
        checks = found(device.check_device(setup()))
        assert checks["device"].text.startswith("Pseudo GPU, compute capability 9.0, 132 multi")
        assert checks["computes"].holds
        assert checks["bfloat16"].holds

    def test_tf32_is_named(self, pseudo_gpu: PseudoGpu, monkeypatch: pytest.MonkeyPatch) -> None:
        """It would change answers in float32."""
        assert found(device.check_device(setup()))["float32"].holds
        monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
        assert found(device.check_device(setup()))["float32"].holds is False


class TestSpeed:
    def test_figures(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Forwards and products are counted by rows; decoding is set beside the plain loop."""
        monkeypatch.setattr(speed, "BATCHES", (1, 2))
        monkeypatch.setattr(speed, "ROUNDS", 1)
        checks = found(speed.check_speed(setup(CPU)))
        assert list(checks) == ["batch 1", "batch 2", "decoding"]
        assert checks["batch 2"].figures["share_of_products"] > 0
        assert checks["decoding"].figures["rows"] == 2

    def test_operations(self) -> None:
        """Of tiny's four layers: q, k, v, o of 128 × 128 and three matrices of 128 × 384."""
        tiny = load_model("tiny")
        assert isinstance(tiny, MaskedModel)
        weights = 4 * (4 * 128 * 128 + 3 * 128 * 384)
        assert speed.operations(tiny, 3) == 2 * weights * 3 * (96 + 32)

    def test_the_plain_loop_is_the_sampler(self) -> None:
        """One prompt at a time it gives the answers of confidence-k4."""
        from pbcore.decoding import decode
        from pbcore.tasks import load_task

        tiny = load_model("tiny")
        assert isinstance(tiny, MaskedModel)
        (sample,) = load_task("waiting_line/copy", limit=1).samples
        prompt = list(tiny.encode(sample, 32, 0).prompt_ids)
        (answer,) = decode(tiny, [prompt], "confidence-k4", max_new_tokens=32)
        assert tuple(speed.plain_loop(tiny, prompt)) == answer.token_ids

    def test_a_slow_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What takes more than BESIDE times the plain loop's seconds a row is ✗."""
        taken = iter([1.0, 1.0, 4 * 1.6])
        monkeypatch.setattr(speed, "seconds", lambda run, setup: next(taken))
        tiny = load_model("tiny")
        assert isinstance(tiny, MaskedModel)
        (check,) = speed._beside_the_plain_loop(tiny, setup(CPU))
        assert check.holds is False

    def test_the_median_of_rounds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a first run that isn't timed."""
        clock = iter([0, 1, 1, 4, 4, 6])
        monkeypatch.setattr(speed, "perf_counter", lambda: next(clock))
        monkeypatch.setattr(speed, "ROUNDS", 3)
        runs: list[int] = []
        assert speed.seconds(lambda: runs.append(1), setup(CPU)) == 2
        assert len(runs) == 4


class TestWaits:
    @pytest.fixture(autouse=True)
    def two(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(waits, "GOALS", {"confidence-k1": 2, "lopa": 1000})
        monkeypatch.setattr(waits, "LENGTHS", (4, 8))

    def test_on_a_gpu_they_are_judged(
        self, pseudo_gpu: PseudoGpu, small: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those of the longer answer less those of the shorter, by the steps between them."""
        counted = iter([(100, 500), (130, 900), (10, 5), (20, 9)])
        monkeypatch.setattr(
            waits,
            "counted_on_gpu",
            lambda run, setup: (run(), waits.DeviceWaits(*next(counted)))[1],
        )
        checks = found(waits.check_waits(setup(model=small)))
        assert checks["confidence-k1"].holds is False
        assert checks["confidence-k1"].figures == {"waits": 7.5, "goal": 2, "kernels": 100}
        assert checks["lopa"].holds in (True, None)

    def test_the_pseudo_gpus_counts(
        self, pseudo_gpu: PseudoGpu, small: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What it counts outside the network's forward is what the CPU's profiler counts, and
        copies.
        """

        def counted(run: Any, setup: Setup) -> waits.DeviceWaits:
            with pseudo_gpu.counting() as counts:
                run()
            return waits.DeviceWaits(counts.waits(), counts.kernels())

        monkeypatch.setattr(waits, "counted_on_gpu", counted)
        monkeypatch.setattr(waits, "GOALS", {"confidence-k1": 2})
        here = found(waits.check_waits(setup(model=small)))["confidence-k1"].figures
        assert here["kernels"] > 50
        assert 0 < here["waits"] < 30

    def test_on_a_cpu_they_are_not(self, small: str) -> None:
        check = found(waits.check_waits(setup(CPU, small)))["confidence-k1"]
        assert check.holds is None
        assert check.figures["waits"] <= check.figures["goal"]
        assert "beside the copy that ends a step" in check.text

    def test_the_cpus_count(self) -> None:
        """An item and the places of a mask are what a GPU's host would wait for."""
        mask = torch.ones(3) > 0

        def run() -> None:
            mask.sum().item()
            mask.nonzero()
            mask & mask

        assert waits.counted_on_cpu(run) == (2, None)


class TestMemory:
    def test_batches_take_what_was_estimated(
        self, pseudo_gpu: PseudoGpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The pseudo-GPU counts bytes; the default batch fits in what it has, and more than 8."""
        monkeypatch.setattr(memory, "BATCHES", (1, 4))
        monkeypatch.setattr(memory, "SAMPLERS", ("confidence-k16", "wino"))
        pseudo_gpu.capacity = 64 << 20
        checks = found(memory.check_memory(setup()))
        assert [check.holds for check in checks.values()] == [True] * 3
        figures = checks["confidence-k16"].figures["4"]
        assert 0.3 * figures["estimated"] < figures["allocated"] <= figures["estimated"]
        assert 8 < checks["default batch"].figures["rows"] < 64

    def test_an_estimate_that_is_too_low(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory, "BATCHES", (1, 2))
        monkeypatch.setattr(memory, "SAMPLERS", ("confidence-k16",))
        monkeypatch.setattr(memory, "batch_bytes", lambda *given: 1000)
        checks = found(memory.check_memory(setup(CPU)))
        assert checks["confidence-k16"].holds is False

    def test_a_batch_that_does_not_fit(
        self, pseudo_gpu: PseudoGpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Larger batches say so; the default one is ✗ where it would have to be halved."""
        monkeypatch.setattr(memory, "BATCHES", (1, 64))
        monkeypatch.setattr(memory, "SAMPLERS", ("confidence-k16",))
        monkeypatch.setattr(memory, "batch_of", lambda *given: 64)
        real = memory.allocated_memory

        def tight(place: torch.device) -> Any:
            pseudo_gpu.capacity = pseudo_gpu.allocated + (8 << 20)
            return real(place)

        monkeypatch.setattr(memory, "allocated_memory", tight)
        checks = found(memory.check_memory(setup()))
        assert "64 rows don't fit" in checks["confidence-k16"].text
        assert checks["confidence-k16"].holds
        assert checks["default batch"].holds is False


def test_the_whole_command(
    pseudo_gpu: PseudoGpu,
    one_case: None,
    small: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """All steps on the pseudo-GPU with a sampler each: each has a result, and none raises."""
    monkeypatch.setattr(equality, "samplers_of_groups", lambda: {"numbers": ["confidence-k16"]})
    monkeypatch.setattr(equality, "OTHERS", {"ideal": ("confidence-k16",)})
    monkeypatch.setattr(equality, "SAMPLES", 1)
    monkeypatch.setattr(equality, "GOLDEN", {})
    monkeypatch.setattr(speed, "BATCHES", (1, 2, 2))
    for name, value in (("ROUNDS", 1), ("PROMPT", 8), ("CANVAS", 8)):
        monkeypatch.setattr(speed, name, value)
    monkeypatch.setattr(memory, "BATCHES", (1, 2))
    monkeypatch.setattr(memory, "SAMPLERS", ("confidence-k16",))
    monkeypatch.setattr(waits, "GOALS", {"confidence-k4": 1000})
    monkeypatch.setattr(waits, "LENGTHS", (4, 8))
    monkeypatch.setattr(
        waits, "counted_on_gpu", lambda run, setup: (run(), waits.DeviceWaits(1, 1))[1]
    )
    monkeypatch.setattr(prices, "ROUNDS", 1)
    monkeypatch.setattr(prices, "free_cores", lambda threads: 1000)  # else timed again
    monkeypatch.setattr(prices, "SAMPLERS", ("confidence-k4",))
    monkeypatch.setattr(measure, "SIZES", ((1, 8, 8), (2, 16, 8)))
    monkeypatch.setattr(measure, "DECODINGS", ((1, 4), (1, 8)))
    pseudo_gpu.capacity = 32 << 20
    words = ["check", "gpu", small, "--dtype", "float32", "--out", str(tmp_path)]
    status = main(words)
    content = json.loads((tmp_path / "gpu-check.json").read_text(encoding="utf-8"))
    names = [check["name"] for step in content["steps"] for check in step["checks"]]
    assert not [name for name in names if name.startswith("raised")]
    assert [step["complete"] for step in content["steps"]] == [True] * len(STEPS)
    assert content["settings"]["device"] == "cuda:0"
    assert content["settings"]["name"] == "Pseudo GPU"
    judged = {
        check["name"]: check["holds"] for step in content["steps"] for check in step["checks"]
    }
    judged.pop("decoding")  # seconds
    assert False not in judged.values()
    assert status in (0, 1)

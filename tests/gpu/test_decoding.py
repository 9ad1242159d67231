"""Samplers, modifiers, caches and families on the pseudo-GPU: the CPU's answers, or its refusals.

The quick tests run a few samplers of each kind on every family, the slow ones all of them on
LLaDA and Dream, the nightly ones everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from pbcore.base.errors import PbcoreError
from pbcore.decoding import decode
from pbcore.decoding.policies import policies
from pbcore.decoding.samplers import is_static
from pbcore.decoding.sharing import ForwardStore
from pbcore.models import load_model
from pbcore.models.base import Generation, Prompt
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.tasks import load_task
from tests.models.checkpoints import word_tokenizer
from tests.pseudo_gpu import DEVICE, pseudo_device
from tests.reference import bundled

Loader = Callable[[str], Any]  # the model on a device

EVERY_POLICY = [name + ("-k2" if is_static(cls) else "") for name, cls in policies().items()]
MODIFIED = [
    "confidence-k2+b4",
    "confidence-k2+t0.8",
    "confidence+s2_1_1+b4",
    "random+linear3",
    "entropy+cosine3",
    "confidence-k2+rcr",
    "confidence-k2+b4+rcr-max",
    "confidence-k1+b4+remdm2",
    "margin-k2+remdm1-early",
    "threshold-0.5+adas0.5",
    "threshold-0.5+counts",
    "confidence-k3+rounding+t1.0",
    "threshold-0.3+gap2",
    "lopa+counts",
    "confidence-k2+eos_stop",
    "confidence-k2+no_early_eos",
    "threshold-0.5+eos_last",
    "klass-0.5+b4+t0.8",
    "spec-lossless+t1.0",
    "s2d2+t1.0",
    "confidence-k2+x1",
    "threshold-0.5+b4+ada0.01",
    "confidence-k2+b3+ada0.01+t0.8+p0.9",
    "entropy-k2+t0.5+top5",
    "freedave+b3+ada0.01",
    "confidence-k1+b4+prophet1-mid0.5-late0.2",
    "entropy-k2+prophet0.9-mid0.6-late0.3-start2-length4+t0.7",
]
CACHED = [
    f"{name}+{cache}"
    for name in (
        "confidence-k2+b4",
        "threshold-0.5+b4",
        "threshold-0.5+t0.8+b4",
        "klass+b4",
        "joint+b4",
        "freedave+b4",
        "fast_dllm_v2",
        "confidence-k2+b4+rcr",
        "threshold-0.01+b3+ada0.01",
    )
    for cache in ("prefix", "dual")
]
# What-if rows are the same for all families of a kind; the nightly tests take every family.
ASKING = ("llada-tiny", "dream-tiny", "sdar-tiny", "fast-dllm-v2-tiny")
QUICK = ["threshold-0.2+t0.8", "confidence-k3+b3+dual", "spec"]

PROMPTS = [[5, 6, 7, 8, 9], [11, 12, 13], [5, 6, 7, 8, 9, 10, 14]]
IDS = {"mask_id": 510, "eos_id": 509}
CHECKPOINTS: Mapping[str, Mapping[str, Any]] = {  # and the options that each needs
    "llada-tiny": {"delimiter_ids": [*range(0, 500, 5)]},
    "dream-tiny": {"delimiter_ids": [*range(0, 500, 5)]},
    "llada-moe-tiny": IDS,
    "sdar-tiny": IDS,
    "llada2-tiny": {**IDS, "block": 4},
    "fast-dllm-v2-tiny": {**IDS, "block": 4},
    "stable-diffcoder-tiny": {},
}
KINDS = {"policies": EVERY_POLICY, "modifiers": MODIFIED, "caches": CACHED}


def checkpoint(name: str, **options: Any) -> Loader:
    """A reference checkpoint, in the CPU's number format on every device."""
    given = {**CHECKPOINTS.get(name, {}), **options}
    return lambda device: load_model(str(bundled(name)), device=device, dtype="float32", **given)


def embedded(name: str) -> Loader:
    return lambda device: load_model(name, device=device, dtype="float32")


def answers(
    load: Loader, prompts: Sequence[Prompt], samplers: Sequence[str], device: str, **settings: Any
) -> dict[str, Any]:
    """What each sampler gives on a device: tokens, steps and costs of each row, or its refusal."""
    model = load(device)
    found: dict[str, Any] = {}
    for sampler in samplers:
        try:
            rows = decode(model, prompts, sampler, **settings)
        except (PbcoreError, ValueError, RuntimeError) as error:
            found[sampler] = f"{type(error).__name__}: {error}"
        else:
            found[sampler] = answered(rows)
    return found


def answered(rows: Sequence[Generation]) -> list[Any]:
    """Tokens, steps and costs of each row. Confidences are left out: the last digits of logits
    depend on the batch's size on some CPUs.
    """
    return [
        (row.token_ids, row.steps, row.nfe, row.rows, row.former and len(row.former))
        for row in rows
    ]


def check(
    load: Loader, prompts: Sequence[Prompt], samplers: Sequence[str], **settings: Any
) -> dict[str, Any]:
    """Compares both devices; returns the CPU's answers."""
    expected = answers(load, prompts, samplers, "cpu", **settings)
    with pseudo_device():
        given = answers(load, prompts, samplers, "cuda", **settings)
    different = {
        sampler: (expected[sampler], given[sampler])
        for sampler in samplers
        if expected[sampler] != given[sampler]
    }
    assert different == {}
    return expected


def refused(found: dict[str, Any]) -> list[str]:
    """The samplers that were refused, as a model may; an error inside PyTorch is no refusal."""
    errors = {sampler: text for sampler, text in found.items() if isinstance(text, str)}
    assert not [text for text in errors.values() if text.startswith("RuntimeError")], errors
    return list(errors)


@pytest.fixture(scope="module")
def questions() -> Sequence[Any]:
    return load_task("waiting_line/shuffle", n=3, limit=3).samples


class TestQuick:
    """A sampler of each kind on every family."""

    @pytest.mark.parametrize("name", CHECKPOINTS)
    def test_checkpoints(self, name: str) -> None:
        """Published architectures answer as on the CPU, whatever the batch; those that decode in
        blocks have no cache to choose.
        """
        samplers = QUICK if name in ASKING else QUICK[:2]
        found = check(checkpoint(name), PROMPTS, samplers, max_new_tokens=6)
        in_blocks = name not in ("llada-tiny", "dream-tiny", "llada-moe-tiny")
        assert refused(found) == QUICK[1:2] * in_blocks

    @pytest.mark.parametrize("name", ["tiny", "ideal", "ideal-mi"])
    def test_embedded(self, name: str, questions: Sequence[Any]) -> None:
        """Embedded and ideal models answer as on the CPU."""
        found = check(embedded(name), questions[:2], QUICK)
        assert len(refused(found)) < len(QUICK)

    def test_shared_forwards(self) -> None:
        """A store answers with numbers of the CPU for a model on the GPU."""
        seen = []
        for place in (nullcontext(), pseudo_device()):
            with place as gpu:
                model = load_model("tiny", device="cuda" if gpu else "cpu", dtype="float32")
                store = ForwardStore(model)
                runs = [
                    decode(model, PROMPTS, sampler, 8, store=store)
                    for sampler in ("confidence-k1", "margin-k2", "threshold-0.5")
                ]
                seen.append([[row.token_ids for row in run] for run in runs])
                assert store.shared > 0
        assert seen[0] == seen[1]

    def test_sedd(self) -> None:
        """SEDD, absorbing and uniform, draws the CPU's tokens."""
        for name in ("sedd-tiny", "sedd-uniform-tiny"):
            found = check(
                checkpoint(name, eos_id=0), [[2, 3, 4]], ["analytic-s3"], max_new_tokens=8
            )
            assert refused(found) == []

    def test_autoregressive(self, questions: Sequence[Any]) -> None:
        """An autoregressive model decodes alone, by look-up and by drafts of another's."""
        found = check(embedded("tiny-ar"), questions[:2], ["ar", "ar-lookup4", "confidence-k2"])
        assert refused(found) == ["confidence-k2"]

    @pytest.mark.skipif(
        find_spec("transformers.models.diffusion_gemma") is None,
        reason="this transformers has no DiffusionGemma",
    )
    def test_diffusion_gemma(self, tmp_path: Path) -> None:
        """DiffusionGemma's own loop, which draws by torch's generators, runs on the device."""
        from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion

        from pbcore.models import native
        from tests.models.test_native import TEXT, VISION

        words = word_tokenizer()
        torch.manual_seed(0)
        config = DiffusionGemmaConfig(
            text_config={"vocab_size": len(words), **TEXT}, vision_config=VISION, canvas_length=8
        )
        DiffusionGemmaForBlockDiffusion(config).save_pretrained(tmp_path)
        words.save_pretrained(tmp_path)
        entry = ModelEntry("gemma", "diffusion_gemma", folder=tmp_path)

        def load(device: str) -> Any:
            return native.load_diffusion_gemma(entry, device, "float32", LoadOptions())

        found = check(load, ["Alice Smith"], ["eb-0.1-steps5", "confidence-k2"], max_new_tokens=8)
        assert refused(found) == ["confidence-k2"]

    def test_the_default_dtype(self, pseudo_gpu: Any) -> None:
        """On a GPU weights are bfloat16 unless told otherwise, and `tiny` answers all rows."""
        model: Any = load_model("tiny", device="cuda")
        assert model.network.module.dtype == torch.bfloat16
        assert next(model.network.module.parameters()).device == DEVICE
        rows = decode(model, [[5, 6, 7]], "threshold", 8)
        assert len(rows[0].token_ids) == 8

    def test_a_smaller_batch_when_memory_runs_out(self, pseudo_gpu: Any) -> None:
        """`decode` halves the batch until it fits; answers are those of the whole batch."""
        model = load_model("tiny", device="cuda", dtype="float32")
        prompts = [[5 + i, 6, 7] for i in range(8)]
        whole = answered(decode(model, prompts, "confidence-k4", 16, batch_size=8))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        assert answered(decode(model, prompts, "confidence-k4", 16, batch_size=8)) == whole
        needed = torch.cuda.max_memory_allocated() - before
        pseudo_gpu.capacity = before + needed // 3
        assert answered(decode(model, prompts, "confidence-k4", 16, batch_size=8)) == whole
        pseudo_gpu.capacity = before + needed // 40
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            decode(model, prompts, "confidence-k4", 16, batch_size=8)


@pytest.mark.slow
class TestEverything:
    """All samplers, modifiers and caches on every family."""

    @pytest.mark.parametrize("samplers", KINDS.values(), ids=KINDS)
    @pytest.mark.parametrize(
        "name",
        [
            "llada-tiny",
            "dream-tiny",
            *(pytest.param(name, marks=pytest.mark.nightly) for name in list(CHECKPOINTS)[2:]),
        ],
    )
    def test_checkpoints(self, name: str, samplers: list[str]) -> None:
        """Published architectures answer as on the CPU or refuse as there."""
        refused(check(checkpoint(name), PROMPTS, samplers, max_new_tokens=8))

    @pytest.mark.nightly  # minutes: two cores compute each answer on both devices
    @pytest.mark.parametrize("samplers", KINDS.values(), ids=KINDS)
    @pytest.mark.parametrize("name", ["tiny", "ideal", "ideal-mi"])
    def test_embedded(self, name: str, samplers: list[str], questions: Sequence[Any]) -> None:
        """Embedded and ideal models answer as on the CPU or refuse as there."""
        refused(check(embedded(name), questions, samplers))

    @pytest.mark.parametrize("name", ["tiny-sedd", "tiny-sedd-uniform"])
    def test_embedded_sedd(self, name: str, questions: Sequence[Any]) -> None:
        """The embedded score models answer as on the CPU with each of their samplers."""
        samplers = ["analytic-s4", "euler-s4", "confidence-k2"]
        refused(check(embedded(name), questions, samplers))

    @pytest.mark.parametrize("attention", ["eager", "sdpa"])
    def test_attention_kernels(self, attention: str) -> None:
        """Samplers that read attention weights do so under both kernels."""
        samplers = ["dapd_staged", "clad", "dawn", "axon-cover", "wino", "threshold+adas0.5"]
        load = checkpoint("llada-tiny", attn_implementation=attention)
        assert refused(check(load, PROMPTS, samplers, max_new_tokens=8)) == []

    def test_infilling(self) -> None:
        """Given tokens in the canvas stay, on both devices."""
        samples = load_task("list_ops/shuffle", n=4, limit=3).samples
        assert refused(check(embedded("tiny"), samples, ["confidence-k1", "eb", "lopa"])) == []

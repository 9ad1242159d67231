"""Tokens forwarded, held against the shapes that a network really gets: alone, where nothing is
padding, size by size; in ragged batches, with padding, in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pbcore.costs.calls import CallShape, RowSize
from pbcore.decoding import decode, resolve
from pbcore.decoding.checks import check_needs
from pbcore.decoding.engine import denoise
from pbcore.decoding.policies import policies
from pbcore.decoding.samplers import is_static, of_name
from pbcore.decoding.sharing import ForwardStore
from pbcore.decoding.tally import Tally
from pbcore.models import load_model
from pbcore.models.base import Generation, Request, complete
from pbcore.tasks import load_task
from tests.decoding.toys import Toy
from tests.models.block_models import block_model
from tests.models.causal import causal_checkpoint
from tests.models.checkpoints import llama_checkpoint, with_own_code

PROMPTS = ([8], [9, 10, 11, 12, 13])
LENGTH = 8
BLOCK_PROMPTS = ([5, 6, 7, 8, 9, 10, 11, 12], [7] * 24)
POLICIES = [f"{name}-k2" if is_static(cls) else name for name, cls in policies().items()]
MODIFIERS = (
    "confidence-k2+rcr",
    "confidence-k2+rcr-max",
    "confidence-k2+remdm1",
    "confidence-k2+remdm1-early",
    "confidence-k2+eos_stop",
    "confidence-k2+t1.0",
    "threshold-0.1+b3+ada0.01",
    "confidence-k1+b4+prophet0.6-mid0.4-late0.2-start1-length4",
    "spec-4",
    "recheck-beta0.9",
)
CACHED = tuple(
    f"{sampler}+{cache}"
    for cache in ("prefix", "dual")
    for sampler in (
        "confidence-k2",
        "confidence-k2+b4",
        "threshold-0.3+b2",
        "joint+b4",
        "t2m+b4",
        "confidence-k2+b4+remdm1",
        "threshold-0.1+b3+ada0.01",
    )
)


def runs(model: Any, sampler: str) -> bool:
    """Whether a model can run a sampler."""
    name = resolve(sampler).name
    try:
        check_needs(complete(model), of_name(name).declared, name)
    except ValueError:
        return False
    return True


def on_canvases(kind: str, sampler: str) -> bool:
    """Whether a model with full attention can run it: token by token none reads, and one whose
    logits are shifted can't hide a token from itself.
    """
    declared = resolve(sampler).declared
    return "causal" not in declared.needs and (kind, declared.review) != ("shifted", "hidden")


ON_CANVASES = [
    (kind, sampler)
    for kind in ("plain", "shifted")
    for sampler in (*POLICIES, *MODIFIERS)
    if on_canvases(kind, sampler)
]
BLOCK_MODELS = {  # of one layer, since shapes are all that is looked at
    "sdar": block_model(layers=1),
    "fast_dllm_v2": block_model("fast_dllm_v2", layers=1, block=8),
    "llada2": block_model("llada2", layers=1, block=8),
    "a2d-qwen3": block_model("a2d-qwen3", layers=1, block=8),
    "nemotron": block_model("nemotron", layers=1, block=8),
}
ON_BLOCKS = [
    (family, sampler)
    for family in ("sdar", "fast_dllm_v2")
    for sampler in (
        *POLICIES,
        "fast_dllm_v2+dual",
        "fast_dllm_v2-0.3-part4+dual",
    )
    if runs(BLOCK_MODELS[family], sampler)
] + [
    (family, sampler)
    for family in ("llada2", "a2d-qwen3", "nemotron")
    for sampler in ("confidence-k2", "joint", "spec-4", "fast_dllm_v2+dual")
    if family == "llada2" or sampler != "spec-4"
]


@dataclass
class Call:
    """One call of a network."""

    rows: int
    columns: int
    keys: int = 0  # columns that its first layer attends to
    logits: int = 0  # positions of all rows whose logits are worked out


@contextmanager
def watched(module: Any, head: Any) -> Iterator[list[Call]]:
    """The calls of a network of transformers while the context is open."""
    calls: list[Call] = []
    kernel = nn.functional.scaled_dot_product_attention

    def attends(query: Any, key: Any, *rest: Any, **settings: Any) -> Any:
        if calls:  # else a model that drafts
            calls[-1].keys = calls[-1].keys or key.shape[2]
        return kernel(query, key, *rest, **settings)

    def called(_: Any, args: Any) -> None:
        calls.append(Call(*args[0].shape))

    def reads(_: Any, args: Any) -> None:
        calls[-1].logits += args[0].shape[:-1].numel()

    with (
        module.get_input_embeddings().register_forward_pre_hook(called),
        head.register_forward_pre_hook(reads),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(nn.functional, "scaled_dot_product_attention", attends)
        yield calls


def sizes(run: Generation) -> Counter[tuple[int, int, int, int]]:
    """Rows, tokens, tokens attended to and logits of a row, of each call that was counted."""
    assert run.calls is not None
    found = Counter[tuple[int, int, int, int]]()
    for shape, times in run.calls.items():
        found[shape.rows, shape.tokens, shape.context + shape.tokens, shape.logits] += times
    return found


def seen(calls: Sequence[Call]) -> Counter[tuple[int, int, int, int]]:
    """The same of the calls that the network got."""
    return Counter(
        (call.rows, call.columns, call.keys, -(-call.logits // call.rows)) for call in calls
    )


def positions(sizes: Counter[tuple[int, int, int, int]]) -> Counter[int]:
    """How many calls computed so many tokens, in whatever rows."""
    found = Counter[int]()
    for (rows, tokens, _, _), times in sizes.items():
        found[rows * tokens] += times
    return found


def one_behind_the_other(
    sizes: Counter[tuple[int, int, int, int]],
) -> Counter[tuple[int, int]]:
    """Tokens computed and attended to in each call in which all canvases of a row run as one row
    against one cache.
    """
    found = Counter[tuple[int, int]]()
    for (rows, tokens, keys, _), times in sizes.items():
        found[rows * tokens, keys + (rows - 1) * tokens] += times
    return found


def counted(model: Any, prompts: Sequence[Any], sampler: str, length: int | None = LENGTH) -> None:
    """Checks the counts of the prompts one by one, then those of a batch of all."""
    module = model.network.module if hasattr(model, "network") else model.module
    with watched(module, module.lm_head) as calls:
        alone = decode(model, prompts, sampler, length, batch_size=1)
    for run in alone:
        assert run.calls is not None
        others = run.prefill or 0
        assert sum(run.calls.values()) == (run.nfe or 0) + others
        assert sum(shape.rows * times for shape, times in run.calls.items()) == run.rows + others
        # Some authors' decoders end with a block of one token; then the rest of it is padding.
        assert not run.tokens_padded or sampler.startswith("fast_dllm_v2")
    assert computed(alone) == sum(call.rows * call.columns for call in calls)
    check_shares(alone, calls)
    got = sum((sizes(run) for run in alone), Counter[tuple[int, int, int, int]]())
    if sampler.startswith("s2d2"):  # its kernel gets the whole cache, and a mask
        assert positions(got) == positions(seen(calls))
    elif getattr(model, "block", None):
        if not any(run.tokens_padded for run in alone):
            assert one_behind_the_other(got) == one_behind_the_other(seen(calls))
    elif not any(run.tokens_padded for run in alone):
        assert got == seen(calls)
    with watched(module, module.lm_head) as calls:
        together = decode(model, prompts, sampler, length, batch_size=len(prompts))
    assert [run.calls for run in together] == [run.calls for run in alone]
    assert computed(together) == sum(call.rows * call.columns for call in calls)
    check_shares(together, calls)


def check_shares(found: Sequence[Generation], calls: Sequence[Call]) -> None:
    """The answers' parts of the batch's calls are all calls that the network got."""
    shares = [run.share_of_calls or 0.0 for run in found]
    assert sum(shares) == pytest.approx(len(calls))


def computed(found: Sequence[Generation]) -> int:
    """Positions computed for all answers, padding included."""
    return sum((run.tokens_forwarded or 0) + (run.tokens_padded or 0) for run in found)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same small checkpoint with logits as they are and shifted."""
    folder = str(llama_checkpoint(tmp_path_factory.mktemp("llama"), layers=1))
    made = {name: load_model(folder, shift=name == "shifted") for name in ("plain", "shifted")}
    table = torch.ones(made["plain"].vocab_size) / made["plain"].vocab_size
    ends = frozenset(range(0, made["plain"].vocab_size, 3))  # of AdaBlock's blocks
    return {
        name: replace(model, frequencies=table, delimiter_ids=ends) for name, model in made.items()
    }


class TestMaskedModels:
    @pytest.mark.parametrize(("kind", "sampler"), ON_CANVASES)
    def test_samplers(self, models: dict[str, Any], kind: str, sampler: str) -> None:
        """Reviews, shadows, attention and what-if rows are in the count; padding isn't."""
        counted(models[kind], PROMPTS, sampler)

    @pytest.mark.parametrize("sampler", CACHED)
    @pytest.mark.parametrize("kind", ["plain", "shifted"])
    def test_caches(self, models: dict[str, Any], kind: str, sampler: str) -> None:
        """With a cache only the window, or what follows it, is computed again."""
        counted(models[kind], PROMPTS, sampler)

    def test_ragged_canvases(self, models: dict[str, Any]) -> None:
        """Columns behind a shorter canvas are padding, too."""
        model = models["plain"]
        mask = model.mask_id
        requests = [
            Request((5, 6), (mask,) * 4, 0),
            Request((7,), (8, mask, mask, 9, mask, mask, mask), 1),
        ]
        name = resolve("confidence-k2").name
        with watched(model.network.module, model.network.module.lm_head) as calls:
            together = denoise(model, requests, of_name(name).policy, name)
        alone = [denoise(model, [request], of_name(name).policy, name)[0] for request in requests]
        assert [run.calls for run in together] == [run.calls for run in alone]
        assert [run.tokens_forwarded for run in alone] == [2 * 6, 3 * 8]
        assert computed(together) == sum(call.rows * call.columns for call in calls)

    def test_a_store_counts_what_a_sampler_takes_alone(self, models: dict[str, Any]) -> None:
        """Shared forwards are counted for each answer, as calls are, and no padding is."""
        model = models["plain"]
        store = ForwardStore(model)
        for sampler in ("confidence-k1", "confidence-k2", "threshold-0.3+b4"):
            shared = decode(model, PROMPTS, sampler, LENGTH, store=store)
            alone = decode(model, PROMPTS, sampler, LENGTH)
            assert [run.calls for run in shared] == [run.calls for run in alone]
            assert [run.tokens_padded for run in shared] == [0] * len(PROMPTS)
        assert store.shared


class TestBlockModels:
    @pytest.mark.parametrize(("family", "sampler"), ON_BLOCKS)
    def test_samplers(self, family: str, sampler: str) -> None:
        """Prefill, storing forwards, parts of a block, causal checks and what-if rows."""
        model = BLOCK_MODELS[family]
        counted(model, BLOCK_PROMPTS, sampler, 2 * model.block)

    @pytest.mark.parametrize("family", ["sdar", "fast_dllm_v2", "a2d-qwen3", "nemotron"])
    def test_padding(self, family: str) -> None:
        """Where prompts and answers end within a block, what is left of it is padding."""
        model = block_model(family, **({"block": 4} if family.startswith("a2d") else {}))
        module = model.network.module  # type: ignore[attr-defined]
        requests = [
            Request(tuple(prompt), (8, *[model.mask_id] * 9), i) for i, prompt in enumerate(PROMPTS)
        ]
        name = resolve("confidence-k2").name
        with watched(module, module.lm_head) as calls:
            found = denoise(model, requests, of_name(name).policy, name)
        check_shares(found, calls)
        assert any(run.tokens_padded for run in found)
        assert computed(found) == sum(call.rows * call.columns for call in calls)

    def test_prefill_is_told_apart(self) -> None:
        """It stores the prompt's whole blocks, and is part of the tokens forwarded."""
        (run,) = decode(block_model(), [[5] * 10], "confidence-k4", 6)
        assert run.calls is not None
        assert run.tokens_prefilled == 8
        assert CallShape(1, 8, 0, 0, prefill=True) in run.calls
        assert run.tokens_forwarded == 8 + 4 + 4 + 4  # a block, its storing forward, the next block


class TestOtherModels:
    @pytest.mark.parametrize("sampler", ["ar", "ar-lookup2", "ar-draft2", "ar+t1.0"])
    def test_autoregressive_models(self, tmp_path: Path, sampler: str) -> None:
        """The prompt, then a token a call, or a draft's, behind a growing context."""
        folder = str(causal_checkpoint(tmp_path))
        model: Any = load_model(folder, dtype="float32", draft=folder)
        counted(model, PROMPTS, sampler)

    def test_the_calls_of_an_autoregressive_model(self, tmp_path: Path) -> None:
        """By hand: three prompt tokens, then one at a time."""
        model: Any = load_model(str(causal_checkpoint(tmp_path)), dtype="float32")
        (run,) = decode(replace(model, stop_ids=()), [[5, 6, 7]], "ar", 3)
        assert run.calls == {
            CallShape(1, 3, 0, 1): 1,
            CallShape(1, 1, 3, 1): 1,
            CallShape(1, 1, 4, 1): 1,
        }
        assert (run.tokens_forwarded, run.tokens_prefilled) == (5, 0)

    @pytest.mark.parametrize("name", ["tiny-sedd", "tiny-sedd-uniform"])
    def test_sedd(self, name: str) -> None:
        """Each step runs whole rows."""
        model: Any = load_model(name)
        calls: list[tuple[int, int]] = []

        def called(_: Any, args: Any) -> None:
            calls.append((args[0].numel(), int(args[2].sum())))

        with model.network.register_forward_pre_hook(called):
            found = decode(model, PROMPTS, "analytic-s3", LENGTH, batch_size=4)
        assert sum(run.share_of_calls or 0.0 for run in found) == len(calls)
        alone = decode(model, PROMPTS, "analytic-s3", LENGTH, batch_size=1)
        assert [run.calls for run in found] == [run.calls for run in alone]
        own = [4 * (len(prompt) + LENGTH) for prompt in PROMPTS]
        assert [run.tokens_forwarded for run in found] == own
        assert sum(own) + sum(run.tokens_padded or 0 for run in found) == sum(
            columns for columns, _ in calls
        )
        logits = [
            shape.logits * times for run in found for shape, times in (run.calls or {}).items()
        ]
        assert sum(logits) == sum(positions for _, positions in calls)

    @pytest.mark.parametrize("sampler", ["confidence-k2", "threshold-0.3+b4", "spec-4"])
    def test_a_checkpoints_own_code(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampler: str
    ) -> None:
        """It works out the logits of every column."""
        monkeypatch.setattr(
            "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
        )
        folder = with_own_code(tmp_path, "pass")
        counted(load_model(str(folder), trust_remote_code=True), PROMPTS, sampler)

    def test_ideal_counts_whole_canvases(self) -> None:
        """It has no network; its calls count as those of a whole canvas, as NFE does."""
        model: Any = load_model("ideal")
        samples = load_task("waiting_line/copy", n=4).samples[:2]
        for run in decode(model, samples, "confidence-k2"):
            assert run.tokens_forwarded == len(run.token_ids) * (run.nfe or 0)
        for run in decode(model, samples, "spec-4"):
            assert run.tokens_forwarded == len(run.token_ids) * (run.rows or 0)


class TestModelsOfYourOwn:
    def test_without_sizes(self) -> None:
        """Each forward counts as one of prompt and canvas."""
        (run,) = decode(Toy(), [[5, 6]], "confidence-k2", 8)
        assert run.calls == {CallShape(1, 10, 0, logits): 1 for logits in (8, 6, 4, 2)}

    def test_a_cache_that_says_nothing(self) -> None:
        """Isn't counted, as nobody knows what it computes."""
        (run,) = decode(Toy(), [[5, 6]], "confidence-k2+prefix", 8)
        assert (run.calls, run.tokens_forwarded, run.tokens_prefilled) == (None, None, None)
        assert run.tokens_padded is None


class TestTally:
    def test_rows_of_one_answer_are_one_call(self) -> None:
        """Their logits are the mean, rounded up; padding adds up."""
        tally = Tally([Request((1, 2), (0, 0), 0)] * 2, counted=True)
        tally.count([1, 1, 0], [RowSize(4, 0, 2, 1), RowSize(4, 0, 1, 2), None])
        assert tally.calls(1) == {CallShape(2, 4, 0, 2): 1}
        assert tally.padded(1) == 3
        assert (tally.calls(0), tally.padded(0)) == ({}, 0)

"""Blocks chosen while decoding: AdaBlock against its authors' decodings and against a slow twin
with and without caches, rules of one's own, and what is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from pbcore.base.errors import InputError
from pbcore.blame.continuing import reference_of
from pbcore.ceilings.ceiling import NotExact, exact
from pbcore.decoding import DecodingError, decode, register_blocks, resolve
from pbcore.decoding.block_rules import BLOCKS, AdaBlock
from pbcore.decoding.samplers import of_name
from pbcore.decoding.sharing import ForwardStore
from pbcore.decoding.step import Step
from pbcore.grid.cost import forward_bounds
from pbcore.models import load_model
from pbcore.models.errors import ModelError
from pbcore.models.identity import identity
from pbcore.names import SamplerNameError, parse
from pbcore.results.resume import user_code
from pbcore.tasks import load_task
from pbcore.theory import accuracy
from tests.decoding.toys import MASK, Shareable, Toy
from tests.models.block_models import block_model
from tests.models.checkpoints import llama_checkpoint
from tests.reference import bundled, reference_cases

RAGGED = [[5, 6, 7], [8], [9, 10, 11, 12, 13], [14, 15]]


@cache
def llada() -> Any:
    return load_model(str(bundled("llada-tiny")), delimiter_ids=[5])


def ending(ids: Any) -> Any:
    """The model with other delimiters."""
    return replace(llada(), delimiter_ids=frozenset(ids))


class Broken(Toy):
    """A toy that knows line breaks."""

    delimiter_ids = frozenset({3, 4})


class BrokenShareable(Shareable):
    delimiter_ids = frozenset({3, 4})


@pytest.fixture(autouse=True)
def rules() -> Iterator[None]:
    """Rules of these tests are gone afterwards."""
    with BLOCKS.restored():
        yield


def by_sampler(cases: list[dict[str, Any]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    groups = defaultdict(list)
    for case in cases:
        name = "confidence-k1" if case["threshold"] >= 1 else f"threshold-{case['threshold']}"
        name += f"+b{case['default_block']}+ada{case['delimiter_threshold']}"
        groups[name, case["gen_length"], tuple(case["delimiter_ids"])].append(case)
    return groups


class TestAuthors:
    @pytest.mark.parametrize("most", [24, pytest.param(64, marks=pytest.mark.slow)])
    def test_their_decodings(self, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
        """Tokens, forwards, the canvas before each and the blocks' lengths of all 80 cases."""
        lengths: list[int] = []
        rule = AdaBlock.__call__

        def told(self: AdaBlock, step: Step) -> Tensor:
            answer = rule(self, step)
            lengths.extend(answer.tolist())
            return answer

        monkeypatch.setattr(AdaBlock, "__call__", told)
        cases = reference_cases("decode_adablock")
        assert len(cases) == 80
        groups = by_sampler(cases)
        assert sum(length <= most for _, length, _ in groups) > 10
        for (name, length, ids), group in groups.items():
            for case in group if length <= most else ():
                lengths.clear()
                (out,) = decode(ending(ids), [case["prompt"]], name, length, record=True)
                assert list(out.token_ids) == case["output"], name
                assert out.nfe == sum(case["nfe_by_block"]), name
                assert out.trajectory is not None
                before = [canvas[-length:] for canvas in case["canvases"]]
                assert [list(canvas) for canvas in out.trajectory[:-1]] == before, name
                assert lengths == case["blocks"], name


def slow_adablock(
    model: Any, prompt: list[int], length: int, default: int, least: float, cached: str
) -> tuple[list[int], int]:
    """AdaBlock for one row with gamma .05: after a block's first forward its others see the keys
    and values of that one, before the block (prefix) or around it (dual).
    """
    module = model.network.module
    ids = [*prompt, *[model.mask_id] * length]
    forwards = done = 0

    def forward(columns: range, kept: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Any]:
        memory = DynamicCache()
        for layer, (keys, values) in enumerate(kept):
            memory.update(keys, values, layer)
        out = module.model(
            torch.tensor([[ids[column] for column in columns]]),
            position_ids=torch.tensor([list(columns)]),
            past_key_values=memory,
            use_cache=True,
        )
        logits = module.lm_head(out.last_hidden_state)[0]
        logits[:, model.mask_id] = -torch.inf
        return logits.softmax(-1), [(layer.keys, layer.values) for layer in memory.layers]

    def reveal(columns: range, chances: Tensor, stop: int) -> None:
        sure, token = chances.max(-1)
        open_ = [i for i, c in enumerate(columns) if ids[c] == model.mask_id and c < stop]
        chosen = {i for i in open_ if sure[i] >= 0.05} or {max(open_, key=lambda i: sure[i])}
        for i in chosen:
            ids[columns[i]] = int(token[i])

    while done < length:
        start = len(prompt) + done
        whole = range(len(ids))
        chances, memory = forward(whole, [])
        forwards += 1
        sure, token = chances.max(-1)
        window = range(start, start + min(int(0.25 * length), length - done))
        ends = [c for c in window if int(token[c]) in model.delimiter_ids]
        best = max(ends, key=lambda c: float(sure[c]), default=None)
        size = min(default, length - done)
        if best is not None and float(sure[best]) >= least:
            size = best - start + 1
        stop = start + size
        reveal(whole, chances, stop)
        keep = {"": [], "prefix": [*range(start)], "dual": [*range(start), *range(stop, len(ids))]}
        kept = [(k[:, :, keep[cached]], v[:, :, keep[cached]]) for k, v in memory]
        part = {"": whole, "prefix": range(start, len(ids)), "dual": range(start, stop)}[cached]
        while model.mask_id in ids[start:stop]:
            chances, _ = forward(part, kept if cached else [])
            forwards += 1
            reveal(part, chances, stop)
        done += size
    return ids[len(prompt) :], forwards


class TestTwin:
    @pytest.mark.parametrize("cached", ["", "prefix", "dual"])
    def test_each_row_decodes_as_alone(self, cached: str) -> None:
        """Ragged rows together, without a cache and with both."""
        model = ending(range(0, 500, 3))
        name = f"threshold-0.05+b6+ada0.04{'+' if cached else ''}{cached}"
        out = decode(model, RAGGED, name, max_new_tokens=40, batch_size=4)
        lengths = set()
        for prompt, answer in zip(RAGGED, out, strict=True):
            expected, forwards = slow_adablock(model, prompt, 40, 6, 0.04, cached)
            assert (list(answer.token_ids), answer.nfe) == (expected, forwards)
            lengths.add(forwards)
        assert len(lengths) > 1  # the rows' blocks differ

    @pytest.mark.parametrize(
        "sampler",
        [
            "confidence-k2+b4+ada0.2",
            "threshold-0.5+b3+ada0.1+prefix",
            "threshold-0.5+b3+ada0.1+dual",
            "freedave-3+b4+ada0.2",
            "lopa+b4+ada0.2",
            "spec-4+b4+ada0.2",
            "wino-0.5+b5+ada0.2",
            "credit-0.7+b4+ada0.2",
            "klass-0.5+b4+ada0.2",
            "dapd_staged+b4+ada0.2",
            "confidence-k2+b4+ada0.2+rcr",
            "confidence-k2+b4+ada0.2+remdm1",
            "confidence-k2+b4+ada0.2+eos_stop",
            "confidence+b4+ada0.2+linear3",
            "entropy-k1+b4+ada0.2+t0.7+p0.8",
        ],
    )
    def test_batches_change_nothing(self, sampler: str) -> None:
        """Tokens, steps, forwards and rows of each answer, alone and among others."""
        together = decode(Broken(), [[5]] * 5, sampler, max_new_tokens=16, batch_size=5)
        alone = decode(Broken(), [[5]] * 5, sampler, max_new_tokens=16, batch_size=1)
        for one, other in zip(together, alone, strict=True):
            assert (one.token_ids, one.steps) == (other.token_ids, other.steps)
            assert (one.nfe, one.rows) == (other.nfe, other.rows)

    def test_drafts_across_blocks_keep_the_answers(self) -> None:
        """freedave's what-if rows may end a block; its answers are those of one token a step."""
        drafted = decode(Broken(), [[5]] * 6, "freedave-4+b4+ada0.2", max_new_tokens=16)
        plain = decode(Broken(), [[5]] * 6, "confidence-k1+b4+ada0.2", max_new_tokens=16)
        assert [a.token_ids for a in drafted] == [a.token_ids for a in plain]
        assert sum(a.nfe or 0 for a in drafted) < sum(a.nfe or 0 for a in plain)

    def test_forwards_are_shared(self) -> None:
        """A store answers AdaBlock, too: the same answers, and the second sampler's are known."""
        toy = BrokenShareable()
        store = ForwardStore(toy)
        for sampler in ("confidence-k2+b4+ada0.2", "confidence-k2+b4+ada0.2"):
            shared = decode(toy, [[5]] * 3, sampler, 16, store=store)
            plain = decode(BrokenShareable(), [[5]] * 3, sampler, 16)
            assert [a.token_ids for a in shared] == [a.token_ids for a in plain]
        assert store.shared >= store.computed

    def test_given_tokens_stay(self) -> None:
        """In infilling the places to predict make up the blocks, and none of the others."""
        canvas = [7, MASK, MASK, 3, *[MASK] * 8, 4, MASK, MASK]
        for sampler in ("confidence-k1+b4+ada0.1", "threshold-0.4+b2+ada0.3+dual"):
            (answer,) = decode(Broken(), [[5, -1, *canvas]], sampler)
            assert MASK not in answer.token_ids
            kept = [(i, token) for i, token in enumerate(canvas) if token != MASK]
            assert [(i, answer.token_ids[i]) for i, _ in kept] == kept

    def test_a_canvas_that_was_begun_goes_on(self) -> None:
        """Its first block begins at its first mask; all places before it are full."""
        (whole,) = decode(Broken(), [[5]], "confidence-k1+b4+ada0.2", 12, record=True)
        assert whole.trajectory is not None
        (rest,) = decode(
            Broken(), [[5]], "confidence-k1+b4+ada0.2", 12, starts=[whole.trajectory[5]]
        )
        assert MASK not in rest.token_ids
        assert rest.nfe == 12 - 5


class TestOwn:
    def test_a_rule_by_name(self) -> None:
        """It gets the places left and their predictions, of the rows alone that need a block."""
        seen = []

        def halves(step: Step) -> Tensor:
            seen.append((len(step.slots), step.slots.tolist(), step.logits.shape[0]))
            assert bool((step.masked == step.inside).all())
            assert step.entropy().shape == step.masked.shape
            return (step.slots + 1) // 2

        register_blocks("halves", halves)
        (answer,) = decode(Toy(), [[5]], "confidence-k1+blocks_halves", 8)
        assert seen == [(1, [8], 8), (1, [4], 4), (1, [2], 2), (1, [1], 1)]
        places = sorted(range(8), key=lambda place: answer.steps[place])
        assert [sorted(places[a:b]) for a, b in pairwise((0, 4, 6, 7, 8))] == [
            [0, 1, 2, 3],
            [4, 5],
            [6],
            [7],
        ]

    def test_equal_blocks_are_such_a_rule(self) -> None:
        """One that returns 4 decodes as +b4, with the same forwards."""
        register_blocks("fours", lambda step: step.slots.clamp(max=4))
        for ending_ in ("", "+prefix", "+dual", "+t0.7"):
            own = decode(Toy(), [[5]] * 3, f"threshold-0.6+blocks_fours{ending_}", 16)
            plain = decode(Toy(), [[5]] * 3, f"threshold-0.6+b4{ending_}", 16)
            assert [(a.token_ids, a.nfe) for a in own] == [(a.token_ids, a.nfe) for a in plain]

    def test_one_that_needs_no_forward(self) -> None:
        """Its `ahead` answers first, so that the forward predicts the block alone."""

        class Fours:
            def __call__(self, step: Step) -> Tensor:
                raise AssertionError("not asked")

            def ahead(self, left: Tensor) -> Tensor:
                return left.clamp(max=4)

        register_blocks("ahead", Fours())
        toy, plain = Toy(), Toy()
        own = decode(toy, [[5]] * 3, "confidence-k2+blocks_ahead", 8)
        assert own == decode(plain, [[5]] * 3, "confidence-k2+b4", 8)
        wanted = [query.want.sum(-1).tolist() for query in toy.queries]
        assert wanted == [query.want.sum(-1).tolist() for query in plain.queries]

    @pytest.mark.parametrize(
        ("answer", "error"),
        [
            (lambda step: step.slots * 0, "returned 0 for prompt 0, which has 8 places left; retu"),
            (lambda step: step.slots + 1, "returned 9 for prompt 0, which has 8 places left"),
            (lambda step: step.slots[:, None], r"returned a int64 tensor of shape \(1, 1\)"),
            (lambda step: step.slots / 2, "returned a float32 tensor .* expected an int64 tensor"),
            (lambda step: 4, "returned a int; expected an int64 tensor of shape"),
        ],
    )
    def test_lengths_that_cannot_be(self, answer: Any, error: str) -> None:
        """One line says what came and what may come."""
        register_blocks("odd", answer)
        with pytest.raises(DecodingError, match=error) as caught:
            decode(Toy(), [[5]], "confidence-k1+blocks_odd", 8)
        assert "\n" not in str(caught.value)
        assert "+blocks_odd" in str(caught.value)

    def test_names_and_code(self) -> None:
        """Unknown and odd names are refused; the rule's source is part of a cell's key."""
        with pytest.raises(SamplerNameError, match="no rule for blocks is named 'mine'; none is"):
            resolve("confidence-k1+blocks_mine")
        register_blocks("mine", lambda step: step.slots)
        with pytest.raises(SamplerNameError, match="named 'min'; did you mean mine"):
            resolve("confidence-k1+blocks_min")
        with pytest.raises(InputError, match="use lower-case letters"):
            register_blocks("My Rule", lambda step: step.slots)
        with pytest.raises(TypeError, match="must be a function of a step"):
            register_blocks("class", AdaBlock)
        assert str(resolve("confidence-k1+blocks_mine")) == "confidence-k1+blocks_mine"
        assert user_code("tiny", Toy(), parse("confidence-k1+blocks_mine"))["blocks"]
        assert "blocks" not in user_code("tiny", Toy(), parse("confidence-k1+b4"))


class TestNames:
    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("threshold-0.9+ada0.3", r"write e.g. \+b16\+ada0.3"),
            ("threshold-0.9+b16+ada1.5", r"\+ada1.5 is a delimiter's confidence: write 0 to 1"),
            ("threshold-0.9+b16+ada", "unknown modifier"),
            ("threshold-0.9+ada0.3+blocks_mine", "two rules for the lengths of blocks; give"),
        ],
    )
    def test_refused_in_a_line(self, text: str, error: str) -> None:
        with pytest.raises(SamplerNameError, match=error) as caught:
            resolve(text)
        assert "\n" not in str(caught.value)

    def test_both_lengths_are_refused(self) -> None:
        register_blocks("mine", lambda step: step.slots)
        with pytest.raises(SamplerNameError, match=r"\+b8 and \+blocks_mine both say how long"):
            resolve("confidence-k1+b8+blocks_mine")

    def test_order(self) -> None:
        """They stand behind the block's length."""
        text = "threshold-0.9+t0.5+prefix+ada0.3+b16"
        assert str(resolve(text)) == "threshold-0.9+b16+ada0.3+prefix+t0.5"

    def test_the_default_length_divides_nothing(self) -> None:
        """A last block is cut; equal blocks must fit."""
        (answer,) = decode(Broken(), [[5]], "confidence-k2+b5+ada1.0", 12)
        assert answer.nfe == 3 + 3 + 1
        with pytest.raises(InputError, match="block length 5 doesn't divide"):
            decode(Broken(), [[5]], "confidence-k2+b5", 12)


class TestModels:
    def test_without_tokenizer_and_ids(self) -> None:
        """One line says that no line break is known, and what to do."""
        bare = load_model(str(bundled("llada-tiny")))
        with pytest.raises(ValueError, match=r"load it with delimiter_ids=\[…\]") as caught:
            decode(bare, [[5]], "confidence-k1+b4+ada0.3", 8)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("ids", "error"),
        [
            ([512], "delimiter_ids 512 is outside its vocabulary"),
            (["x"], "delimiter_ids 'x' is not a token id"),
            ([], "delimiter_ids is empty"),
        ],
    )
    def test_an_unknown_delimiter(self, ids: Any, error: str) -> None:
        with pytest.raises(ModelError, match=error) as caught:
            load_model(str(bundled("llada-tiny")), delimiter_ids=ids)
        assert "\n" not in str(caught.value)

    def test_they_are_part_of_the_identity(self) -> None:
        """Other delimiters are another model; none given change nothing."""
        folder = str(bundled("llada-tiny"))
        made = [load_model(folder, **given) for given in ({}, {"delimiter_ids": [5, 7]})]
        plain, own = (identity(model) for model in made)
        assert (plain.get("delimiter ids"), own["delimiter ids"]) == (None, "5 7")
        assert plain["digest"] != own["digest"]
        assert made[1].info["delimiter_ids"] == [5, 7]

    def test_the_tokenizers_line_break(self) -> None:
        """A tokenizer's files say it; ideal's line break is a word of its own."""
        tokenizer: Any = load_model("tiny")
        assert {tokenizer.text([token]) for token in tokenizer.delimiter_ids} <= {"\n"}
        ideal: Any = load_model("ideal")
        (token,) = ideal.delimiter_ids
        assert ideal.text([token]) == "\n"
        sample = load_task("waiting_line/copy", limit=1).samples
        (answer,) = decode(ideal, sample, "confidence-k4+b4+ada0.3")
        assert answer.text == decode(ideal, sample, "confidence-k1")[0].text

    def test_block_models_have_their_own(self) -> None:
        with pytest.raises(InputError, match=r"its blocks have 4 tokens, as it was trained; leave"):
            decode(block_model(), [[5]], "confidence-k1+b4+ada0.3", 8)

    def test_small_network_with_caches(self, tmp_path: Path) -> None:
        """Rows whose blocks lie elsewhere go on by themselves, over the same first forward."""
        model: Any = load_model(str(llama_checkpoint(tmp_path)), shift=True)
        model = replace(model, delimiter_ids=frozenset(range(3, 20, 2)))
        for mode in ("prefix", "dual"):
            name = f"threshold-0.3+b3+ada0.05+{mode}"
            together = decode(model, RAGGED, name, 12, batch_size=4)
            alone = decode(model, RAGGED, name, 12, batch_size=1)
            assert [(a.token_ids, a.nfe) for a in together] == [(a.token_ids, a.nfe) for a in alone]


class TestOthers:
    def test_costs_and_theory(self) -> None:
        """One token a step takes as many forwards as tokens; others lie between bounds; no
        accuracy is derived.
        """
        one = forward_bounds(resolve("confidence-k1+b8+ada0.3"), 32)
        two = forward_bounds(resolve("confidence-k2+b8+ada0.3"), 32)
        assert (one.low, one.high, two.low, two.high) == (32, 32, 16, 32)
        with pytest.raises(InputError, match="no accuracy is derived for blocks chosen while"):
            accuracy("shuffle", 4, "confidence-k2+b2+ada0.3")
        law: Any = None
        name = parse("confidence-k2+b2+ada0.3")
        with pytest.raises(NotExact, match="blocks chosen while decoding"):
            exact(law, of_name(name).policy, name)

    def test_blame_continues_in_such_blocks(self) -> None:
        reference = reference_of(resolve("threshold-0.9+b16+ada0.3+prefix"))
        assert str(reference) == "confidence-k1+b16+ada0.3"

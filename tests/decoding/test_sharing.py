"""The store of forwards: the same answers as without it, from fewer forwards."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pbcore.decoding import DecodingError, Step, decode, register_policy, resolve
from pbcore.decoding.protocol import traits
from pbcore.decoding.samplers import is_static, of_name
from pbcore.decoding.sharing import ForwardStore, shareable
from pbcore.models import load_model
from pbcore.models.base import Generation, Query
from tests.decoding.test_invariants import REGISTERED, Fixed
from tests.decoding.toys import MASK, Shareable, Toy, ToyContext
from tests.reference import bundled, reference_cases

SHARING = sorted(name for name, cls in REGISTERED.items() if traits(cls).reads == "numbers")
OTHERS = sorted(REGISTERED.keys() - set(SHARING))
REMASKING = ("+rcr", "+rcr-max", "+remdm1", "+remdm2-early")
LENGTH = 8


def named(name: str, k: int = 2) -> str:
    """A policy's name with k where it must be given."""
    return f"{name}-k{k}" if is_static(REGISTERED[name]) else name


def both(
    toy: Toy, prompts: list[Any], samplers: list[str], **more: Any
) -> tuple[list[list[Generation]], list[list[Generation]], ForwardStore]:
    """The samplers' decodings without a store and with one for all of them."""
    store = ForwardStore(toy)
    plain = [decode(toy, prompts, sampler, record=True, **more) for sampler in samplers]
    return (
        plain,
        [decode(toy, prompts, sampler, record=True, store=store, **more) for sampler in samplers],
        store,
    )


def asked(runs: list[list[Generation]]) -> int:
    return sum(one.nfe or 0 for run in runs for one in run)


class TestSameAnswers:
    @given(
        chosen=st.lists(
            st.tuples(
                st.sampled_from(
                    [*map(named, SHARING), *(f"confidence-k1{end}" for end in REMASKING)]
                ),
                st.sampled_from(["", "+b2", "+b4"]),
                st.sampled_from(["", "", "+no_early_eos", "+eos_stop"]),
            ),
            min_size=2,
            max_size=5,
        ),
        values=st.lists(st.floats(-9, 9), min_size=7, max_size=13),
        canvases=st.lists(
            st.one_of(
                st.just([MASK] * LENGTH),
                st.just([MASK] * 4),
                st.permutations([MASK, MASK, MASK, MASK, 2, 4, 3]),
            ),
            min_size=1,
            max_size=6,
        ),
        seed=st.integers(0, 9),
        size=st.sampled_from([1, 2, 8]),
    )
    def test_every_policy(
        self,
        chosen: list[tuple[str, str, str]],
        values: list[float],
        canvases: list[list[int]],
        seed: int,
        size: int,
    ) -> None:
        """Whatever samplers come one after the other, over ragged rows and any block length:
        tokens, NFE, steps, confidences and trajectories are those without a store.
        """
        fixed = Fixed(values)
        rule = lambda canvas, i, key: fixed(canvas[: len(canvases[key])], i, key)
        toy = Shareable(rule, vocab_size=5, frequencies=torch.tensor([0.1, 0.2, 0.3, 0.2, 0.2]))
        prompts = [[3, -1, *canvas] for canvas in canvases]
        samplers = ["".join(parts) for parts in chosen]
        plain, shared, store = both(toy, prompts, samplers, seed=seed, batch_size=size)
        assert shared == plain
        assert store.shared + store.computed == asked(plain)

    @pytest.mark.parametrize("name", SHARING)
    def test_one_policy_twice(self, name: str) -> None:
        """A second decoding needs no forward at all, and a store that another sampler filled gives
        the same.
        """
        toy = Shareable()
        for block in ("", "+b4"):
            plain, shared, store = both(
                toy, [[5]] * 3, ["confidence-k1", named(name) + block, named(name) + block]
            )
            assert shared == plain
            before = len(toy.forwards)
            assert decode(toy, [[5]] * 3, named(name) + block, record=True, store=store) == plain[1]
            assert len(toy.forwards) == before

    def test_infilling(self) -> None:
        """Rows with the same prompt and other given tokens don't answer for one another."""
        toy = Shareable(
            lambda canvas, i, key: [
                float((token * 3 + j * i + sum(canvas)) % 11) for j, token in enumerate(range(12))
            ]
        )
        prompts = [
            [3, -1, MASK, 5, MASK, MASK],
            [3, -1, MASK, 6, MASK, MASK],
            [3, -1, 5, MASK, MASK, MASK],
        ]
        plain, shared, _ = both(toy, prompts, ["confidence-k1", "margin-k2", "left_to_right-k1"])
        assert shared == plain

    def test_reference_decodings(self) -> None:
        """The official decodings of a checkpoint, remasking included, come out of one store."""
        model: Any = load_model(str(bundled("llada-tiny")))
        store = ForwardStore(model)
        nfe = 0
        groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
        for case in reference_cases("decode_llada"):
            if case["cache"] == "none" and case["gen_length"] == 32:
                policy = (
                    f"confidence-k{case['k']}" if "k" in case else f"threshold-{case['threshold']}"
                )
                groups[f"{policy}+b{case['block_length']}", 32].append(case)
        for case in reference_cases("decode_remask"):
            if case["k"] > 1:
                remask = "rcr" if case["method"] == "rcr" else f"remdm{case['rounds']}"
                groups[
                    f"confidence-k{case['k']}+b{case['block_length']}+{remask}", case["gen_length"]
                ].append(case)
        for (name, length), cases in groups.items():
            out = decode(
                model, [case["prompt"] for case in cases], name, max_new_tokens=length, store=store
            )
            assert [list(one.token_ids) for one in out] == [case["output"] for case in cases], name
            assert [one.nfe for one in out] == [case["nfe"] for case in cases], name
            nfe += sum(case["nfe"] for case in cases)
        assert len(groups) > 12
        assert (store.shared + store.computed, store.shared > 0) == (nfe, True)

    def test_a_real_model(self) -> None:
        """Ragged prompts through a transformer: the same tokens, NFE and steps; confidences to the
        last bits of float32, since other rows share a forward.
        """
        model: Any = load_model(str(bundled("llada-tiny")))
        prompts = [[5 + i] * (3 + 4 * i) for i in range(3)]
        samplers = ["random-k2", "margin-k1+b4", "entropy-k2+b8", "threshold-0.5+b4"]
        plain, shared, store = both(model, prompts, samplers, max_new_tokens=8, batch_size=2)
        for one, other in zip(chain(*plain), chain(*shared), strict=True):
            assert (one.token_ids, one.nfe, one.steps) == (other.token_ids, other.nfe, other.steps)
            assert one.confidences == pytest.approx(other.confidences, abs=1e-5)
        assert store.shared > 0


class TestForwards:
    def test_the_first_canvas_is_asked_once(self) -> None:
        """Samplers of any block length begin with the same canvas, whose masked positions are all
        asked for.
        """
        toy = Shareable()
        _, _, store = both(toy, [[5]], [])
        for sampler in ("confidence-k8", "random-k8", "margin-k8+b8"):
            decode(toy, [[5]], sampler, store=store)
        assert (store.computed, store.shared, toy.forwards) == (1, 2, [1])
        decode(toy, [[5]], "confidence-k4+b4", store=store)
        assert (store.computed, store.shared) == (2, 3)

    def test_rows_that_miss_fill_the_batch(self) -> None:
        """Rows that are answered from the store leave their place in a forward to others, up to the
        batch size.
        """
        toy = Shareable(lambda canvas, i, key: [0.0, *[1.0] * 11])
        store = ForwardStore(toy)
        decode(toy, [[5]] * 4, "confidence-k4", store=store)
        toy.forwards.clear()
        prompts = [[5]] * 8  # the first four are known
        decode(toy, prompts, "confidence-k4", store=store, batch_size=2)
        assert toy.forwards == [2, 2, 2, 2]

    def test_halves_when_memory_runs_out(self) -> None:
        """Out of memory halves the rows of a forward; the answers are the same."""

        class Narrow(ToyContext):
            def logits(self, query: Query) -> torch.Tensor:
                if len(query.canvas) > 2:
                    raise torch.OutOfMemoryError("too many rows")
                return super().logits(query)

        class Small(Shareable):
            def prepare(self, requests, *, cache, seed):  # type: ignore[no-untyped-def]
                inner = super().prepare(requests, cache=cache, seed=seed)
                return Narrow(self, inner.keys, inner.lengths)

        small = Small()
        runs = decode(small, [[5]] * 7, "confidence-k2", batch_size=4, store=ForwardStore(small))
        assert runs == decode(Toy(), [[5]] * 7, "confidence-k2")
        assert max(small.forwards) == 2

    def test_bad_logits_name_the_row(self) -> None:
        """NaN is an error with the row and its step, also from the store."""
        toy = Shareable(lambda canvas, i, key: [float("nan") if key == 1 else 0.0] * 12)
        store = ForwardStore(toy)
        for _ in range(2):
            with pytest.raises(DecodingError, match=r"prompt 1 at step 1"):
                decode(toy, [[5]] * 2, "confidence-k1", store=store)


class TestOutside:
    @pytest.mark.parametrize(
        "sampler",
        [
            *map(named, OTHERS),
            "confidence-k2+t1.0",
            "random-k2+b4+prefix",
            "margin-k1+b4+dual",
            "credit+b4",
        ],
    )
    def test_what_needs_more_runs_outside(self, sampler: str) -> None:
        """Whole distributions, reviews, draws of tokens and caches: each forward is the sampler's
        own.
        """
        toy = Shareable()
        plain, shared, store = both(toy, [[5]] * 2, [sampler, sampler])
        assert shared == plain
        assert (store.shared, store.computed) == (0, 0)
        assert not shareable(toy, resolve(sampler).policy, resolve(sampler).name)

    def test_a_modifier_that_reads_attention_runs_outside(self) -> None:
        """`+adas` walks by attention, of which the store keeps nothing; its policy alone shares."""
        model: Any = load_model(str(bundled("llada-tiny")))
        plain, shared, store = both(
            model, [[5, 6, 7]] * 2, ["confidence-k2+adas40"], max_new_tokens=8
        )
        assert [[one.token_ids for one in run] for run in shared] == [
            [one.token_ids for one in run] for run in plain
        ]
        assert (store.shared, store.computed) == (0, 0)

    def test_which_policies_take_part(self) -> None:
        """All but those that compare distributions, raise logits, review tokens or are made for
        block models.
        """
        assert len(SHARING) == 17
        assert {"credit", "joint", "klass", "wino"} < set(OTHERS)

    @pytest.mark.parametrize("sampler", ["confidence-k2", "random-k2"])
    def test_models_that_draw(self, sampler: str) -> None:
        """`ideal` draws its noise anew at each forward, and a model of one's own may: neither is
        shared unless it says that its logits follow from the canvas.
        """
        name = resolve(sampler).name
        assert not shareable(load_model("ideal"), of_name(name).policy, name)
        assert not shareable(Toy(), of_name(name).policy, name)
        assert shareable(load_model("tiny"), of_name(name).policy, name)

    def test_logits_of_a_policy_that_reads_numbers(self, own_policies: None) -> None:
        """Reading a distribution after declaring numbers is an error, with a store and without."""

        @register_policy("sly_for_a_test")
        @dataclass(frozen=True)
        class Sly:
            reads = "numbers"

            def select(self, step: Step) -> torch.Tensor:
                return step.best_one(step.scatter(step.logits.amax(-1)))

        toy = Shareable()
        for store in (None, ForwardStore(toy)):
            with pytest.raises(
                ValueError, match=r"declares reads = 'numbers' and so has no step\.logits"
            ):
                decode(toy, [[5]], "sly_for_a_test", store=store)

    def test_another_model(self) -> None:
        """A store refuses a model that is not its own."""
        with pytest.raises(
            ValueError, match="holds forwards of toy; make one ForwardStore for each model"
        ):
            decode(Shareable(), [[5]], "confidence-k1", store=ForwardStore(Shareable()))

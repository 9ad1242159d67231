"""`+rcr` and `+remdmN` against the official code's decodings, and against slow loops that follow
its steps one row at a time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode
from pbcore.decoding.samplers import resolve
from pbcore.models import load_model
from pbcore.models.base import Generation
from pbcore.names import SamplerNameError
from tests.decoding.test_policies import probabilities
from tests.decoding.test_remasking import SEEDS, TOKENS, seeded
from tests.decoding.toys import MASK, Toy
from tests.reference import bundled, reference_cases

OFFICIAL = ("confidence-k2+b4+rcr", "confidence-k1+b4+remdm2", "confidence-k2+b4+remdm2")
VARIANTS = ("confidence-k2+b4+rcr-max", "confidence-k2+b4+remdm2-early")
# Canvases of 8 slots whose masks blocks of 2 and 4 divide: whole answers, and infilling with tokens
# 2 and 3 given.
CANVASES = st.sampled_from(
    [
        [MASK] * 8,
        [2, MASK, MASK, 3, MASK, MASK, 2, 3],
        [MASK, 2, MASK, MASK, 3, MASK, 2, 2],
        [3, *[MASK] * 4, 2, 2, 2],
    ]
)


def at(rule: Any, canvas: list[int], key: int) -> tuple[list[int], list[float]]:
    """The likeliest token of each position, and its probability."""
    probs = probabilities(lambda c, i, _: rule(c, i, key), tuple(canvas), range(len(canvas)))
    return [row.index(max(row)) for row in probs], [max(row) for row in probs]


def counts_of(block: int, k: int) -> list[int]:
    """k tokens a step, the last step takes the rest."""
    return [min(k, block - done) for done in range(0, block, k)]


def slow_rcr(rule: Any, canvas: list[int], key: int, k: int, block: int) -> list[tuple[int, ...]]:
    """What each forward sees, then the answer."""
    canvas = list(canvas)
    seen = []
    notes = {}
    targets = [i for i, token in enumerate(canvas) if token == MASK]
    for start in range(0, len(targets), block):
        reach = targets[: start + block]
        counts = counts_of(block, k)
        for i in range(len(counts)):
            seen.append(tuple(canvas))
            tokens, sure = at(rule, canvas, key)
            for slot in reach:
                if canvas[slot] == MASK:
                    canvas[slot], notes[slot] = tokens[slot], sure[slot]
            for slot in sorted(reach, key=lambda slot: (notes[slot], -slot))[
                : sum(counts[i + 1 :])
            ]:
                canvas[slot] = MASK
    return [*seen, tuple(canvas)]


def slow_remdm(
    rule: Any, canvas: list[int], key: int, k: int, block: int, rounds: int
) -> list[tuple[int, ...]]:
    """What each forward sees, then the answer."""
    canvas = list(canvas)
    seen = []
    targets = [i for i, token in enumerate(canvas) if token == MASK]
    for start in range(0, len(targets), block):
        slots = targets[start : start + block]
        revealed_at = {}
        counts = counts_of(block, k)
        place = max(min(int(block * 7 / 8), block - 1), 1)
        plan: list[int | None] = [*counts[:place], *[None] * rounds, *counts[place:]]
        for count in plan:
            if count is None:
                weakest = min(revealed_at, key=lambda slot: (revealed_at[slot], slot))
                canvas[weakest] = MASK
                del revealed_at[weakest]
            seen.append(tuple(canvas))
            tokens, sure = at(rule, canvas, key)
            masks = [slot for slot in slots if canvas[slot] == MASK]
            for slot in sorted(masks, key=lambda slot: (-sure[slot], slot))[
                : 1 if count is None else count
            ]:
                canvas[slot], revealed_at[slot] = tokens[slot], sure[slot]
    return [*seen, tuple(canvas)]


def runs_of(rule: Any, canvases: list[list[int]], sampler: str, **more: Any) -> list[Generation]:
    """Each canvas as a row of one batch, trajectories kept."""
    toy = Toy(rule, vocab_size=TOKENS)
    return decode(toy, [[3, -1, *canvas] for canvas in canvases], sampler, record=True, **more)


class TestReference:
    @pytest.mark.parametrize("block", [8, pytest.param(32, marks=pytest.mark.slow)])
    def test_every_decoding(self, block: int) -> None:
        """Tokens, forwards and the canvas after each step are the official code's, but for a token
        that the next, extra step masks.
        """
        model = load_model(str(bundled("llada-tiny")))
        groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
        for case in reference_cases("decode_remask"):
            if case["block_length"] != block:
                continue
            remask = "rcr" if case["method"] == "rcr" else f"remdm{case['rounds']}"
            groups[f"confidence-k{case['k']}+b{block}+{remask}", case["gen_length"]].append(case)
        assert len(groups) > 3
        for (name, length), cases in groups.items():
            out = decode(
                model, [case["prompt"] for case in cases], name, max_new_tokens=length, record=True
            )
            for case, generation in zip(cases, out, strict=True):
                assert list(generation.token_ids) == case["output"], name
                assert generation.nfe == case["nfe"], name
                assert generation.trajectory is not None
                pairs = zip(generation.trajectory[1:], case["canvases_after"], strict=True)
                differing = [
                    [a for a, b in zip(ours, theirs, strict=True) if a != b]
                    for ours, theirs in pairs
                ]
                masked = [tokens for tokens in differing if tokens]
                assert masked == [[510]] * case["rounds"] * (length // case["block_length"]), name


class TestTwins:
    @settings(derandomize=True)
    @given(
        seed=SEEDS,
        k=st.integers(1, 4),
        block=st.sampled_from([2, 4]),
        canvases=st.lists(CANVASES, min_size=1, max_size=4),
    )
    def test_rcr(self, seed: int, k: int, block: int, canvases: list[list[int]]) -> None:
        """Rows of several lengths in one batch, each with its own blocks, k dividing them or
        not.
        """
        rule = seeded(seed)
        for key, run in enumerate(runs_of(rule, canvases, f"confidence-k{k}+b{block}+rcr")):
            assert list(run.trajectory or ()) == slow_rcr(rule, canvases[key], key, k, block)

    @settings(derandomize=True)
    @given(
        seed=SEEDS,
        k=st.integers(1, 4),
        block=st.sampled_from([2, 4]),
        rounds=st.integers(1, 3),
        canvases=st.lists(CANVASES, min_size=1, max_size=4),
    )
    def test_remdm(
        self, seed: int, k: int, block: int, rounds: int, canvases: list[list[int]]
    ) -> None:
        """So here, and with several blocks and k > 1, which the official code refuses."""
        rule = seeded(seed)
        for key, run in enumerate(
            runs_of(rule, canvases, f"confidence-k{k}+b{block}+remdm{rounds}")
        ):
            assert list(run.trajectory or ()) == slow_remdm(
                rule, canvases[key], key, k, block, rounds
            )

    @pytest.mark.parametrize("rounds", [1, 3])
    def test_remdm_of_one_token(self, rounds: int) -> None:
        """A block of one token is full after its first step; then it is masked and revealed again
        `rounds` times.
        """
        rule = seeded(1)
        (run,) = runs_of(rule, [[MASK] * 3], f"confidence-k1+b1+remdm{rounds}")
        assert list(run.trajectory or ()) == slow_remdm(rule, [MASK] * 3, 0, 1, 1, rounds)
        assert run.nfe == 3 * (1 + rounds)


class TestBoth:
    @pytest.mark.parametrize("sampler", [*OFFICIAL, *VARIANTS])
    @pytest.mark.parametrize("seed", range(3))
    def test_steps_and_confidences_are_of_the_last_reveal(self, sampler: str, seed: int) -> None:
        """A position's step is the last forward that saw it masked, its confidence what that
        forward gave its token.
        """
        rule = seeded(seed)
        (run,) = runs_of(rule, [[MASK] * 8], sampler)
        assert run.trajectory is not None
        for i in range(8):
            step = max(t for t in range(run.nfe) if run.trajectory[t][i] == MASK)
            assert run.steps[i] == step
            probs = probabilities(rule, run.trajectory[step], range(8))
            assert run.confidences[i] == pytest.approx(probs[i][run.token_ids[i]])

    def test_only_the_official_rcr_reaches_back(self) -> None:
        """Some token of the first block is masked again while the second one is decoded; the
        variant's blocks are final.
        """

        def reopened(sampler: str) -> bool:
            runs = runs_of(seeded(0), [[MASK] * 8] * 6, sampler)
            return any(
                MASK in run.trajectory[t][:4]
                for run in runs
                if run.trajectory
                for t in range(2, run.nfe)
            )

        assert reopened("confidence-k2+b4+rcr")
        assert not reopened("confidence-k2+b4+rcr-max")

    def test_rcr_compares_the_last_confidence(self) -> None:
        """A slot that was sure once and no longer is goes back to the mask under `+rcr`, and stays
        under `+rcr-max`.
        """

        def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
            now = {4: (0.5, 9.0, 8.0, 7.0), 3: (3.0, 1.0, 2.9, 2.8)}.get(
                canvas.count(MASK), (1.0, 2.0, 3.0, 4.0)
            )
            return [0.0, 0.0, now[position]]

        last, highest = (
            decode(
                Toy(rule, vocab_size=3), [[5]], f"confidence-k1{end}", max_new_tokens=4, record=True
            )[0].trajectory
            for end in ("+rcr", "+rcr-max")
        )
        assert last is not None
        assert highest is not None
        kept = lambda canvas: [i for i, token in enumerate(canvas) if token != MASK]
        assert [kept(canvas) for canvas in last[1:3]] == [[1], [0, 1]]
        assert [kept(canvas) for canvas in highest[1:3]] == [[1], [1, 2]]

    @pytest.mark.parametrize(
        ("k", "official", "early"), [(1, 34, 34), (2, 18, 17), (4, 10, 9), (8, 6, 6)]
    )
    def test_forwards(self, k: int, official: int, early: int) -> None:
        """A round is a forward of its own in the official runs; in the variant the tokens of two
        rounds may share a step.
        """
        assert decode(Toy(), [[5]], f"confidence-k{k}+remdm2", max_new_tokens=32)[0].nfe == official
        assert (
            decode(Toy(), [[5]], f"confidence-k{k}+remdm2-early", max_new_tokens=32)[0].nfe == early
        )

    @pytest.mark.parametrize(
        ("sampler", "masks"),
        [
            ("confidence+s2_0_3_3+rcr", [8, 6, 6, 3, 0]),
            ("confidence+s2_0_3_3+rcr-max", [8, 6, 6, 3, 0]),
            ("confidence+linear3+rcr", [8, 5, 2, 0]),
            ("margin+s2_0_3_3+remdm2", [8, 6, 6, 3, 1, 1, 0]),
            ("random+s8_0+remdm1", [8, 1, 0]),
        ],
    )
    def test_schedules(self, sampler: str, masks: list[int]) -> None:
        """The schedule says how many stay; extra steps of ReMDM are not among its steps."""
        (run,) = decode(Toy(), [[5]], sampler, record=True)
        assert [canvas.count(MASK) for canvas in run.trajectory or ()] == masks


class TestRefusals:
    @pytest.mark.parametrize("cache", ["prefix", "dual"])
    def test_caches(self, cache: str) -> None:
        """Where RCR would reach into cached blocks it is refused; in one block, and for the others,
        caches run as ever.
        """
        with pytest.raises(SamplerNameError, match=rf"leave \+{cache} or \+b4 out"):
            resolve(f"confidence-k2+rcr+b4+{cache}")
        for sampler in ("confidence-k2+rcr", *OFFICIAL[1:], *VARIANTS):
            runs = decode(Toy(), [[5]] * 5, f"{sampler}+{cache}", record=True)
            assert runs == decode(Toy(), [[5]] * 5, f"{sampler}+{cache}", record=True, batch_size=1)
            uncached = decode(Toy(), [[5]] * 5, sampler, record=True)
            assert runs == [replace(run, calls=None) for run in uncached]

    def test_policies(self) -> None:
        """RCR goes with confidence alone, ReMDM with any policy of k tokens."""
        with pytest.raises(SamplerNameError, match="goes with confidence-kN, not margin"):
            resolve("margin-k2+rcr")
        with pytest.raises(SamplerNameError, match="policies of k tokens a step, not threshold"):
            resolve("threshold-0.9+remdm1")

"""The decoding loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.base.errors import InputError
from pbcore.decoding import decode, denoise, resolve
from pbcore.decoding.samplers import of_name
from tests.decoding.toys import EOS, MASK, Toy, scrambled

SAMPLERS = [
    "eb-0.5",
    "frechet-0.1",
    "dus-2+b4",
    "klass-0.3-kl1.0",
    "localleap-0.5-relaxed0.3-radius2",
    "origin-4+b4",
    "confidence-k2+rcr",
    "confidence-k2+b4+rcr",
    "confidence-k2+b4+rcr-max",
    "confidence-k2+b4+remdm2",
    "margin-k1+b2+remdm1-early",
    "random-k3",
    "confidence-k1",
    "confidence-k4+b4",
    "left_to_right-k2",
    "margin-k2",
    "entropy-k2+t1.0",
    "threshold-0.5+b4",
    "threshold-0.3+t0.7",
    "factor-1.0",
    "confidence+linear3",
    "confidence+cosine3+b4",
    "random+s3_0_5",
    "threshold-0.5+b2+prefix",
    "confidence-k1+b4+dual",
    "threshold-0.4+no_early_eos",
    "confidence-k2+eos_stop",
]


def slow_confidence(toy: Toy, key: int, length: int, k: int, block: int) -> tuple[list[int], int]:
    """Confidence top-k one row at a time, in plain Python: the loop's obvious twin."""
    canvas = [MASK] * length
    nfe = 0
    for start in range(0, length, block):
        while MASK in canvas[start : start + block]:
            scored = []
            for i in range(start, start + block):
                if canvas[i] == MASK:
                    logits = toy.rule(tuple(canvas), i, key)
                    logits[MASK] = -math.inf
                    top = max(logits)
                    scored.append(
                        (1 / sum(math.exp(x - top) for x in logits), -i, logits.index(top))
                    )
            for _, i, token in sorted(scored, reverse=True)[:k]:
                canvas[-i] = token
            nfe += 1
    return canvas, nfe


class TestLoop:
    @pytest.mark.parametrize(("k", "block"), [(1, 8), (2, 8), (3, 8), (3, 4), (8, 8), (1, 1)])
    def test_agrees_with_a_plain_loop(self, k: int, block: int) -> None:
        """Tokens and NFE equal those of a row-by-row loop without any batching."""
        toy = Toy()
        for key, generation in enumerate(decode(toy, [[5]] * 4, f"confidence-k{k}+b{block}")):
            assert (list(generation.token_ids), generation.nfe) == slow_confidence(
                toy, key, 8, k, block
            )

    @pytest.mark.parametrize("sampler", SAMPLERS)
    def test_batch_does_not_matter(self, sampler: str) -> None:
        """Batches of 1, 3 and 7 give the same generations, trajectories included."""
        runs = [
            decode(Toy(), [[5]] * 7, sampler, seed=3, record=True, batch_size=size)
            for size in (1, 3, 7)
        ]
        assert runs[0] == runs[1] == runs[2]

    @pytest.mark.parametrize("sampler", SAMPLERS)
    def test_seed_decides(self, sampler: str) -> None:
        """The same seed repeats itself; another changes what is drawn and nothing else."""
        first, again, other = (decode(Toy(), [[5]] * 6, sampler, seed=seed) for seed in (1, 1, 2))
        assert first == again
        assert (first == other) == (
            not sampler.startswith(("random", "origin")) and "+t" not in sampler
        )

    @given(
        sampler=st.sampled_from(SAMPLERS),
        canvases=st.lists(
            st.lists(st.sampled_from([MASK, 5, 7]), min_size=8, max_size=8), min_size=1, max_size=4
        ),
    )
    def test_invariants(self, sampler: str, canvases: list[list[int]]) -> None:
        """Given tokens stay, every mask is revealed once, blocks go left to right, NFE lies between
        blocks and tokens.
        """
        block = next((int(part[1:]) for part in sampler.split("+") if part[0] == "b"), None)
        canvases = [
            canvas for canvas in canvases if block is None or canvas.count(MASK) % block == 0
        ] or [[MASK] * 8]
        for canvas, generation in zip(
            canvases,
            decode(Toy(), [[3, -1, *canvas] for canvas in canvases], sampler, record=True),
            strict=True,
        ):
            targets = [i for i, token in enumerate(canvas) if token == MASK]
            assert MASK not in generation.token_ids
            assert [generation.token_ids[i] for i in range(8) if i not in targets] == [
                t for t in canvas if t != MASK
            ]
            assert (
                all((generation.steps[i] >= 0) == (i in targets) for i in range(8))
                or "eos_stop" in sampler
            )
            assert generation.trajectory is not None
            assert len(generation.trajectory) == generation.nfe + 1
            for before, after in pairwise(generation.trajectory) if "+r" not in sampler else ():
                assert all(a == b for b, a in zip(before, after, strict=True) if b != MASK)
            if block and not sampler.endswith("+rcr"):  # which reaches back into earlier blocks
                steps = [
                    [generation.steps[i] for i in targets[b : b + block]]
                    for b in range(0, len(targets), block)
                ]
                assert all(max(left) < min(right) for left, right in pairwise(steps))
            if not any(part in sampler for part in ("+s", "linear", "cosine", "remdm", "origin")):
                assert generation.nfe <= len(targets)

    def test_the_default_seed(self) -> None:
        """Without a seed it is 0, in `decode` and in `denoise`."""
        toy = Toy()
        name = resolve("random-k1+t1.0").name
        runs = [decode(toy, [[5]] * 3, name, **seed) for seed in ({}, {"seed": 0}, {"seed": 1})]
        requests = [toy.encode([5], 8, key) for key in range(3)]
        assert runs[0] == runs[1] == denoise(toy, requests, of_name(name).policy, name)
        assert runs[0] != runs[2]

    def test_counts_per_row(self) -> None:
        """A row that is surer finishes in fewer forwards and leaves the batch."""

        def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
            return [0.0] * 3 + [20.0 if key else 0.1] + [0.0] * 8

        toy = Toy(rule)
        unsure, sure = decode(toy, [[5], [5]], "threshold-0.9")
        assert (unsure.nfe, sure.nfe) == (8, 1)
        assert toy.forwards == [2, 1, 1, 1, 1, 1, 1, 1]

    def test_only_masks_of_the_block_are_wanted(self) -> None:
        """The model projects the masked positions of the active block and nothing else."""
        toy = Toy()
        decode(toy, [[5]], "confidence-k2+b4")
        assert [query.want.sum().item() for query in toy.queries] == [4, 2, 4, 2]

    def test_answer_ends_at_first_eos(self) -> None:
        """`answer_tokens` counts what stands before the first EOS."""
        (generation,) = decode(
            Toy(lambda c, i, k: [0.0, 9.0 * (i >= 3)] + [5.0] * 10), [[5]], "confidence-k8"
        )
        assert generation.token_ids[3:] == (EOS,) * 5
        assert generation.answer_tokens == 3

    def test_mask_is_never_predicted(self) -> None:
        """A model that prefers the mask token still ends."""
        (generation,) = decode(
            Toy(lambda c, i, k: [9.0] + [float(j) for j in range(11)]), [[5]], "confidence-k4"
        )
        assert set(generation.token_ids) == {11}

    def test_nothing_to_decode(self) -> None:
        """A canvas without masks comes back as it is, without a forward."""
        (generation,) = decode(Toy(), [[3, -1, 5, 6, 7]], "confidence-k1")
        assert (generation.token_ids, generation.nfe) == ((5, 6, 7), 0)

    def test_ragged_canvases(self) -> None:
        """Canvases of different lengths share a batch and are decoded as each would be alone, by a
        loop without batches.
        """
        rule = lambda canvas, position, key: scrambled()(canvas[: (2, 8, 5)[key]], position, key)
        prompts = [[3, -1, *[MASK] * n] for n in (2, 8, 5)]
        together = decode(Toy(rule), prompts, "confidence-k2")
        expected = [slow_confidence(Toy(rule), key, n, 2, n) for key, n in enumerate((2, 8, 5))]
        assert [(list(generation.token_ids), generation.nfe) for generation in together] == expected

    def test_ragged_batch_pads_on_the_right(self) -> None:
        """Padding is never wanted, and a short row's own tokens don't depend on it."""
        rule = lambda c, i, k: [float((i * 5 + j * 3 + k) % 7) for j in range(12)]
        prompts = [[3, -1, *[MASK] * n] for n in (2, 8, 5)]
        toy = Toy(rule)
        assert decode(toy, prompts, "margin-k2") == decode(
            Toy(rule), prompts, "margin-k2", batch_size=1
        )
        assert toy.queries[0].want.sum(-1).tolist() == [2, 8, 5]


@dataclass
class StopsAtThree(Toy):
    """A toy whose answers end at token 3, too."""

    stop_ids: frozenset[int] = frozenset({EOS, 3})


class TestOptions:
    def test_eos_stop_saves_forwards(self) -> None:
        """With `+eos_stop` a row ends once everything before its first EOS is there; the rest is
        EOS.
        """
        rule = lambda c, i, k: [0.0, 9.0 * (i >= 2)] + [5.0 - i] * 10
        stop, full = (
            decode(Toy(rule), [[5]], sampler)[0]
            for sampler in ("left_to_right-k1+eos_stop", "left_to_right-k1")
        )
        assert stop.token_ids == full.token_ids
        assert (stop.nfe, full.nfe) == (3, 8)

    def test_eos_stop_at_another_stop_token(self) -> None:
        """It ends a row, too; what follows is filled with the EOS."""
        rule = lambda c, i, k: [float(j == (3 if i == 2 else 4)) for j in range(12)]
        (out,) = decode(StopsAtThree(rule), [[5]], "left_to_right-k1+eos_stop")
        assert (out.token_ids, out.nfe) == ((4, 4, 3, EOS, EOS, EOS, EOS, EOS), 3)

    @pytest.mark.parametrize("stop", [EOS, 3])
    def test_no_early_eos_waits(self, stop: int) -> None:
        """With `+no_early_eos` no EOS or other stop token is revealed while a mask stands to its
        left.
        """
        rule = lambda c, i, k: [9.0 * (j == stop and i >= 2) + float(j == 7) for j in range(12)]
        plain, held = (
            decode(StopsAtThree(rule), [[5]], f"confidence-k1{end}")[0].steps
            for end in ("", "+no_early_eos")
        )
        assert plain[7] < plain[0]
        assert max(held[:2]) < min(held[2:])

    def test_cache_windows(self) -> None:
        """With a cache the first forward of a block refreshes and each knows the block's window; no
        forward is wasted.
        """
        toy = Toy()
        generations = decode(toy, [[5], [5]], "confidence-k2+b4+prefix")
        assert [(q.window, q.refresh) for q in toy.queries] == [
            ((0, 4), True),
            ((0, 4), False),
            ((4, 8), True),
            ((4, 8), False),
        ]
        assert [g.nfe for g in generations] == [4, 4]
        toy = Toy()
        decode(toy, [[5], [5]], "confidence-k4+b4+prefix")
        assert [q.refresh for q in toy.queries] == [True, True]


class TestDefaultBatch:
    def test_model_first_then_device(self) -> None:
        """A model may say how many rows it decodes together best; else 8 on a CPU. An argument goes
        before both.
        """

        class Wide(Toy):
            batch_size = 5

        for kind, size, rows in ((Toy, None, 8), (Wide, None, 5), (Wide, 3, 3)):
            toy = kind()
            decode(toy, [[5]] * 20, "confidence-k8", batch_size=size)
            assert max(toy.forwards) == rows

    def test_the_samplers_own(self) -> None:
        """`+x3` decodes three rows at a time, with the answers of any other number; a model with
        its own batches refuses it.
        """
        toy = Toy()
        assert decode(toy, [[5]] * 7, "confidence-k2+x3") == decode(
            Toy(), [[5]] * 7, "confidence-k2"
        )
        assert max(toy.forwards) == 3
        own: Any = SimpleNamespace(
            name="own", info={}, check=lambda name: None, generate=lambda *words, **options: []
        )
        with pytest.raises(InputError, match="in batches of its own; leave out"):
            decode(own, [[5]], "eb-0.1+x3")

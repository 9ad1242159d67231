"""Samplers that read attention, against replays in plain Python, hand-made graphs and a small
random checkpoint.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.tasks import load_task
from tests.decoding.attention_twins import (
    SLOTS,
    TOKENS,
    Chosen,
    Graph,
    State,
    axon,
    clad,
    dawn,
    direct,
    of_clad,
    replay,
    staged,
)
from tests.decoding.test_policies import table
from tests.decoding.toys import MASK, Toy, web
from tests.models.checkpoints import eager

TWINS: list[tuple[str, Chosen]] = [
    ("dapd_staged-0.1-high0.6-sure0.7", staged(0.1, 0.6, 0.7)),
    ("dapd_staged-0.5-high0.9", staged(0.5, 0.9, 0.9)),
    ("dapd_direct-0.2-high0.5-sure0.8", direct(0.2, 0.5, 0.8)),
    ("dapd_clad-0.05-high0.2-sure0.6", of_clad(0.05, 0.2, 0.6)),
    ("dawn-0.8-edge0.2-induce0.5-least0.4-sink0.3", dawn(0.8, 0.2, 0.5, 0.4, 0.3)),
    ("dawn-0.6-edge0.1-induce0.4-least0.3-sink1.0", dawn(0.6, 0.1, 0.4, 0.3, 1.0)),
    (
        "axon-1-gamma0.8-edge0.2-induce0.5-least0.4-sink0.3",
        axon(dawn(0.8, 0.2, 0.5, 0.4, 0.3), 0.3, False),
    ),
    (
        "axon-1-gamma0.6-edge0.1-induce0.4-least0.3-sink0.2-cover",
        axon(dawn(0.6, 0.1, 0.4, 0.3, 0.2), 0.2, True),
    ),
    ("clad-0.4", clad(0.4)),
    ("clad-0.6", clad(0.6)),
]


class TestReplays:
    @pytest.mark.parametrize(("sampler", "choose"), TWINS, ids=[name for name, _ in TWINS])
    @pytest.mark.parametrize("block", [6, 3])
    @settings(max_examples=8, derandomize=True)
    @given(seed=st.integers(0, 10_000), sharpness=st.sampled_from([0.5, 2.0, 5.0]))
    def test_equals_the_rule_as_written(
        self, sampler: str, choose: Chosen, block: int, seed: int, sharpness: float
    ) -> None:
        """Tokens and forwards, with one block and with two."""
        rule = table(seed, sharpness)
        graph = web(0.7)
        toy = Toy(rule, vocab_size=TOKENS, web=graph)
        (generation,) = decode(toy, [[5]], f"{sampler}+b{block}", max_new_tokens=SLOTS)
        assert (list(generation.token_ids), generation.nfe) == replay(rule, graph, choose, block)


LLADA = Path(__file__).parents[1] / "reference" / "llada-tiny"
ON_LLADA: list[tuple[str, Chosen, range]] = [
    ("dapd_staged-0.1-high0.6-sure0.3", staged(0.1, 0.6, 0.3), range(2, 3)),
    ("dapd_direct-0.2-high0.5-sure0.4", direct(0.2, 0.5, 0.4), range(2, 3)),
    ("dapd_clad-0.02-high0.05-sure0.3", of_clad(0.02, 0.05, 0.3), range(3)),
    (
        "dawn-0.4-edge0.04-induce0.25-least0.15-sink0.06",
        dawn(0.4, 0.04, 0.25, 0.15, 0.06),
        range(3),
    ),
    (
        "axon-1-gamma0.4-edge0.04-induce0.25-least0.15-sink0.06",
        axon(dawn(0.4, 0.04, 0.25, 0.15, 0.06), 0.06, False),
        range(3),
    ),
    (
        "axon-1-gamma0.4-edge0.04-induce0.4-least0.3-sink0.06-cover",
        axon(dawn(0.4, 0.04, 0.4, 0.3, 0.06), 0.06, True),
        range(3),
    ),
    ("clad-0.2", clad(0.2), range(3)),
]


class TestCheckpoint:
    @pytest.mark.parametrize(
        ("sampler", "choose", "layers"), ON_LLADA, ids=[name for name, *_ in ON_LLADA]
    )
    @pytest.mark.parametrize("block", [16, 8])
    def test_equals_the_rule_on_every_column(
        self, sampler: str, choose: Chosen, layers: range, block: int
    ) -> None:
        """llada-tiny: weights and logits of transformers' own eager forward, row by row, prompt
        included.
        """
        model: Any = load_model(str(LLADA))
        generator = torch.Generator().manual_seed(4)
        prompts = []
        for length in (8, 5, 13):
            prompts.append(torch.randint(2, 500, (length,), generator=generator).tolist())
        runs = decode(model, prompts, f"{sampler}+b{block}", max_new_tokens=16)
        for prompt, run in zip(prompts, runs, strict=True):
            assert (list(run.token_ids), run.nfe) == alone(model, prompt, 16, choose, layers, block)


@torch.inference_mode()
def alone(
    model: Any, prompt: list[int], length: int, choose: Chosen, layers: range, block: int
) -> tuple[list[int], int]:
    """One row by a twin: tokens and forwards."""
    row = [*prompt, *[model.mask_id] * length]
    nfe = 0
    noted = set[range]()
    for start in range(len(prompt), len(row), block):
        while model.mask_id in row[start : start + block]:
            logits, graph = eager(model, row, layers)
            logits[:, model.mask_id] = -torch.inf
            part = range(start, start + block)
            state = State(
                row,
                logits.softmax(-1).tolist(),
                graph.tolist(),
                part,
                noted,
                len(prompt),
                model.mask_id,
            )
            for i in choose(state):
                row[i] = int(logits[i].argmax())
            nfe += 1
    return row[len(prompt) :], nfe


def fixed(graph: Graph, sure: list[float]) -> Toy:
    """Three masks with this attention and these confidences, at every step."""

    def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
        p = sure[position]
        return [0.0, *[math.log((1 - p) / 3)] * 3, math.log(p)]

    return Toy(rule, vocab_size=5, web=lambda canvas: graph)


class TestGraphs:
    # The example of three masks: s01 = .04, s02 = .01, s12 = .02; row maxima .04, .04, .02.
    GRAPH: ClassVar[Graph] = [[0.0, 0.04, 0.01], [0.04, 0.0, 0.02], [0.01, 0.02, 0.0]]

    @pytest.mark.parametrize(
        ("bound", "first"), [("0.3", {0}), ("0.5", {0, 2}), ("0.6", {0, 2}), ("1.0", {0, 1, 2})]
    )
    def test_edges_are_relative_to_the_row(self, bound: str, first: set[int]) -> None:
        """Degrees times confidence .031, .030 and .012: 0 is first; 2 has .5 with it, 1 has 1, and
        ≤ τ may join.
        """
        toy = fixed(self.GRAPH, [0.62, 0.5, 0.4])
        (generation,) = decode(toy, [[5]], f"dapd_direct-{bound}-high{bound}", max_new_tokens=3)
        assert {i for i, step in enumerate(generation.steps) if step == 0} == first

    def test_a_tie_goes_to_the_lowest_position(self) -> None:
        """Two masks alone, equally sure: the left one."""
        toy = fixed([[0.0, 0.5], [0.5, 0.0]], [0.5, 0.5])
        (generation,) = decode(toy, [[5]], "dapd_direct-0.1-high0.1", max_new_tokens=2)
        assert generation.steps == (0, 1)

    def test_without_anything_sure_the_best_is_revealed(self) -> None:
        """dawn: nothing reaches its bounds."""
        toy = fixed(self.GRAPH, [0.3, 0.5, 0.4])
        (generation,) = decode(toy, [[5]], "dawn-0.9", max_new_tokens=3)
        assert generation.steps == (2, 0, 1)

    @pytest.mark.parametrize(
        ("sure", "weight", "first"),
        [
            ([0.8, 0.3, 0.8, 0.8], 0.4, {2, 3}),  # the shorter run waits
            ([0.8, 0.3, 0.8, 0.8], 0.3, {2, 3}),  # 1.2 / 4 is enough
            ([0.8, 0.3, 0.8, 0.8], 0.2, {0, 2, 3}),
            ([0.8, 0.3, 0.8, 0.3], 0.4, {0}),  # of equally long runs the right one
            ([0.3, 0.4, 0.3, 0.3], 0.4, {1}),  # nothing is sure: the best
            ([0.8, 0.3, 0.8, 0.3, 0.8], 0.0, {0, 2, 4}),  # no attention, no pair
        ],
    )
    def test_of_two_runs_the_shorter_waits(
        self, sure: list[float], weight: float, first: set[int]
    ) -> None:
        """clad: slot 0 attends to all others by so much."""
        graph = [[weight] * len(sure), *([[0.0] * len(sure)] * (len(sure) - 1))]
        (generation,) = decode(fixed(graph, sure), [[5]], "clad-0.7", max_new_tokens=len(sure))
        assert {i for i, step in enumerate(generation.steps) if step == 0} == first

    # Everyone attends to slot 2, the least sure one.
    STAR: ClassVar[Graph] = [[0.3, 0.1, 0.6], [0.1, 0.3, 0.6], [0.1, 0.1, 0.8]]

    @pytest.mark.parametrize(
        ("sampler", "steps"),
        [
            ("dawn-0.9", (1, 0, 2)),
            ("axon-1-sink1.0", (2, 1, 0)),  # Σ A(1 − c)c is .25 for slot 2 and .06 for slot 1
            (
                "axon-3-sink1.0",
                (2, 1, 0),
            ),  # then 0 and 1 cover each other: the surer has the larger product
            (
                "axon-1",
                (1, 0, 2),
            ),  # all columns are sinks, so nothing is covered, and the surest is the anchor
            ("axon-0-sink1.0", (1, 0, 2)),
        ],
    )
    def test_an_anchor_is_what_unsure_slots_attend_to(
        self, sampler: str, steps: tuple[int, ...]
    ) -> None:
        """dawn alone reveals the surest, which the others attend to by a tenth: less than their
        doubt.
        """
        toy = fixed(self.STAR, [0.45, 0.5, 0.4])
        (generation,) = decode(toy, [[5]], sampler, max_new_tokens=3)
        assert generation.steps == steps

    def test_an_anchor_stays_in_the_block(self) -> None:
        """Slot 2 is in the second block, so the first has slot 0 first."""
        graph = [[*row, 0.0] for row in self.STAR] + [[0.0] * 4]
        toy = fixed(graph, [0.5, 0.45, 0.4, 0.6])
        (generation,) = decode(toy, [[5]], "axon-1-sink1.0+b2", max_new_tokens=4)
        assert generation.steps == (0, 1, 3, 2)

    def test_further_anchors_cover_what_is_left(self) -> None:
        """Two pairs that attend to each other: dawn reveals the best of them, `cover` one of each
        pair, no more.
        """
        graph = [[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]]
        toy = fixed(graph, [0.5, 0.4, 0.45, 0.35])
        (generation,) = decode(
            toy, [[5]], "axon-1-induce0.0-least0.5-edge0.9-sink1.0-cover", max_new_tokens=4
        )
        assert {i for i, step in enumerate(generation.steps) if step == 0} == {0}
        (generation,) = decode(
            toy,
            [[5]],
            "axon-1-gamma1.0-induce0.0-least0.45-edge0.4-sink1.0-cover",
            max_new_tokens=4,
        )
        assert {i for i, step in enumerate(generation.steps) if step == 0} == {0, 2}


class TestAdas:
    @settings(derandomize=True)
    @given(
        seed=st.integers(0, 10_000), k=st.integers(1, 4), alpha=st.sampled_from([0.5, 3.0, 40.0])
    )
    def test_the_order_discounts_attention_to_unsure_picks(
        self, seed: int, k: int, alpha: float
    ) -> None:
        """A replay: each of a step's k picks has the largest c − α Σ A(1 − c)."""
        rule = table(seed, 2.0)
        graph = web(0.7)

        def choose(state: State) -> set[int]:
            taken: list[int] = []
            while len(taken) < min(k, len(state.masks)):
                rest = [i for i in state.masks if i not in taken]
                cost = {
                    i: sum(state.graph[i][s] * (1 - state.sure(s)) for s in taken) for i in rest
                }
                taken.append(min(rest, key=lambda i: (alpha * cost[i] - state.sure(i), i)))
            return set(taken)

        toy = Toy(rule, vocab_size=TOKENS, web=graph)
        (generation,) = decode(toy, [[5]], f"confidence-k{k}+adas{alpha}", max_new_tokens=SLOTS)
        assert (list(generation.token_ids), generation.nfe) == replay(rule, graph, choose, SLOTS)

    @pytest.mark.parametrize(
        "sampler", ["threshold-0.5", "factor-1.0", "eb-0.5", "frechet-0.1", "margin-k2"]
    )
    def test_alpha_zero_orders_by_confidence(self, sampler: str) -> None:
        """confidence, threshold, factor and frechet stay as they are; the others get another order,
        and end.
        """
        toy = Toy(table(3, 2.0), vocab_size=TOKENS)
        plain, walked = (
            decode(toy, [[5]], f"{sampler}{extra}", max_new_tokens=SLOTS)[0]
            for extra in ("", "+adas0")
        )
        assert MASK not in walked.token_ids
        if sampler.startswith(("threshold", "factor", "frechet")):
            assert (plain.token_ids, plain.steps) == (walked.token_ids, walked.steps)


class TestRefusals:
    def test_a_model_without_attention(self) -> None:
        """`ideal` gives none, and the message says who does."""
        task = load_task("waiting_line/copy", limit=1)
        with pytest.raises(
            ValueError, match="reads attention weights, and ideal gives none; masked models"
        ):
            decode(load_model("ideal"), task.samples, "dapd_staged-0.01")

    def test_a_cache(self) -> None:
        """A cache holds no attention of what isn't computed again."""
        with pytest.raises(ValueError, match=r"which a cache no longer computes; leave \+dual out"):
            decode(Toy(), [[5]], "clad-0.7+b4+dual", max_new_tokens=8)


class TestOracle:
    def test_pairs_are_not_enough_for_latin_squares(self) -> None:
        """With perfect pairwise dependence dapd answers every shuffle, and errs on some Latin
        squares: a third token can be impossible though every pair is possible.
        """
        model = load_model("ideal-mi")
        rate = {}
        for name in ("waiting_line/shuffle", "puzzle/latin_square"):
            task = load_task(name, limit=40, seed=1)
            answers = decode(model, task.samples, "dapd_direct-0.01")
            scores = [
                task.score(a.text, s)["accuracy"]
                for a, s in zip(answers, task.samples, strict=True)
            ]
            rate[name] = sum(scores) / len(scores)
        assert rate["waiting_line/shuffle"] == 1.0
        # What it sees is certain, so a sampler that replaces tokens finds none to replace.
        edited = decode(
            model, load_task("waiting_line/shuffle", limit=4).samples, "joint-0.3-edit0.2"
        )
        assert not any(one.former for one in edited)
        assert all(one.nfe and one.nfe < 16 for one in edited)
        assert 0.5 < rate["puzzle/latin_square"] < 1.0

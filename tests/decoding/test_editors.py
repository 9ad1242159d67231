"""saber and t2m, which take tokens back, against their authors' code and replays in plain Python;
and +eos_last.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding import Policy, decode, denoise, resolve
from pbcore.decoding.policies.editors import THETA, TokenToMask
from pbcore.decoding.predicted import Review
from pbcore.decoding.protocol import traits
from pbcore.decoding.samplers import of_name
from pbcore.decoding.step import Move, State, Step
from pbcore.models import load_model
from pbcore.names import SamplerNameError, parse
from tests.decoding.test_policies import probabilities
from tests.decoding.toys import EOS, MASK, Toy
from tests.reference import bundled, reference_cases

SLOTS = 8
TOKENS = 4


def table(seed: int, sharpness: float) -> Any:
    """Logits that change with every token of the canvas, visible tokens' own included."""

    def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
        generator = torch.Generator().manual_seed(hash((seed, canvas, position)) % (1 << 31))
        return (torch.randn(TOKENS, generator=generator) * sharpness).tolist()

    return rule


def surest(slots: list[int], confidence: dict[int, float]) -> list[int]:
    return sorted(slots, key=lambda i: (-confidence[i], i))


def saber(rule: Any, n: int, block: int, eos_last: bool = False) -> tuple[list[int], int]:
    """Tokens and forwards of one row, as the rule is written; with `eos_last` a mask that predicts
    EOS waits while another mask doesn't.
    """
    canvas = [MASK] * SLOTS
    commits = dict[int, float]()
    last = dict[int, float]()
    nfe = 0
    for end in range(block, SLOTS + 1, block):
        while MASK in canvas[:end]:
            probs = probabilities(rule, tuple(canvas), range(SLOTS))
            now = {i: max(probs[i]) for i in range(end)}
            token = {i: probs[i].index(now[i]) for i in range(end)}
            masks = [i for i in range(end) if canvas[i] == MASK]
            if eos_last and any(token[i] != EOS for i in masks):
                masks = [i for i in masks if token[i] != EOS]
            mean = sum(commits.values()) / len(commits) if commits else 1.0
            fresh = {i for i in masks if now[i] > mean} | set(surest(masks, now)[:n])
            for i in fresh:
                canvas[i] = token[i]
                commits[i] = now[i]
            back = 0
            if set(masks) - fresh:
                back = min(max(n // 2, math.ceil(len(fresh) / 8)), len(fresh) - 1)
            change = {i: now[i] - last.get(i, 0.0) for i in range(end)}
            present = [i for i in range(end) if canvas[i] != MASK]
            for i in sorted(present, key=lambda i: (change[i], i))[:back]:
                canvas[i] = MASK
            last = now
            nfe = nfe + 1
    return canvas, nfe


def suspects(
    strategy: str,
    theta: float,
    probs: list[list[float]],
    tokens: list[int],
    before: list[float],
) -> list[int]:
    """The suspect slots by one of T2M's strategies, the first to be masked first."""
    doubt = dict[int, float]()
    for i, row in enumerate(probs):
        if tokens[i] == MASK:
            continue
        own = row[tokens[i]]
        best = max(row)
        if strategy == "low_prob" and own < theta:
            doubt[i] = -own
        if strategy == "t2t_remask" and row.index(best) != tokens[i] and best > theta:
            doubt[i] = best
        if strategy == "logit_diff" and before[i] - own > theta:
            doubt[i] = before[i] - own
    return sorted(doubt, key=lambda i: (-doubt[i], i))


def t2m(
    rule: Any, gamma: float, strategy: str, theta: float, eos_last: bool = False
) -> tuple[list[int], int]:
    """Tokens and forwards of one row: at most 3 times a slot, a quarter of the visible tokens a
    step, 16 steps once full.
    """
    canvas = [MASK] * SLOTS
    times = [0] * SLOTS
    last = [0.0] * SLOTS
    nfe = 0
    after = 0
    while True:
        probs = probabilities(rule, tuple(canvas), range(SLOTS))
        masks = [i for i in range(SLOTS) if canvas[i] == MASK]
        visible = SLOTS - len(masks)
        open_ = masks
        if eos_last and any(probs[i].index(max(probs[i])) != EOS for i in masks):
            open_ = [i for i in masks if probs[i].index(max(probs[i])) != EOS]
        now = {i: max(probs[i]) for i in open_}
        ranked = suspects(strategy, theta, probs, canvas, last)
        taken = [i for i in ranked if times[i] < 3 and after < 16]
        taken = taken[: max(1, visible // 4)]
        last = [0.0 if canvas[i] == MASK else probs[i][canvas[i]] for i in range(SLOTS)]
        for i in {i for i in open_ if now[i] > gamma} or surest(open_, now)[:1]:
            canvas[i] = probs[i].index(now[i])
            last[i] = now[i]
        for i in taken:
            canvas[i] = MASK
            last[i] = 0.0
            times[i] += 1
        nfe = nfe + 1
        after = after + (not masks)
        reviewed = not masks and not taken
        if MASK not in canvas and (reviewed or after >= 16):
            return canvas, nfe


class TestSaber:
    @pytest.mark.parametrize("end", ["", "+eos_last"])
    @pytest.mark.parametrize("block", [2, 4, 8])
    @pytest.mark.parametrize("n", [1, 2, 3, 5])
    @settings(max_examples=6, derandomize=True)
    @given(seed=st.integers(0, 10_000), sharpness=st.sampled_from([0.5, 2.0, 5.0]))
    def test_equals_the_replay(
        self, n: int, block: int, end: str, seed: int, sharpness: float
    ) -> None:
        """Same tokens in as many forwards, in one block and in several, and where EOS waits."""
        rule = table(seed, sharpness)
        toy = Toy(rule, vocab_size=TOKENS)
        sampler = f"saber-{n}+b{block}{end}"
        (generation,) = decode(toy, [[5]], sampler, max_new_tokens=SLOTS)
        assert (list(generation.token_ids), generation.nfe) == saber(rule, n, block, bool(end))

    def test_every_decoding_of_the_authors(self) -> None:
        """Tokens and steps of their code, in one block and in two, in batches of unequal rows."""
        model = load_model(str(bundled("llada-tiny")))
        groups = defaultdict[tuple[str, int], list[dict[str, Any]]](list)
        for case in reference_cases("decode_saber"):
            sampler = f"saber-{case['n']}+b{case['block_length']}"
            groups[sampler, case["gen_length"]].append(case)
        blocks = {int(sampler.split("+b")[1]) < length for sampler, length in groups}
        assert blocks == {True, False}
        for (sampler, length), cases in groups.items():
            prompts = [case["prompt"] for case in cases]
            runs = decode(model, prompts, sampler, max_new_tokens=length)
            for case, run in zip(cases, runs, strict=True):
                assert list(run.token_ids) == case["output"], sampler
                assert run.nfe == case["steps"], sampler

    def test_no_cache_over_blocks(self) -> None:
        """It takes tokens of earlier blocks back, which a cache holds as they were."""
        with pytest.raises(SamplerNameError, match=r"leave \+prefix or \+b4 out"):
            resolve("saber-2+b4+prefix")


class TestTokenToMask:
    @pytest.mark.parametrize("end", ["", "+eos_last"])
    @pytest.mark.parametrize(
        ("gamma", "strategy", "theta"),
        [
            (0.9, "low_prob", 0.1),
            (0.5, "low_prob", 0.3),
            (0.9, "t2t_remask", 0.9),
            (0.5, "t2t_remask", 0.6),
            (0.9, "logit_diff", 0.3),
            (0.5, "logit_diff", 0.1),
        ],
    )
    @settings(max_examples=8, derandomize=True)
    @given(seed=st.integers(0, 10_000), sharpness=st.sampled_from([0.5, 2.0, 5.0]))
    def test_equals_the_replay(
        self, gamma: float, strategy: str, theta: float, end: str, seed: int, sharpness: float
    ) -> None:
        """Same tokens in as many forwards, also where EOS waits."""
        rule = table(seed, sharpness)
        toy = Toy(rule, vocab_size=TOKENS)
        sampler = f"t2m-{gamma}-{strategy}-theta{theta}{end}"
        (generation,) = decode(toy, [[5]], sampler, max_new_tokens=SLOTS)
        assert (list(generation.token_ids), generation.nfe) == t2m(
            rule, gamma, strategy, theta, bool(end)
        )

    @pytest.mark.parametrize(
        ("strategy", "theta"), [("low_prob", 0.1), ("t2t_remask", 0.9), ("logit_diff", 0.3)]
    )
    def test_theta_goes_by_the_strategy(self, strategy: str, theta: float) -> None:
        """Each strategy has the threshold of its own where the name gives none."""
        runs = [
            decode(Toy(table(seed, 2.0), vocab_size=TOKENS), [[5]] * 6, name)
            for seed in range(3)
            for name in (f"t2m-0.5-{strategy}", f"t2m-0.5-{strategy}-theta{theta}")
        ]
        assert runs[::2] == runs[1::2]

    def test_every_step_of_the_authors(self) -> None:
        """The slots that a single step of each strategy takes back, all 200."""
        cases = reference_cases("t2m_steps")
        assert Counter(case["strategy"] for case in cases).keys() == THETA.keys()
        wrong = [i for i, case in enumerate(cases) if taken_back(case) != sorted(case["remask"])]
        assert not wrong

    @pytest.mark.parametrize(
        ("sampler", "message"),
        [
            ("t2m-0.9-low_prob-t2t_remask", "low_prob or t2t_remask or logit_diff"),
            ("t2m-0.9-low_prob2", "strategy is one word of low_prob, t2t_remask, logit_diff"),
            ("t2m-0.9-theta1.5", r"theta is a probability in \[0, 1\], not 1.5"),
        ],
    )
    def test_wrong_names(self, sampler: str, message: str) -> None:
        """One strategy a name, as a word without a number, and a threshold in its range."""
        with pytest.raises(SamplerNameError, match=message):
            resolve(sampler)

    def test_one_spelling(self) -> None:
        """The strategy is a word of the name, wherever it stands; the default is left out."""
        assert str(resolve("t2m-t2t_remask-0.8-0.6")) == "t2m-0.8-theta0.6-t2t_remask"
        assert str(resolve("t2m-low_prob")) == str(resolve("t2m")) == "t2m-0.9"

    def test_an_unknown_strategy(self) -> None:
        """The class names the strategies that there are."""
        with pytest.raises(ValueError, match="strategy is one of low_prob, t2t_remask, logit_diff"):
            TokenToMask(strategy="entropy")  # type: ignore[arg-type]


def taken_back(case: dict[str, Any]) -> list[int]:
    """The slots of a case that the policy masks again."""
    probs = torch.tensor([case["probabilities"]], dtype=torch.double)  # (1, C, V)
    masked = torch.tensor([case["masked"]])
    tokens = torch.tensor([case["token"]])
    best = probs.max(-1)
    slots = torch.tensor([masked.shape[1]])
    place = torch.arange(masked.shape[1])[None]
    zero = torch.zeros(1, dtype=torch.long)
    states = {
        "t2m back": State(torch.tensor([case["times_remasked"]]).double(), 0.0, "block"),
        "t2m last": State(
            torch.tensor([case["previous_probability"]], dtype=torch.double), 0.0, "block"
        ),
    }
    step = Step(
        inside=torch.ones_like(masked),
        position=place,
        column=place,
        masked=masked,
        visible=~masked,
        token=torch.where(masked, best.indices, tokens),
        confidence=best.values * masked,
        key=zero,
        index=zero,
        nfe=zero,
        slots=slots,
        size=slots,
        requested=slots,
        targets=slots,
        left=masked.sum(-1),
        stale=zero.bool(),
        asked=int(slots),
        review=Review(
            token=best.indices,
            confidence=best.values,
            support=probs.gather(-1, tokens[..., None])[..., 0],
        ),
        states=states,
    )
    rule = TokenToMask(
        strategy=case["strategy"],
        theta=case["threshold"],
        times=case["max_times"],
        ratio=case["ratio"],
    )
    remask = rule.select(step).remask
    assert remask is not None
    return [i for i, taken in enumerate(remask[0].tolist()) if taken]


class Watched:
    """A remasking policy, none of whose moves may mask again a mask that is held back."""

    def __init__(self, rule: Policy) -> None:
        self.rule = rule
        self.declared = traits(rule)
        self.held = 0  # masks held back, over all steps

    def select(self, step: Step) -> Move:
        move = self.rule.select(step)
        assert isinstance(move, Move)
        assert move.remask is not None
        waiting = step.inside & ~step.masked & ~step.visible
        assert not bool((move.remask & waiting).any())
        self.held += int(waiting.sum())
        return move


class TestHeldBack:
    @pytest.mark.parametrize("end", ["+eos_last", "+no_early_eos"])
    @pytest.mark.parametrize(
        "sampler",
        [
            "saber-2",
            "t2m-0.5-theta0.5",
            "wino-0.6",
            "confidence-k2+rcr",
            "confidence-k2+rcr-max",
            "confidence-k2+remdm2",
            "confidence-k2+remdm2-early",
        ],
    )
    def test_no_remasker_takes_a_held_back_eos_for_a_token(self, sampler: str, end: str) -> None:
        """What is masked again held a token; a mask whose EOS waits stays out of every count."""
        name = parse(sampler + end)
        watched = Watched(of_name(name).policy)
        for seed in range(6):
            toy = Toy(table(seed, 2.0), vocab_size=TOKENS)
            denoise(toy, [toy.encode([5], 8, key) for key in range(4)], watched, name)
        assert watched.held > 10


class TestEosLast:
    def test_an_eos_waits_for_all_other_candidates(self) -> None:
        """The surest position predicts EOS and still comes last."""
        sure = {0: (EOS, 9.0), 1: (2, 3.0), 2: (3, 2.0)}

        def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
            token, logit = sure[position]
            return [logit if token == i else 0.0 for i in range(TOKENS)]

        for sampler, steps in (("confidence-k1", (0, 1, 2)), ("confidence-k1+eos_last", (2, 0, 1))):
            (generation,) = decode(Toy(rule, vocab_size=TOKENS), [[5]], sampler, max_new_tokens=3)
            assert generation.steps == steps

    def test_policies_that_choose_tokens_are_refused(self) -> None:
        """What they write isn't the prediction that the modifier looks at."""
        with pytest.raises(SamplerNameError, match=r"so \+eos_last can't hold"):
            resolve("credit-0.9+eos_last")

"""What holds for every registered policy, also for one that was registered a moment ago."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pbcore.decoding import DecodingError, Move, Step, decode, register_policy, resolve
from pbcore.decoding.policies import policies
from pbcore.decoding.policies.editors import TokenToMask
from pbcore.decoding.protocol import traits
from pbcore.decoding.samplers import is_static, of_name
from pbcore.models.base import Generation
from tests.decoding.toys import MASK, Toy

# Those that need a block model are tested on some, in test_blocks.py.
REGISTERED = {name: cls for name, cls in policies().items() if "causal" not in traits(cls).needs}
OPTIONAL = {(TokenToMask, "theta")}  # by its strategy; test_editors.py has them
LENGTH = 6
LOGITS = st.sampled_from([0.0, 0.0, 1.0, -1.0, 3.0, 30.0, -30.0, 1e4, -1e4, -math.inf])


def plain(name: str) -> str:
    """A policy's name with k where it must be given."""
    return f"{name}-k2" if is_static(REGISTERED[name]) else name


def takes_a_cache(name: str) -> bool:
    """Whether a policy can run with blocks and a cache; tests of refusals show what the others
    say.
    """
    declared = resolve(plain(name)).declared
    if declared.review == "hidden" or declared.reach == "prefix":
        return False
    return not declared.needs & {"attention", "probe"}


class Fixed:
    """Logits drawn from a list by canvas, position and key: extreme values, ties and impossible
    tokens included.
    """

    def __init__(self, values: list[float], tokens: int = 5) -> None:
        self._values = values
        self._tokens = tokens

    def __call__(self, canvas: tuple[int, ...], position: int, key: int) -> list[float]:
        start = (
            sum(token * (i + 3) for i, token in enumerate(canvas)) * 7 + position * 5 + key * 11
        ) % len(self._values)
        row = [self._values[(start + i) % len(self._values)] for i in range(self._tokens)]
        return [
            0.0 if i == 1 and max(row[1:]) == -math.inf else value for i, value in enumerate(row)
        ]


def holds(sampler: str, rule: Any, canvases: list[list[int]], seed: int, block: int) -> None:
    """Checks one sampler: it ends, keeps what was given, within its bounds; batches and repetition
    change nothing.
    """
    name = resolve(f"{sampler}+b{block}" if block else sampler).name
    toy = Toy(rule, vocab_size=5, frequencies=torch.tensor([0.1, 0.2, 0.3, 0.2, 0.2]))
    prompts = [[3, -1, *canvas] for canvas in canvases]
    runs = decode(toy, prompts, name, seed=seed, record=True)
    assert runs == decode(toy, prompts, name, seed=seed, record=True, batch_size=1)
    for canvas, run in zip(canvases, runs, strict=True):
        bounded(name, canvas, run, block)


def bounded(name: Any, canvas: list[int], run: Generation, block: int) -> None:
    """The rules of one row: unmaskers reveal something at each step, others stay below their
    cap.
    """
    targets = [i for i, token in enumerate(canvas) if token == MASK]
    assert MASK not in run.token_ids
    assert [run.token_ids[i] for i in range(len(canvas)) if i not in targets] == [
        token for token in canvas if token != MASK
    ]
    assert all((run.steps[i] >= 0) == (i in targets) for i in range(len(canvas)))
    assert run.trajectory is not None
    rule = of_name(name).policy
    size = block or max(1, len(targets))
    cap = traits(rule).cap
    steps = len(run.trajectory) - 1
    assert run.rows >= run.nfe >= steps - 1
    if "probe" not in traits(rule).needs:
        assert run.rows == run.nfe == steps
    if cap is None:
        assert steps <= len(targets)
        for before, after in pairwise(run.trajectory):
            assert after.count(MASK) < before.count(MASK)
            assert all(b in (MASK, a) for b, a in zip(before, after, strict=True))
    else:
        assert run.nfe <= cap(size) * (len(targets) // size if targets else 0)


class TestEveryPolicy:
    @pytest.mark.parametrize("name", REGISTERED)
    @settings(max_examples=6, derandomize=True, phases=[Phase.generate])
    @given(
        values=st.lists(LOGITS, min_size=7, max_size=13),
        canvases=st.lists(
            st.lists(st.sampled_from([MASK, MASK, 2, 4]), min_size=LENGTH, max_size=LENGTH),
            min_size=1,
            max_size=4,
        ),
        seed=st.integers(0, 99),
        block=st.sampled_from([0, 2]),
        temperature=st.sampled_from(["", "", "+t0.8"]),
    )
    def test_invariants(
        self,
        name: str,
        values: list[float],
        canvases: list[list[int]],
        seed: int,
        block: int,
        temperature: str,
    ) -> None:
        """Ends for any logits, is the same in any batch and again, touches no given token, reveals
        or ends as its class must.
        """
        if block:
            canvases = [canvas for canvas in canvases if canvas.count(MASK) % block == 0] or [
                [MASK] * LENGTH
            ]
        holds(plain(name) + temperature, Fixed(values), canvases, seed, block)

    @pytest.mark.parametrize("remask", ["rcr", "rcr-max", "remdm2", "remdm2-early"])
    @settings(max_examples=10, derandomize=True, phases=[Phase.generate])
    @given(
        values=st.lists(LOGITS, min_size=7, max_size=13),
        canvases=st.lists(
            st.sampled_from([[MASK] * 6, [2, *[MASK] * 4, 4], [MASK, 2, 2, 4, MASK, 4]]),
            min_size=1,
            max_size=4,
        ),
        sampler=st.sampled_from(
            ["confidence-k1", "confidence-k3", "confidence+s0_3_0_1", "confidence-k2+t0.8"]
        ),
        block=st.sampled_from([0, 2]),
        ending=st.sampled_from(["", "+no_early_eos", "+eos_last"]),
    )
    def test_remasking(
        self,
        remask: str,
        values: list[float],
        canvases: list[list[int]],
        sampler: str,
        block: int,
        ending: str,
    ) -> None:
        """The same around a policy of k tokens, also where an EOS is held back."""
        holds(f"{sampler}+{remask}{ending}", Fixed(values), canvases, 0, block)

    @pytest.mark.parametrize("name", REGISTERED)
    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_logits_that_are_no_numbers(self, name: str, bad: float) -> None:
        """NaN and +inf are an error that names model, row and step."""
        rule = lambda canvas, i, key: [0.0, bad if key == 1 else 0.0, 1.0, 1.0, 1.0]
        with pytest.raises(DecodingError, match=r"toy gave logits .* prompt 1 at step 1"):
            decode(Toy(rule, vocab_size=5), [[5], [5]], plain(name))

    @pytest.mark.parametrize("name", [name for name in REGISTERED if is_static(REGISTERED[name])])
    @pytest.mark.parametrize(
        ("schedule", "counts"), [("s2_0_3_3", [2, 0, 3, 3]), ("linear3", [3, 3, 2])]
    )
    def test_schedules_are_followed(self, name: str, schedule: str, counts: list[int]) -> None:
        """A static policy reveals what the schedule says, zeros included."""
        (run,) = decode(Toy(), [[5]], f"{name}+{schedule}")
        assert [run.steps.count(step) for step in range(run.nfe)] == counts

    @pytest.mark.parametrize("name", [name for name in REGISTERED if takes_a_cache(name)])
    def test_batches_with_a_cache(self, name: str) -> None:
        """A policy's state survives rows that finish a block before the others."""
        sampler = f"{plain(name)}+b4+prefix"
        assert decode(Toy(), [[5]] * 5, sampler, seed=1) == decode(
            Toy(), [[5]] * 5, sampler, seed=1, batch_size=1
        )

    @pytest.mark.parametrize("name", REGISTERED)
    def test_the_docstring_says_what_it_does(self, name: str) -> None:
        """Each policy states its rule, and every parameter has a default that works."""
        cls = REGISTERED[name]
        assert len((cls.__doc__ or "").split()) > 8
        assert not [
            item.name
            for item in fields(cls)
            if item.init
            and (cls, item.name) not in OPTIONAL
            and item.name != "k"
            and not isinstance(item.default, int | float | str)
        ]


class TestAUsersPolicy:
    def test_the_same_rules_hold(self, own_policies: None) -> None:
        """A policy with state, registered by a user, passes the same checks."""

        @register_policy("patient_for_a_test")
        @dataclass(frozen=True)
        class Patient:
            """Reveals a slot once it was the best one twice, or all that reach a half."""

            def select(self, step: Step) -> Tensor:
                wins = step.state("patient wins")
                wins += step.best_one(step.confidence)
                return step.at_least_best(wins >= 2, step.confidence)

        holds(
            "patient_for_a_test",
            Fixed([0.0, 1.0, 3.0, -1.0, 0.5, 2.0, 7.0]),
            [[MASK] * 6, [MASK, 2, *[MASK] * 5]],
            1,
            2,
        )

    def test_without_a_cap_it_ends_all_the_same(self, own_policies: None) -> None:
        """A policy that masks whatever it reveals ends at the default cap, which a warning
        names.
        """

        @register_policy("undecided_for_a_test")
        @dataclass(frozen=True)
        class Undecided:
            """Takes everything back."""

            def select(self, step: Step) -> Move:
                return Move(step.masked, step.inside)

        with pytest.warns(
            UserWarning, match=r"Undecided remasks .* ends a block after 4 steps per slot"
        ):
            (run,) = decode(Toy(), [[5]], "undecided_for_a_test+b4")
        assert run.nfe == 32
        assert MASK not in run.token_ids

    def test_a_declared_cap_warns_of_nothing(self) -> None:
        """Built-in remaskers declare theirs."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            decode(Toy(), [[5]], "wino")
            decode(Toy(), [[5]], "joint")
            decode(Toy(), [[5]], "confidence-k2+rcr")
            decode(Toy(), [[5]], "confidence-k2+remdm1")

"""Which samplers the optimal frontier binds: what policies declare (`chooses`), that it holds,
counterexamples.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from pbcore.analysis.frontier_gap import kind
from pbcore.ceilings.ceiling import ceiling, exact
from pbcore.decoding.checks import DecodingError
from pbcore.decoding.engine import denoise
from pbcore.decoding.policies import policies, register_policy
from pbcore.decoding.protocol import traits
from pbcore.decoding.samplers import of_name, resolve
from pbcore.decoding.step import Move, Step
from pbcore.models.base import Request
from pbcore.names import parse
from pbcore.tasks import load_task
from pbcore.theory.accuracy import accuracy
from pbcore.theory.answers import answer_table
from pbcore.theory.canvas import EOS
from pbcore.theory.distributions import Listed
from pbcore.theory.problems import NotExact
from tests.ceilings.outcomes import outcomes
from tests.decoding.test_docs import one_step
from tests.decoding.toys import Toy

THEORY = (Path(__file__).resolve().parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")


def listed(op: str, n: int) -> Listed:
    rows = answer_table(op, n)
    return Listed((*map(str, range(int(rows.max()) + 1)), EOS), rows)


class TestKinds:
    @pytest.mark.parametrize(
        ("sampler", "expected"),
        [
            ("random-k2", "order"),
            ("origin-4", "order"),
            ("entropy-k2+t1.0", "order"),
            ("confidence-k2", "seen"),
            ("meanfield", "seen"),
            ("entropy-k2+no_early_eos", "seen"),
            ("wino-0.6", "back"),
            ("saber-2", "back"),
            ("joint-0.7-edit0.5", "back"),
            ("confidence-k2+rcr", "back"),
            ("random-k2+remdm1", "back"),
            ("dawn", "seen"),
            ("credit-0.9", "own"),
            ("confidence-k2+counts", "own"),
            ("spec-8", "tries"),
            ("punt-0.05", "tries"),
            ("nobody-0.9", "unknown"),
        ],
    )
    def test_by_what_is_declared(self, sampler: str, expected: str) -> None:
        """Those that take tokens back, write others or change logits have no bound; nor has a name
        unknown here.
        """
        assert kind(sampler) == expected

    def test_a_policy_that_declares_nothing(self, own_policies: None) -> None:
        """It may write any tokens, so no bound is claimed."""

        @register_policy("silent")
        @dataclass(frozen=True)
        class Silent:
            def select(self, step: Step) -> Move:
                return Move(step.masked, token=torch.full_like(step.token, 3))

        assert kind("silent") == "unknown"

    @pytest.mark.parametrize(
        "name", [name for name, cls in policies().items() if traits(cls).chooses == "positions"]
    )
    def test_positions_are_chosen_whatever_is_predicted(self, name: str) -> None:
        """Other predicted tokens and confidences change nothing."""
        sampler = f"{name}-k2" if "k" in policies()[name].__dataclass_fields__ else name
        rule = resolve(sampler).policy
        step = one_step(f"{sampler}+t1.0")
        first = rule.select(replace(step, states={}))
        generator = torch.Generator().manual_seed(1)
        for _ in range(5):
            other = step.token[torch.randperm(3, generator=generator)]
            confidence = torch.rand(
                step.confidence.shape, generator=generator, dtype=step.confidence.dtype
            )
            again = rule.select(replace(step, states={}, token=other, confidence=confidence))
            assert isinstance(first, Tensor)
            assert isinstance(again, Tensor)
            assert torch.equal(first & step.masked, again & step.masked)


class TestDeclaration:
    @pytest.mark.parametrize(
        ("move", "told"),
        [
            (
                lambda step: Move(step.masked, token=(step.token + 1) % 5 + 2),
                "writes tokens other than the predicted",
            ),
            (lambda step: Move(step.masked, remask=step.inside), "remasks tokens"),
            (
                lambda step: Move(step.masked, revise=~step.masked, token=step.token),
                "revises tokens",
            ),
        ],
    )
    def test_it_is_held_to(self, move: Callable[[Step], Move], told: str) -> None:
        """A policy that declares `chooses` and does otherwise is an error that says what to do."""

        class Says:
            chooses: ClassVar[str] = "tokens"

            def cap(self, slots: int) -> int:
                return slots

            def select(self, step: Step) -> Any:
                return move(step)

        with pytest.raises(
            DecodingError, match=f"chooses = 'tokens' and {told}; leave the declaration out"
        ):
            denoise(Toy(), [Request((5,), (0,) * 4, 0)], Says(), parse("mine"))

    def test_it_excludes_others(self) -> None:
        """A policy that may write other tokens isn't one that keeps the predicted."""

        class Both:
            chooses: ClassVar[str] = "positions"
            rewrites: ClassVar[bool] = True

        with pytest.raises(ValueError, match="leave it out, or leave out rewrites"):
            traits(Both)


class TestCounterexamples:
    def test_the_page(self, own_policies: None, capsys: pytest.CaptureFixture[str]) -> None:
        """docs/theory.md: a sampler that draws tokens together is right in one step, far
        above the frontier; one that keeps one position per token reaches the frontier of its kind,
        H₁₀ = 2.93 steps.
        """
        [(code, printed)] = re.findall(
            r"```python\n([^`]*class Dealt[^`]*)```\n\n```text\n([^`]*)```", THEORY
        )
        exec(compile(code, "docs/theory.md", "exec", dont_inherit=True), {"__name__": "page"})
        assert capsys.readouterr().out == printed
        assert kind("dealt") == "own"

    def test_eb_can_lose_more_than_its_partitions(self) -> None:
        """KL above E[L_T], where the order depends on revealed tokens."""
        answers = [
            [0, 1, 0],
            [1, 0, 0],
            [1, 1, 1],
            [1, 2, 0],
            [1, 2, 1],
            [1, 2, 2],
            [2, 1, 0],
            [2, 2, 2],
        ]
        found = outcomes(Listed((*"012", EOS), torch.tensor(answers).numpy()), "eb-0.7+t1.0")
        assert found.divergence == pytest.approx(0.25)
        assert found.bits == pytest.approx(0.2276, abs=1e-4)


class TestCeilings:
    @pytest.mark.parametrize("op", ["replace_random", "insert_random", "remove_random"])
    @pytest.mark.parametrize(
        "sampler",
        [
            "entropy-k2+t1.0",
            "entropy-k3+t0.5",
            "margin-k2+b2+t1.0",
            "eb-0.4+t1.0",
            "entropy_threshold-0.5+t1.0",
        ],
    )
    def test_orders_that_ignore_drawn_tokens_are_exact(self, op: str, sampler: str) -> None:
        """At a temperature, too: equal to the whole distribution of the loop's answers."""
        answers = listed(op, 4)
        name = parse(sampler)
        assert exact(answers, of_name(name).policy, name) == pytest.approx(
            outcomes(answers, sampler).accuracy
        )

    def test_joint_draws_have_no_formula(self) -> None:
        """Dealing a shuffle's tokens out is right in one step, which independent draws almost never
        are.
        """
        sample = load_task("list_ops/shuffle", n=6, limit=1).samples
        assert ceiling(sample, "random-k6").mean < 0.02
        dealt = ceiling(sample, "random-k6+counts")
        assert (dealt.kind, dealt.mean) == ("sampled", 1.0)
        for extra in ("counts", "gap2", "adas40"):
            with pytest.raises(ValueError, match=f"leave \\+{extra} out"):
                accuracy("shuffle", 6, f"confidence-k2+{extra}")
        with pytest.raises(NotExact, match="joint draws"):
            exact(
                listed("replace_random", 4),
                resolve("random-k2+counts").policy,
                parse("random-k2+counts"),
            )

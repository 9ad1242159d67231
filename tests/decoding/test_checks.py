"""Logits and answers that break the protocol are named with what came and what is expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from pbcore.decoding import DecodingError, Move, Step, decode, denoise
from pbcore.decoding.protocol import Traits, traits
from pbcore.models.base import Context, Generation, Query, Request
from pbcore.names import parse
from tests.decoding.toys import Toy, ToyContext


@dataclass
class Changed(Toy):
    """A toy whose contexts return `change(logits)`."""

    change: Any = None

    def prepare(self, requests: Any, *, cache: str | None, seed: int) -> Context:
        inner = super().prepare(requests, cache=cache, seed=seed)
        return ChangedContext(self, inner.keys, inner.lengths)


class ChangedContext(ToyContext):
    def logits(self, query: Query) -> Tensor:
        toy: Any = self.toy
        result: Tensor = toy.change(super().logits(query), query)
        return result

    def logits_and_review(self, query: Query) -> tuple[Tensor, Tensor]:
        toy: Any = self.toy
        return super().logits(query), toy.change(self._at(query.review, []), query)  # type: ignore[arg-type]


EXPECTED = (
    r"expected a floating-point tensor of shape \(8, 12\) on cpu: a row for each masked position .*"
    r" 12 tokens"
)


class TestLogits:
    @pytest.mark.parametrize(
        ("change", "came"),
        [
            (
                lambda x, query: x.new_zeros(query.canvas.numel() + 1, 12),
                r"a float32 tensor of shape \(9, 12\) on cpu",
            ),
            (lambda x, query: x[:, :11], r"a float32 tensor of shape \(8, 11\) on cpu"),
            (lambda x, query: x[None], r"a float32 tensor of shape \(1, 8, 12\) on cpu"),
            (lambda x, query: x.long(), r"a int64 tensor of shape \(8, 12\) on cpu"),
            (lambda x, query: x.to("meta"), r"a float32 tensor of shape \(8, 12\) on meta"),
            (lambda x, query: x.tolist(), "a list"),
            (lambda x, query: None, "None"),
        ],
    )
    def test_wrong_ones(self, change: Any, came: str) -> None:
        """Shape, dtype, device and type: the error names the model, what it returned and what is
        expected.
        """
        with pytest.raises(DecodingError, match=rf"toy returned {came} as logits; {EXPECTED}"):
            decode(Changed(change=change), [[5]], "confidence-k2")

    def test_logits_of_all_canvas_positions(self) -> None:
        """They are refused where only some positions are wanted, as in a second block."""

        def everywhere(logits: Tensor, query: Query) -> Tensor:
            return logits.new_zeros(query.canvas.numel(), 12)

        with pytest.raises(
            DecodingError, match=r"shape \(8, 12\) on cpu as logits; expected .* \(4, 12\)"
        ):
            decode(Changed(change=everywhere), [[5]], "confidence-k2+b4")

    @pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
    def test_any_floating_dtype(self, kind: torch.dtype) -> None:
        """Models compute in their own dtype."""
        exact = Toy(
            lambda canvas, position, key: [
                float((position * 5 + j * 3 + key) % 7) for j in range(12)
            ]
        )
        other = Changed(exact.rule, change=lambda logits, query: logits.to(kind))
        assert [g.token_ids for g in decode(other, [[5]], "confidence-k2")] == [
            g.token_ids for g in decode(exact, [[5]], "confidence-k2")
        ]

    def test_reviews(self) -> None:
        """The second part of a forward with review is checked too."""
        toy = Changed(change=lambda logits, query: logits.new_zeros(3, 12))
        with pytest.raises(
            DecodingError, match=r"shape \(0, 12\) on cpu: a row for each revealed position"
        ):
            decode(toy, [[5]], "wino")


NONE = torch.zeros(1, 1, dtype=torch.bool)
# One slot by score, by each method of a step that takes scores.
FIRST_BY_SCORE: dict[str, Callable[[Step, Tensor], Tensor]] = {
    "best": lambda step, score: step.best(score, 1),
    "best_one": lambda step, score: step.best_one(score),
    "at_least_best": lambda step, score: step.at_least_best(NONE.expand_as(step.masked), score),
    "first": lambda step, score: step.first(score, torch.ones_like(step.slots)),
    "prefix": lambda step, score: step.prefix(score, NONE.expand_as(step.masked)),
    "rank": lambda step, score: step.rank(score) == 0,
}


@dataclass
class Answers:
    """A policy that returns `answer(step)`."""

    answer: Any
    cap: Any = None

    def select(self, step: Step) -> Any:
        return self.answer(step)


def run(policy: Any, rows: int = 3, toy: Toy | None = None) -> list[Generation]:
    toy = toy or Toy()
    requests = [Request((5,), (0,) * 4, key) for key in range(rows)]
    return denoise(toy, requests, policy, parse("mine"))


class TestAnswers:
    @pytest.mark.parametrize(
        ("answer", "came"),
        [
            (lambda step: None, "None"),
            (lambda step: step.masked.tolist(), "a list"),
            (lambda step: step.confidence, r"a float32 tensor of shape \(3, 4\) on cpu"),
            (lambda step: step.masked.long(), r"a int64 tensor of shape \(3, 4\) on cpu"),
            (lambda step: step.masked[0], r"a bool tensor of shape \(4,\) on cpu"),
            (lambda step: step.masked[:, :2], r"a bool tensor of shape \(3, 2\) on cpu"),
            (lambda step: step.masked.to("meta"), r"a bool tensor of shape \(3, 4\) on meta"),
        ],
    )
    def test_wrong_tensors(self, answer: Any, came: str) -> None:
        """The error names the policy, what it returned and what is expected."""
        expected = (
            r"expected a bool tensor of shape \(3, 4\) on cpu \(like step.masked, True where to"
            r" reveal\) or a Move"
        )
        with pytest.raises(
            DecodingError, match=rf"policy mine: select returned {came}; {expected}"
        ):
            run(Answers(answer))

    @pytest.mark.parametrize(
        ("move", "complaint"),
        [
            (
                lambda step: Move(None),
                r"Move.reveal is None; expected a bool tensor of shape (3, 4)",
            ),
            (lambda step: Move(step.masked, remask=step.token), "Move.remask is a int64 tensor"),
            (
                lambda step: Move(step.masked, revise=step.masked[:1]),
                "Move.revise is a bool tensor of shape (1, 4)",
            ),
            (
                lambda step: Move(step.masked, token=step.confidence),
                "Move.token is a float32 tensor",
            ),
            (
                lambda step: Move(step.masked, confidence=step.masked),
                "Move.confidence is a bool tensor",
            ),
            (
                lambda step: Move(step.masked, hold=step.masked),
                "expected a bool tensor of shape (3,) on cpu",
            ),
        ],
    )
    def test_wrong_moves(self, move: Any, complaint: str) -> None:
        """Each field by its name."""
        with pytest.raises(DecodingError, match=re.escape(complaint)):
            run(Answers(move))

    @pytest.mark.parametrize("token", [0, -1, 12])
    def test_tokens_that_cannot_be_written(self, token: int) -> None:
        """The mask, and ids outside the vocabulary."""
        with pytest.raises(
            DecodingError, match=rf"Move.token has {token} .* from 0 to 11 other than the mask 0"
        ):
            run(Answers(lambda step: Move(step.masked, token=torch.full_like(step.token, token))))

    def test_tokens_elsewhere_do_not_matter(self) -> None:
        """Only what is written is checked."""

        def answer(step: Step) -> Move:
            reveal = step.best_one(step.confidence)
            return Move(reveal, token=step.token.masked_fill(~reveal, -1))

        run(Answers(answer))

    @pytest.mark.parametrize("wrong", [7.0, -0.5, torch.nan, torch.inf])
    def test_confidences_that_are_none(self, wrong: float) -> None:
        """A confidence that is written is a probability; others don't matter."""

        def answer(step: Step) -> Move:
            reveal = step.best_one(step.confidence)
            return Move(reveal, confidence=step.confidence.masked_fill(reveal, wrong))

        def unused(step: Step) -> Move:
            reveal = step.best_one(step.confidence)
            return Move(reveal, confidence=step.confidence.masked_fill(~reveal, wrong))

        message = f"policy mine: Move.confidence has {wrong:g} .* a probability from 0 to 1"
        with pytest.raises(DecodingError, match=message):
            run(Answers(answer))
        run(Answers(unused))

    def test_candidates_changed_in_place(self) -> None:
        """The candidates are the loop's; a copy may be changed."""

        def changed(step: Step, masked: Tensor) -> Tensor:
            masked[:, 1::2] = False
            return step.at_least_best(masked, step.confidence)

        message = r"select changed step\.masked in place; .*step\.masked\.clone\(\)"
        with pytest.raises(DecodingError, match=f"policy mine: {message}"):
            run(Answers(lambda step: changed(step, step.masked)))
        run(Answers(lambda step: changed(step, step.masked.clone())))

    @pytest.mark.parametrize("forbidden", ["all", "even", "likely"])
    @pytest.mark.parametrize("choice", FIRST_BY_SCORE)
    def test_scores_of_minus_infinity(self, choice: str, forbidden: str) -> None:
        """They come last among the masked slots, and before every revealed one."""

        def answer(step: Step) -> Tensor:
            which = {
                "all": step.inside,
                "even": step.position % 2 == 0,
                "likely": step.confidence > 0.5,
            }[forbidden]
            reveal = FIRST_BY_SCORE[choice](step, step.confidence.where(~which, -torch.inf))
            assert torch.equal(reveal, reveal & step.masked)
            if forbidden == "even":
                good = step.masked & ~which
                assert torch.equal((reveal & good).any(-1), good.any(-1))
            return reveal

        for generation in run(Answers(answer)):
            assert sorted(generation.steps) == [0, 1, 2, 3]

    def test_one_idle_row_of_two(self) -> None:
        """A policy that reveals nothing in one row is named with that row, though the other goes
        on.
        """
        only_first = lambda step: step.masked & (step.key == 0)[:, None]
        with pytest.raises(DecodingError, match="mine revealed nothing for row 1 at step 0"):
            run(Answers(only_first), rows=2)

    @pytest.mark.parametrize("cap", [lambda slots: 0, lambda slots: None, lambda slots: 2.5])
    def test_caps(self, cap: Any) -> None:
        """A cap is a whole number of steps, at least one."""
        with pytest.raises(
            DecodingError,
            match=r"policy mine: cap\(4\) returned .*; expected .* whole number of at least 1",
        ):
            run(Answers(lambda step: step.masked, cap=cap))

    @pytest.mark.parametrize("remask", ["remdm1", "remdm1-early"])
    def test_inside_remasking(self, remask: str, own_policies: None) -> None:
        """A wrapped policy is held to the same protocol."""
        from pbcore.decoding import register_policy

        @register_policy("silent_for_a_test")
        @dataclass(frozen=True)
        class Silent:
            k: int | None = None
            reveals: ClassVar[str] = "k"

            def select(self, step: Step) -> None:
                return None

        with pytest.raises(DecodingError, match="policy silent_for_a_test: select returned None"):
            decode(Toy(), [[5]], f"silent_for_a_test-k1+{remask}")

    def test_revising_needs_a_bound(self) -> None:
        """A policy that only revises gets the default cap, with a warning, and what it writes is
        written.
        """

        def answer(step: Step) -> Move:
            reveal = step.best_one(step.confidence)
            revise = step.inside & ~step.masked
            return Move(reveal, token=step.token.masked_fill(revise, 7), revise=revise)

        toy = Toy()
        with pytest.warns(UserWarning, match="Answers remasks or revises tokens"):
            (generation,) = denoise(
                toy, [Request((5,), (0,) * 4, 0)], Answers(answer), parse("mine")
            )
        assert generation.token_ids.count(7) >= 3


class TestTraits:
    def test_defaults(self) -> None:
        """A policy needs nothing but `select`, and so does its class."""

        class Bare:
            def select(self, step: Step) -> Tensor:
                return step.masked

        assert traits(Bare()) == traits(Bare) == Traits()

    def test_what_is_declared(self) -> None:
        """Members by their names; None is the same as leaving one out."""

        class Declaring:
            review = "seen"
            rewrites = True
            reach = None
            needs = frozenset({"frequencies"})

            def cap(self, slots: int) -> int:
                return slots + 1

        declared = traits(Declaring())
        assert (declared.review, declared.rewrites, declared.reach) == ("seen", True, "block")
        assert declared.needs == {"frequencies"}
        assert declared.cap is not None
        assert declared.cap(4) == 5

    @pytest.mark.parametrize(
        ("member", "value", "complaint"),
        [
            ("review", "both", "review is 'both'; allowed: None, 'seen', 'hidden'"),
            ("reach", "all", "reach is 'all'; allowed: 'block', 'prefix'"),
            ("rewrites", "yes", "rewrites is 'yes'; allowed: False, True"),
            ("reads", "logits", "reads is 'logits'; allowed: 'distributions', 'numbers'"),
            ("cap", 4, "cap is 4; write a method cap"),
            (
                "needs",
                "frequencies",
                "needs is 'frequencies'; allowed: a set of 'attention', 'causal', 'frequencies'",
            ),
            ("needs", {"gradients"}, "needs is .*gradients"),
            ("needs", 3, "needs is 3"),
        ],
    )
    def test_values_that_are_not_allowed(self, member: str, value: Any, complaint: str) -> None:
        """Each is refused by the policy's name, with what is allowed."""
        policy = type("Odd", (), {member: value, "select": lambda self, step: step.masked})()
        with pytest.raises(ValueError, match=f"policy Odd: {complaint}"):
            run(policy)

"""What-if rows: what a policy sees of them, what is counted, what the next step reads again, and
what is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import pbcore
from pbcore.base.errors import InputError
from pbcore.decoding import DecodingError, Move, Probe, Step, decode, denoise, resolve
from pbcore.decoding.policies.top_k import Confidence
from pbcore.decoding.protocol import traits
from pbcore.decoding.sharing import ForwardStore
from pbcore.models.base import Generation
from pbcore.names import SamplerNameError, parse
from pbcore.theory.distributions import answer_distribution
from tests.ceilings.outcomes import outcomes
from tests.decoding.toys import MASK, Shareable, Toy

NAMES = ("spec", "freedave", "punt", "recheck")


@dataclass
class Asks:
    """A policy for tests: asks what `ask` says, then moves as `move` says; keeps what it was
    told.
    """

    ask: Callable[[Step], Probe]
    move: Callable[[Step], Any]
    needs: frozenset[str] = frozenset({"probe"})
    steps: list[Step] = field(default_factory=list)

    def select(self, step: Step) -> Any:
        if step.answers is None:
            return self.ask(step)
        self.steps.append(replace(step))
        return self.move(step)


def best_written(step: Step) -> Probe:
    """One what-if row for each row: its surest token written."""
    return Probe(torch.arange(len(step.masked)), step.best_one(step.confidence), step.token)


def best(step: Step) -> Tensor:
    return step.best_one(step.confidence)


def run(
    policy: Any, lengths: list[int], toy: Toy | None = None, name: str = "asks"
) -> tuple[list[Generation], Toy]:
    """Rows of some lengths under a policy."""
    toy = toy or Toy()
    requests = [toy.encode([5], length, key) for key, length in enumerate(lengths)]
    return denoise(toy, requests, policy, parse(name)), toy


class TestAnswers:
    def test_are_the_forward_of_that_canvas(self) -> None:
        """Token and probability at each mask are those of a canvas in which the tokens stand;
        elsewhere they are 0.
        """
        policy = Asks(best_written, lambda step: best(step))
        _, toy = run(policy, [4, 2])
        step = policy.steps[0]
        assert step.answers is not None
        token, confidence = step.answers.predict(step.answers.masked)
        assert step.answers.masked.tolist() == (step.masked & ~best(step)).tolist()
        assert bool((confidence > 0).eq(step.answers.masked).all())
        canvas = tuple(step.answers.canvas[0].tolist())
        logits = torch.tensor([toy.rule(canvas, i, 0) for i in range(4)])
        logits[:, MASK] = -torch.inf
        masked = step.answers.masked[0]
        assert token[0][masked].tolist() == logits.argmax(-1)[masked].tolist()
        wanted = torch.full_like(token, 3)
        given = step.answers.probability(step.answers.masked, wanted)[0]
        assert given.tolist() == pytest.approx(
            torch.where(masked, logits.softmax(-1)[:, 3], 0.0).tolist()
        )

    def test_a_mask_can_be_written(self) -> None:
        """The mask token in a what-if row masks a slot, so a written token can be asked about
        without it.
        """

        def ask(step: Step) -> Probe:
            shown = step.inside & ~step.masked
            return Probe(
                torch.arange(1),
                shown if bool(shown.any()) else best(step),
                torch.full_like(step.token, MASK),
            )

        policy = Asks(ask, best)
        run(policy, [3])
        assert policy.steps[1].answers is not None
        assert bool(policy.steps[1].answers.masked.all())


class TestCounting:
    def test_calls_and_rows(self) -> None:
        """A row takes part in a call once, however many what-if rows it has; rows count each. Full
        canvases and rows that aren't asked about count nothing.
        """

        def ask(step: Step) -> Probe:
            two = torch.tensor(
                [row for row in range(len(step.masked)) if int(step.key[row])] * 2 or [0]
            )
            return Probe(two, best(step)[two], step.token[two])

        (quiet, loud), toy = run(Asks(ask, best), [3, 3])
        assert (quiet.nfe, quiet.rows) == (3, 3)
        assert (loud.nfe, loud.rows) == (3 + 2, 3 + 2 * 2)  # the last what-if rows have no mask
        assert toy.forwards == [2, 2, 2, 2, 2]

    def test_what_is_taken_runs_once(self) -> None:
        """A row that takes a what-if row has its answers at the next step without a forward, others
        have one.
        """
        take = lambda step: Move(best(step), take=torch.where(step.key == 0, 0, -1))
        policy = Asks(best_written, take)
        (taker, other), toy = run(policy, [3, 3])
        plain = decode(Toy(), [[5], [5]], "confidence-k1", max_new_tokens=3)
        assert [one.token_ids for one in (taker, other)] == [one.token_ids for one in plain]
        assert (taker.nfe, other.nfe) == (3, 5)
        assert toy.forwards == [2, 2, 1, 2, 1]
        assert [step.nfe.tolist() for step in policy.steps] == [[0, 0], [1, 2], [2, 4]]
        assert not any(bool(step.stale.any()) for step in policy.steps)

    def test_tokens_that_were_not_in_it_are_told(self) -> None:
        """A what-if row may be taken that has fewer tokens than the move writes; the next step says
        so.
        """
        policy = Asks(
            best_written,
            lambda step: Move(
                step.first(step.confidence, torch.tensor([2])), take=torch.tensor([0])
            ),
        )
        (one,), _ = run(policy, [4])
        assert [step.stale.tolist() for step in policy.steps] == [[False], [True]]
        assert (one.nfe, one.steps.count(0), one.steps.count(1)) == (3, 2, 2)

    def test_into_the_next_block(self) -> None:
        """A what-if row that fills its block predicts the next one."""
        policy = Asks(
            best_written, lambda step: Move(best(step), take=torch.arange(len(step.masked)))
        )
        answers, _ = run(policy, [4, 2], name="asks+b2")
        plain = denoise(
            Toy(),
            [Toy().encode([5], n, key) for key, n in enumerate((4, 2))],
            Confidence(1),
            parse("k+b2"),
        )
        assert answers == plain


class TestErrors:
    @pytest.mark.parametrize(
        ("ask", "move", "complaint"),
        [
            (
                lambda step: Probe(torch.tensor([2]), step.masked[:1], step.token[:1]),
                best,
                "the step has rows 0 to 1",
            ),
            (
                lambda step: Probe(torch.tensor([0.0]), step.masked[:1], step.token[:1]),
                best,
                r"row is a float32",
            ),
            (
                lambda step: Probe(torch.tensor([0]), step.masked, step.token[:1]),
                best,
                r"write is a bool tensor",
            ),
            (
                lambda step: Probe(torch.tensor([0]), ~step.masked[:1], step.token[:1]),
                lambda step: Probe,
                "returned a",
            ),
            (best_written, best_written, "asked about what-if rows 4 times in one step"),
            (
                best_written,
                lambda step: Move(best(step), take=torch.tensor([1, 0])),
                "one of its own what-if rows",
            ),
            (
                best_written,
                lambda step: Move(best(step), take=torch.tensor([0, 2])),
                "one of its own what-if rows",
            ),
            (
                best_written,
                lambda step: Move(step.best_one(-step.confidence), take=torch.tensor([0, 1])),
                "tokens that the move doesn't write",
            ),
        ],
    )
    def test_of_policies(self, ask: Any, move: Any, complaint: str) -> None:
        """What breaks the protocol is named."""
        with pytest.raises(DecodingError, match=complaint):
            run(Asks(ask, move), [3, 3])

    def test_padding_is_out_of_bounds(self) -> None:
        """A what-if row can't write slots that its row doesn't have."""
        everywhere = lambda step: Probe(torch.arange(2), torch.ones_like(step.masked), step.token)
        with pytest.raises(DecodingError, match="outside of"):
            run(Asks(everywhere, best), [3, 2])

    def test_asking_is_declared(self) -> None:
        """A Probe, or a taken row, of a policy that doesn't ask is an error."""
        with pytest.raises(DecodingError, match="declare needs"):
            run(Asks(best_written, best, needs=frozenset()), [3])
        policy = type(
            "Takes", (), {"select": lambda self, step: Move(best(step), take=torch.tensor([0]))}
        )()
        with pytest.raises(DecodingError, match="none were asked about"):
            run(policy, [3])

    def test_bad_logits_are_found_in_what_if_rows(self) -> None:
        """NaN in a what-if row is an error at once, with model and row."""
        toy = Toy(lambda canvas, i, key: [0.0, float("nan") if any(canvas) else 0.0, *[1.0] * 10])
        with pytest.raises(DecodingError, match=r"toy gave logits that are NaN.* prompt 0"):
            decode(toy, [[5]], "spec-8-sure2")


class TestRefusals:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("cache", ["prefix", "dual"])
    def test_caches(self, name: str, cache: str) -> None:
        """A KV cache holds one canvas for each row."""
        with pytest.raises(
            ValueError, match=f"a KV cache holds one canvas for each row; leave \\+{cache} out"
        ):
            decode(Toy(), [[5]], f"{name}+b4+{cache}")

    @pytest.mark.parametrize(
        "with_it", [{"review": "seen"}, {"part": 2}, {"needs": frozenset({"probe", "mask"})}]
    )
    def test_what_a_policy_may_not_declare_beside(self, with_it: dict[str, Any]) -> None:
        """What one forward gives beside logits isn't there for a forward read again."""
        declared = type("Both", (), {"needs": frozenset({"probe"}), **with_it})
        with pytest.raises(ValueError, match=r"what-if rows .* don't go together with"):
            traits(declared)

    def test_remasking(self, own_policies: None) -> None:
        """A policy of k tokens a step that asks checks its tokens itself."""

        @pbcore.register_policy("asking")
        @dataclass(frozen=True)
        class Asking:
            k: int | None = None
            needs: ClassVar[frozenset[str]] = frozenset({"probe"})
            reveals: ClassVar[str] = "k"

            def select(self, step: Step) -> Tensor:
                return step.masked

        with pytest.raises(SamplerNameError, match=r"by what-if rows; leave \+remdm out"):
            resolve("asking-k2+remdm1")

    def test_enumeration(self) -> None:
        """The exact law of answers isn't enumerated for samplers that ask."""
        distribution = answer_distribution(
            pbcore.load_task("list_ops/shuffle", n=3, limit=1).samples[0]
        )
        for sampler in ("spec-8", "threshold-0+counts"):
            with pytest.raises(InputError, match="enumerat"):
                outcomes(distribution, sampler)

    def test_stores(self) -> None:
        """A store of forwards doesn't answer for them: they decode as without one, with the same
        counts.
        """
        toy = Shareable()
        store = ForwardStore(toy)
        assert decode(toy, [[5]] * 3, "freedave-4", store=store) == decode(
            toy, [[5]] * 3, "freedave-4"
        )
        assert (store.shared, store.computed) == (0, 0)


class TestAnOutsidersPolicy:
    def test_asks_about_pairs(self, own_policies: None) -> None:
        """A policy with slots of its own, two what-if rows a row and no `take`, in a batch of
        unequal rows.
        """

        @pbcore.register_policy("pair_for_a_test")
        @dataclass(frozen=True)
        class Pair:
            """Reveals the two surest if the second keeps its token once the first is written, else
            the first.
            """

            needs: ClassVar[frozenset[str]] = frozenset({"probe"})

            def select(self, step: Step) -> Tensor | Probe:
                first = step.best_one(step.confidence)
                second = step.masked & (step.rank(step.confidence) == 1)
                if step.answers is None:
                    return Probe(torch.arange(len(first)), first, step.token)
                token, _ = step.answers.predict(second)
                return first | (second & (token == step.token))

        prompts = [[5, -1, *[MASK] * length, *[2] * (6 - length)] for length in (2, 6, 4)]
        answers = decode(Toy(), prompts, "pair_for_a_test")
        assert answers == decode(Toy(), prompts, "pair_for_a_test", batch_size=1)
        assert all(one.rows == one.nfe for one in answers)

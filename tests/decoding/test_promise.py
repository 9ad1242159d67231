"""The promise `reveals = "k"`, and what follows from it and from its absence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass, replace
from typing import Any, ClassVar

import pytest
from torch import Tensor

import pbcore
from pbcore.decoding import Move, Step
from pbcore.decoding.checks import DecodingError
from pbcore.decoding.engine import denoise
from pbcore.decoding.policies import policies
from pbcore.decoding.protocol import fixed_count, traits
from pbcore.decoding.run import decode
from pbcore.decoding.samplers import is_static, of_name, resolve
from pbcore.models.base import Request
from pbcore.names import SamplerNameError, parse
from tests.decoding.toys import Toy


@dataclass(frozen=True)
class Surest:
    """The k surest: what `confidence` does."""

    k: int | None = None
    reveals: ClassVar[str] = "k"
    chooses: ClassVar[str] = "tokens"

    def select(self, step: Step) -> Tensor:
        return step.best(step.confidence, self.k)


@dataclass(frozen=True)
class Doubling(Surest):
    """Twice as many with each step."""

    def select(self, step: Step) -> Tensor:
        count = (self.k or 1) * 2 ** step.index.clamp(max=6)
        return step.masked & (step.rank(step.confidence) < count[:, None])


@dataclass(frozen=True)
class Apart:
    """At most k, never two neighbours; it promises nothing."""

    k: int = 2

    def select(self, step: Step) -> Tensor:
        reveal = step.best(step.confidence, self.k)
        reveal[:, 1:] &= ~reveal[:, :-1]
        return step.at_least_best(reveal, step.confidence)


ROW = Request((5,), (0,) * 8, 0)


@pytest.fixture
def own(own_policies: None) -> None:
    """The policies above under their names."""
    for cls in (Surest, Doubling, Apart):
        pbcore.register_policy(cls.__name__.lower())(cls)


@dataclass(frozen=True)
class Answering(Surest):
    """Declares k tokens a step and does what a test says."""

    answer: Callable[[Step], Tensor | Move] = lambda step: step.masked

    def select(self, step: Step) -> Any:
        return self.answer(step)


def run(answer: Callable[[Step], Tensor | Move], rows: int = 1) -> None:
    """Decodes eight masks a row by a policy that promises three a step."""
    requests = [Request((5,), (0,) * 8, key) for key in range(rows)]
    denoise(Toy(), requests, Answering(3, answer=answer), parse("answering-k3"))


def same_as_confidence(modifiers: str) -> None:
    """Rows of unequal length decode as the package's own policy does."""
    requests = [Request((5,), (0,) * length, length) for length in (4, 8, 12)]
    answers = []
    for name in (parse(f"surest{modifiers}"), parse(f"confidence{modifiers}")):
        answers.append(denoise(Toy(), requests, of_name(name).policy, name))
    assert answers[0] == answers[1]


class TestDeclared:
    def test_by_the_package(self) -> None:
        """Its policies with k tokens a step, and no others."""
        static = {name for name, cls in policies().items() if is_static(cls)}
        assert static == {"random", "left_to_right", "confidence", "margin", "entropy", "pc"}
        assert all(traits(cls).reveals in (None, "k") for cls in policies().values())

    def test_a_field_named_k_is_a_plain_parameter(self, own: None) -> None:
        """Without the declaration a policy decides itself, needs no number and has no fixed k."""
        assert not is_static(Apart)
        assert (fixed_count(Apart(3)), resolve("apart-k3").k) == (None, None)
        assert str(resolve("apart")) == "apart-k2"
        assert (fixed_count(Surest(3)), resolve("surest-k3").k) == (3, 3)
        assert resolve("surest+linear4").k is None

    @pytest.mark.parametrize("modifier", ["linear4", "cosine4", "s2_1", "rcr", "rcr-max", "remdm1"])
    def test_what_needs_it_names_it(self, modifier: str, own: None) -> None:
        """Schedules and remasking are refused for a policy with a field k alone."""
        with pytest.raises(SamplerNameError, match="declare reveals = 'k'"):
            resolve(f"apart+{modifier}")

    def test_rcr_replaces_confidence_alone(self, own_policies: None) -> None:
        """A subclass of `confidence` may choose in another way, which RCR would leave out."""
        confidence = policies()["confidence"]

        @pbcore.register_policy("surer")
        @dataclass(frozen=True)
        class Surer(confidence):  # type: ignore[valid-type,misc]
            pass

        with pytest.raises(SamplerNameError, match="goes with confidence-kN, not surer"):
            resolve("surer-k2+rcr")

    @pytest.mark.parametrize("value", ["q", "K", "", 1, True])
    def test_another_value(self, value: Any) -> None:
        """Only `k` can be declared."""
        with pytest.raises(ValueError, match=r"reveals is .*; allowed: None, 'k'"):
            traits(type("Odd", (Surest,), {"reveals": value}))

    def test_without_a_parameter_k(self) -> None:
        """The number that it promises must be one of its parameters."""
        without = make_dataclass("Without", [("n", int)], namespace={"reveals": "k"}, frozen=True)
        with pytest.raises(ValueError, match="no parameter k"):
            traits(without)
        with pytest.raises(ValueError, match="no parameter k"):
            traits(without(2))

    def test_with_a_cap(self) -> None:
        """A cap is for policies that may reveal nothing or take tokens back."""
        both = type("Both", (Surest,), {"cap": lambda self, slots: slots})
        with pytest.raises(ValueError, match="has a cap"):
            traits(both)

    def test_k_is_whole(self, own_policies: None) -> None:
        """Half a token can't be revealed."""
        fields: list[Any] = [("k", float)]
        half = make_dataclass("Half", fields, bases=(Surest,), frozen=True)
        pbcore.register_policy("half")(half)
        with pytest.raises(SamplerNameError, match="tokens per step, at least 1"):
            resolve("half-k1.5")


class TestChecked:
    def test_another_number(self, own: None) -> None:
        """The error names the step from 1, the count, k and the answer."""
        said = (
            r"doubling declares reveals = 'k' and revealed 2 tokens at step 2 of .*, where k is 1"
        )
        with pytest.raises(DecodingError, match=said):
            decode(Toy(), [[5]], "doubling-k1")

    @pytest.mark.parametrize(
        "modifiers", ["gap2", "counts", "eos_last", "b4", "b4+prefix", "eos_stop", "t1.0+rounding"]
    )
    def test_under_modifiers(self, modifiers: str, own: None) -> None:
        """What stands around a policy doesn't hide what it does."""
        with pytest.raises(DecodingError, match="declares reveals = 'k' and revealed 2"):
            decode(Toy(), [[5]], f"doubling-k1+{modifiers}")

    def test_in_another_order(self) -> None:
        """Nor does another order of the candidates."""
        name = parse("confidence-k1+adas40")
        around: Any = of_name(name).policy
        with pytest.raises(DecodingError, match="declares reveals = 'k' and revealed 2"):
            denoise(Toy(), [ROW], replace(around, policy=Doubling(1)), name)

    def test_none_at_all(self) -> None:
        """Waiting breaks the promise, too."""
        with pytest.raises(DecodingError, match="revealed 0 tokens at step 1"):
            run(lambda step: step.masked & False)

    def test_fewer_than_the_masks_left(self) -> None:
        """The last step reveals all that is left: one of two breaks the promise."""

        def select(step: Step) -> Tensor:
            rank = step.rank(step.confidence)
            last = step.masked.sum(-1, keepdim=True) < 3
            return step.masked & (rank < 3) & ~(last & (rank > 0))

        said = "revealed 1 tokens at step 3 of .*, where k is 3 and 2 masks are left"
        with pytest.raises(DecodingError, match=said):
            run(select)

    def test_another_number_than_the_schedule_s(self, own: None) -> None:
        """Beside a schedule its count is promised."""
        said = "revealed 1 tokens at step 1 of .*, where the count of this step is 4"
        with pytest.raises(DecodingError, match=said):
            decode(Toy(), [[5]], "doubling+s4_4")

    def test_one_row_of_two(self) -> None:
        """The row that breaks it is named, though the other keeps it."""

        def select(step: Step) -> Tensor:
            count = 3 - (step.key == 1).long()  # (R,)
            return step.masked & (step.rank(step.confidence) < count[:, None])

        with pytest.raises(DecodingError, match="revealed 2 tokens at step 1 of prompt 1,"):
            run(select, rows=2)

    @pytest.mark.parametrize("field", ["remask", "revise", "hold"])
    def test_taking_back(self, field: str) -> None:
        """A policy with the promise only reveals."""

        def select(step: Step) -> Move:
            none = step.index < 0 if field == "hold" else step.masked & False
            fields: dict[str, Any] = {field: none}
            return Move(step.best(step.confidence, 3), **fields)

        with pytest.raises(DecodingError, match=rf"returned Move\.{field}"):
            run(select)


class TestKept:
    @pytest.mark.parametrize(
        "modifiers",
        [
            "-k1",
            "-k3",
            "-k20",
            "-k3+b4",
            "-k3+b4+prefix",
            "-k3+b4+dual",
            "+linear3",
            "+linear20",
            "+cosine5",
            "+s0_3_0_2",
            "+s1_2+b4",
            "-k3+eos_stop",
            "-k3+eos_last",
            "-k3+no_early_eos",
            "-k3+gap2",
            "-k3+counts",
            "-k3+remdm2",
            "-k3+remdm2-early+b4",
            "+linear3+remdm2",
            "-k3+t1.0",
        ],
    )
    def test_by_one_that_keeps_it(self, modifiers: str, own: None) -> None:
        """Last steps, ends of blocks and rows, schedules and modifiers that change counts break no
        promise: an honest policy decodes as `confidence` does.
        """
        same_as_confidence(modifiers)

"""Sampler names against registered policies."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from torch import Tensor

from pbcore.decoding import decode, register_policy, resolve
from pbcore.decoding.policies import policies
from pbcore.decoding.policies.factor import Factor
from pbcore.decoding.samplers import policy
from pbcore.decoding.step import Step
from pbcore.names import SamplerNameError, parse
from tests.decoding.toys import Toy


class TestResolve:
    def test_parameters_reach_the_policy(self) -> None:
        """Bare numbers fill parameters in order, words name theirs, switches need no number."""
        assert policy(parse("factor-0.7")) == Factor(0.7)
        assert policy(parse("factor-f1.3-ref")) == Factor(1.3, ref=True)

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("confidense-k2", "did you mean confidence"),
            ("confidence", "how many tokens a step"),
            ("confidence-k0", "at least 1"),
            ("confidence-k2+linear4", "give one of them"),
            ("confidence-k1.5", "whole number"),
            ("confidence-q2", "its parameters: k<int>"),
            ("threshold-1.5", r"probability in \[0, 1\]"),
            ("threshold-0.9+linear4", "decides itself"),
            ("factor-1.0-ref2", "takes no number"),
        ],
    )
    def test_complaints(self, text: str, complaint: str) -> None:
        """What can't be built says why and what is allowed."""
        with pytest.raises(SamplerNameError, match=complaint):
            resolve(text)


class TestRegister:
    def test_a_users_policy(self) -> None:
        """A registered dataclass decodes under its name at once."""

        @register_policy("rightmost_for_a_test")
        @dataclass(frozen=True)
        class Rightmost:
            k: int = 1

            def select(self, step: Step) -> Tensor:
                return step.best(step.position.double(), self.k)

        (generation,) = decode(Toy(), [[5]], "rightmost_for_a_test-k2")
        assert generation.steps == (3, 3, 2, 2, 1, 1, 0, 0)

    def test_refusals(self) -> None:
        """A taken name, an odd name and a class that can't be a policy are refused."""
        with pytest.raises(ValueError, match="already"):
            register_policy("confidence")(Factor)
        with pytest.raises(ValueError, match="lower-case"):
            register_policy("My-Policy")(Factor)
        with pytest.raises(TypeError, match="select"):
            register_policy("number")(int)

    def test_every_policy_has_its_paper(self) -> None:
        """Each built-in policy's docstring states its rule."""
        assert all(len(cls.__doc__ or "") > 40 for cls in policies().values() if cls.__module__.startswith("pbcore."))


class TestOneName:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("threshold", "threshold-0.9"), ("klass", "klass-0.9"), ("klass-0.9-kl0.01", "klass-0.9"), ("dus", "dus-2"),
            ("klass-0.9-kl0.02-history2", "klass-0.9-kl0.02"), ("factor-ref", "factor-1.0-ref"), ("joint", "joint-0.5"),
            ("confidence+linear8", "confidence+linear8"), ("pc-k2-0.25", "pc-k2"), ("pc-k2-0.5", "pc-k2-0.5"),
            ("random-k2+t0.1234567", "random-k2+t0.1234567"), ("random-k2+t0.00001", "random-k2+t0.00001"), ("random-k2+t2", "random-k2+t2.0"),
        ],
    )  # fmt: skip
    def test_defaults_are_written_in_one_way(self, text: str, name: str) -> None:
        """A policy alone and the policy with its defaults are one sampler; every digit of a temperature stays; the name is a fixed point."""
        assert str(resolve(text)) == name
        assert str(resolve(name)) == name
        assert policy(parse(text)) == policy(parse(name))

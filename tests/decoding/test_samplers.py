"""Sampler names against registered policies."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, dataclass

import pytest
from torch import Tensor

from pbcore.decoding import decode, register_policy, resolve
from pbcore.decoding.checks import DecodingError
from pbcore.decoding.policies import policies
from pbcore.decoding.policies.thresholds import Factor
from pbcore.decoding.step import Step
from pbcore.names import SamplerNameError
from tests.decoding.toys import Toy

PROBABILITIES = [
    ("threshold", "gamma"),
    ("wino", "gamma"),
    ("wino", "back"),
    ("t2m", "gamma"),
    ("t2m", "theta"),
    ("t2m", "ratio"),
    ("joint", "gamma"),
    ("joint", "edit"),
    ("sdar_dynamic", "gamma"),
    ("llada2", "gamma"),
    ("fast_dllm_v2", "gamma"),
    ("stable_diffcoder_threshold", "gamma"),
    ("klass", "gamma"),
    ("less", "gamma"),
    ("s2d2", "gamma"),
    ("credit", "gamma"),
    ("credit", "beta"),
    ("slowfast", "gamma"),
    ("slowfast", "low"),
]
WRONG: list[tuple[str, dict[str, float]]] = [
    *((name, {parameter: value}) for name, parameter in PROBABILITIES for value in (-0.01, 1.01)),
    ("factor", {"f": 0.0}),
    ("entropy_threshold", {"epsilon": -0.01}),
    ("saber", {"n": 0}),
    ("factor", {"f": -1.0}),
    ("eb", {"gamma": -0.01}),
    ("dus", {"base": 1}),
    ("origin", {"steps": 0}),
    ("sdar_static", {"steps": 0}),
    ("sdar_dynamic", {"steps": 0}),
    ("sdar_sequential", {"steps": 0}),
    ("llada2", {"steps": 0}),
    ("fast_dllm_v2", {"part": 0}),
    ("joint", {"least": 0}),
    ("spec", {"rows": 0}),
    ("freedave", {"drafts": 0}),
    ("punt", {"epsilon": -0.1}),
    ("recheck", {"most": 0}),
    ("recheck_shadow", {"gap": 0}),
    ("klass", {"kl": 0.0}),
    ("less", {"jsd": -0.1}),
    ("less", {"history": 1}),
    ("less", {"top": 0}),
    ("s2d2", {"span": 0}),
    ("klass", {"history": 0}),
    ("slowfast", {"steps": 1}),
    ("pc", {"lam": -0.1}),
    ("pc", {"alpha": 0.0}),
    ("hierarchy", {"gamma": 1.01}),
    ("hierarchy", {"low": 0.91}),
    ("hierarchy", {"low": -0.01}),
    ("localleap", {"gamma": 1.01}),
    ("localleap", {"relaxed": 0.91}),
    ("localleap", {"relaxed": -0.01}),
]
ENDS: list[tuple[str, dict[str, float]]] = [
    *((name, {parameter: value}) for name, parameter in PROBABILITIES for value in (0.0, 1.0)),
    ("eb", {"gamma": 0.0}),
    ("dus", {"base": 2}),
    ("origin", {"steps": 1}),
    ("klass", {"history": 1}),
    ("less", {"history": 2, "jsd": 0.0}),
    ("slowfast", {"steps": 2}),
    ("pc", {"lam": 0.0}),
    ("hierarchy", {"gamma": 1.0, "low": 0.0}),
    ("hierarchy", {"low": 0.9}),
    ("localleap", {"gamma": 1.0, "relaxed": 0.0}),
    ("localleap", {"relaxed": 0.9}),
]


class TestResolve:
    def test_parameters_reach_the_policy(self) -> None:
        """Bare numbers fill parameters in order, words name theirs, switches need no number."""
        assert resolve("factor-0.7").policy == Factor(0.7)
        assert resolve("factor-f1.3-ref").policy == Factor(1.3, ref=True)

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("confidense-k2", "did you mean confidence"),
            ("confidence-k1.5", "whole number"),
            ("confidence-q2", "its parameters: k<int>"),
            ("threshold-1.5", r"probability in \[0, 1\]"),
            ("factor-1.0-ref2", "takes no number"),
        ],
    )
    def test_complaints(self, text: str, complaint: str) -> None:
        """What can't be built says why and what is allowed."""
        with pytest.raises(SamplerNameError, match=complaint):
            resolve(text)


class TestRegister:
    def test_a_users_policy(self, own_policies: None) -> None:
        """A registered dataclass decodes under its name at once."""

        @register_policy("rightmost_for_a_test")
        @dataclass(frozen=True)
        class Rightmost:
            k: int = 1

            def select(self, step: Step) -> Tensor:
                return step.best(step.position.double(), self.k)

        (generation,) = decode(Toy(), [[5]], "rightmost_for_a_test-k2")
        assert generation.steps == (3, 3, 2, 2, 1, 1, 0, 0)

    def test_a_plain_class(self, own_policies: None) -> None:
        """It becomes a frozen dataclass, whose fields are parameters."""

        @register_policy("plain_for_a_test")
        class Plain:
            k: int = 1

            def select(self, step: Step) -> Tensor:
                return step.best(step.position.double(), self.k)

        assert resolve("plain_for_a_test-k3").policy == Plain(3)
        with pytest.raises(FrozenInstanceError):
            Plain(3).k = 4  # type: ignore[misc]

    def test_a_dataclass_that_is_not_frozen(self, own_policies: None) -> None:
        """One object decodes all answers, so that what it keeps of one would reach the others."""

        @dataclass
        class Forgetful:
            k: int = 1

            def select(self, step: Step) -> Tensor:
                return step.best(step.confidence, self.k)

        with pytest.raises(TypeError, match=r"frozen=True.*step\.state"):
            register_policy("forgetful_for_a_test")(Forgetful)

    def test_a_policy_that_changes_itself(self, own_policies: None) -> None:
        """The error says where state belongs."""

        @register_policy("changing_for_a_test")
        class Changing:
            k: int = 1

            def select(self, step: Step) -> Tensor:
                self.last = step.confidence
                return step.best(step.confidence, self.k)

        with pytest.raises(DecodingError, match=r"cannot assign.*step\.state\(name, fill\)"):
            decode(Toy(), [[5]], "changing_for_a_test")

    def test_a_class_with_an_init_of_its_own(self, own_policies: None) -> None:
        """It can't be made a dataclass, whose fields are a policy's parameters."""

        class Own:
            def __init__(self, k: int = 1) -> None:
                self.k = k

            def select(self, step: Step) -> None:
                raise NotImplementedError

        with pytest.raises(TypeError, match="Own must be a dataclass"):
            register_policy("own_for_a_test")(Own)

    def test_refusals(self) -> None:
        """A taken name, an odd name and a class that can't be a policy are refused."""
        with pytest.raises(ValueError, match="already"):
            register_policy("confidence")(Factor)
        with pytest.raises(ValueError, match="lower-case"):
            register_policy("My-Policy")(Factor)
        with pytest.raises(
            ValueError, match=r"look 0 of 'new_for_a_test' is that of '\w+'; \d+ is"
        ):
            register_policy("new_for_a_test", 0)(Factor)
        with pytest.raises(TypeError, match="select"):
            register_policy("number")(int)

    def test_every_policy_has_its_paper(self) -> None:
        """Each built-in policy's docstring cites the paper that its rule comes from, or says that
        it is told by code alone.
        """
        for name, cls in policies().items():
            about = " ".join((cls.__doc__ or "").split())
            cited = re.findall(r"arXiv (\d{4}\.\d{5})(?!\d)", about)
            assert len(cited) + ("No paper tells the rule" in about) == 1, name

    def test_a_policy_of_one_test_is_gone_after_it(self) -> None:
        """Policies that tests register are not there for other tests."""
        assert {cls.__module__.split(".")[0] for cls in policies().values()} == {"pbcore"}


class TestParameters:
    @pytest.mark.parametrize(("name", "parameters"), WRONG)
    def test_out_of_range(self, name: str, parameters: dict[str, float]) -> None:
        """A parameter outside its range is refused, and so it is by name."""
        cls = policies()[name]
        with pytest.raises(ValueError, match=rf"not |{name} needs"):
            cls(**parameters)
        (value,) = parameters.values()
        if value >= 0:
            (word,) = parameters
            with pytest.raises(SamplerNameError, match=f"sampler {name}-{word}"):
                resolve(f"{name}-{word}{value}")

    @pytest.mark.parametrize(("name", "parameters"), ENDS)
    def test_ends_of_the_range(self, name: str, parameters: dict[str, float]) -> None:
        """The first and the last value allowed are taken."""
        cls = policies()[name]
        made = cls(**parameters)
        assert all(getattr(made, key) == value for key, value in parameters.items())


class TestOneName:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("threshold", "threshold-0.9"),
            ("klass", "klass-0.9"),
            ("klass-0.9-kl0.01", "klass-0.9"),
            ("dus", "dus-2"),
            ("klass-0.9-kl0.02-history2", "klass-0.9-kl0.02"),
            ("factor-ref", "factor-1.0-ref"),
            ("joint", "joint-0.5"),
            ("confidence+linear8", "confidence+linear8"),
            ("pc-k2-0.25", "pc-k2"),
            ("pc-k2-0.5", "pc-k2-0.5"),
            ("random-k2+t0.1234567", "random-k2+t0.1234567"),
            ("random-k2+t0.00001", "random-k2+t0.00001"),
            ("random-k2+t2", "random-k2+t2.0"),
        ],
    )
    def test_defaults_are_written_in_one_way(self, text: str, name: str) -> None:
        """A policy alone and with its defaults are one sampler, every digit of a temperature stays,
        and the name is a fixed point.
        """
        assert str(resolve(text)) == name
        assert str(resolve(name)) == name
        assert resolve(text).policy == resolve(name).policy

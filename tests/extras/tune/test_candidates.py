"""The samplers that race, and the neighbours of those in front."""

from __future__ import annotations

from typing import Annotated

import pytest

from pbcore.base.errors import InputError
from pbcore.base.lazy_torch import Tensor
from pbcore.decoding import register_policy, resolve
from pbcore.decoding.policies import policies
from pbcore.decoding.policies.registry import POLICIES, Span
from pbcore.decoding.step import Step
from pbcore.extras.tune.candidates import Field, field_of, neighbours, runnable
from pbcore.grid.settings import Settings

TASKS = ["waiting_line/shuffle", "waiting_line/copy"]


def field(model: str = "ideal", *chosen: str, tasks: list[str] | None = None) -> Field:
    return field_of(Settings.of(model=(model,)), tasks or TASKS, [32], chosen)


@pytest.fixture
def own_policy(monkeypatch: pytest.MonkeyPatch) -> str:
    """A policy of a user, with a span."""
    monkeypatch.setattr(POLICIES, "_registered", dict(POLICIES.all()))

    @register_policy("mine_tuned")
    class Mine:
        """Reveals all confidence of at least gamma."""

        gamma: Annotated[float, Span(0.6, 0.96, "rest")] = 0.9

        def select(self, step: Step) -> Tensor:
            return step.at_least_best(step.confidence >= self.gamma, step.confidence)

    return "mine_tuned"


class TestField:
    def test_every_policy_is_there(self) -> None:
        """Each registered policy is among the candidates or left out for a reason; names are
        canonical and once.
        """
        all_ = field("tiny")
        named = {str(resolve(name)) for name in all_.candidates}
        assert named == set(all_.candidates)
        assert len(all_.candidates) == len(set(all_.candidates))
        assert {name.partition("-")[0].partition("+")[0] for name in named} >= {"threshold", "eb"}
        assert all_.reference == "confidence-k1"
        assert all_.reference not in all_.candidates
        assert set(policies()) <= {resolve(name).name.policy for name in all_.candidates}

    def test_what_the_model_cannot_run_is_left_out(self) -> None:
        """A cache of a model without attention, with the reason and the number."""
        reasons = field().left_out
        assert any("nothing to cache" in reason for reason in reasons)
        assert not any("prefix" in name for name in field().candidates)

    def test_chosen(self) -> None:
        """A policy's name stands for all its candidates, a whole name for itself."""
        assert field("ideal", "threshold").candidates == (
            "threshold-0.9",
            "threshold-0.5",
            "threshold-0.98",
        )
        assert field("ideal", "confidence-k2", "eb-0.3").candidates == ("confidence-k2", "eb-0.3")
        assert field("ideal", "margin").candidates == ("margin-k2", "margin-k4", "margin-k8")

    def test_of_a_user(self, own_policy: str) -> None:
        """A user's policy races with the values that it declares, without more code."""
        assert field("ideal", own_policy).candidates == (
            "mine_tuned-0.9",
            "mine_tuned-0.6",
            "mine_tuned-0.96",
        )

    @pytest.mark.parametrize(
        ("chosen", "told"),
        [
            ("thresold", "--samplers: unknown policy 'thresold'.*did you mean threshold"),
            ("threshold-k2", "--samplers: .*has no parameter 'k2'"),
            ("threshold-0.9+prefix", "ideal can run none of the samplers to choose from: .*cache"),
        ],
    )
    def test_bad_names(self, chosen: str, told: str) -> None:
        """One line says what is wrong."""
        with pytest.raises(InputError, match=told):
            field("ideal", chosen)


class TestNeighbours:
    def test_halfway(self) -> None:
        """Between a value and its neighbours on the scale, in few digits, within the policy's own
        other parameters and modifiers alone.
        """
        known = ["threshold-0.5", "threshold-0.9", "threshold-0.98", "threshold-0.99+counts"]
        assert neighbours("threshold-0.9", known) == ["threshold-0.78", "threshold-0.955"]
        assert neighbours("threshold-0.98", known) == ["threshold-0.955"]
        assert neighbours("threshold-0.99+counts", known) == []

    def test_of_whole_numbers(self) -> None:
        """k lies between two others; where nothing lies between, nothing is new."""
        known = ["confidence-k2", "confidence-k4", "confidence-k8"]
        assert neighbours("confidence-k4", known) == ["confidence-k3", "confidence-k6"]
        assert (
            neighbours("confidence-k3", ["confidence-k2", "confidence-k3", "confidence-k4"]) == []
        )

    def test_modifiers_stay(self) -> None:
        known = ["eb-0.1+b8", "eb-0.01+b8", "eb-3.0"]
        assert neighbours("eb-0.1+b8", known) == ["eb-0.032+b8"]

    def test_never_one_that_raced(self) -> None:
        """A neighbour that is known is not new."""
        known = ["threshold-0.5", "threshold-0.9", "threshold-0.78"]
        assert neighbours("threshold-0.9", known) == ["threshold-0.85"]


def test_runnable_on_all_tasks() -> None:
    """A block that doesn't divide one task's answers leaves the sampler out of all."""
    settings = Settings.of(model=("ideal",))
    names = ["threshold-0.9", "threshold-0.9+b32", "threshold-0.9+b24"]
    runs, reasons = runnable(settings, TASKS, names)
    assert runs == ["threshold-0.9", "threshold-0.9+b32"]
    assert "don't divide" in reasons["threshold-0.9+b24"]


class TestSpan:
    def test_ends_and_middle(self) -> None:
        """Three values are both ends and the middle of the scale."""
        assert Span(0.0, 1.0).spread(3) == pytest.approx([0, 0.5, 1])
        assert Span(0.01, 1.0, "log").spread(3) == pytest.approx([0.01, 0.1, 1])
        assert Span(0.5, 0.98, "rest").spread(3) == pytest.approx([0.5, 0.9, 0.98])

    @pytest.mark.parametrize("scale", ["linear", "log", "rest"])
    def test_between(self, scale: str) -> None:
        """The middle lies between, whichever is named first."""
        span = Span(0.1, 0.9, scale)  # type: ignore[arg-type]
        assert 0.2 < span.between(0.2, 0.8) < 0.8
        assert span.between(0.2, 0.8) == pytest.approx(span.between(0.8, 0.2))

    @pytest.mark.parametrize("span", [(1.0, 0.5), (0.0, 1.0, "log"), (0.5, 1.0, "rest")])
    def test_refused(self, span: tuple[object, ...]) -> None:
        with pytest.raises(InputError, match="low lies below high"):
            Span(*span)  # type: ignore[arg-type]

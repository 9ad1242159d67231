"""Ceilings against decoding with `ideal`, closed forms and each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import make_dataclass, replace
from typing import Any

import pytest
from scipy.stats import binomtest, fisher_exact
from torch import Tensor

from pbcore.ceilings.ceiling import NoCeiling, ceiling, exact
from pbcore.decoding import Move, Step, register_policy
from pbcore.decoding.policies.registry import POLICIES
from pbcore.decoding.run import decode
from pbcore.decoding.samplers import of_name
from pbcore.models.ideal import Ideal
from pbcore.names import parse
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.registry import load_task
from pbcore.tasks.words import tokens
from pbcore.theory import accuracy, answer_distribution
from pbcore.theory.problems import NotExact


@pytest.fixture(scope="module")
def model() -> Ideal:
    return Ideal()


def shortened(name: str, n: int | None) -> Task:
    """A task's first question; its canvas has as many eights of tokens as hold the answer and three
    EOS.
    """
    task = load_task(name, n=n, limit=1)
    sample = task.samples[0]
    if sample.canvas is not None:
        return task
    assert sample.answer is not None
    length = -(-(len(tokens(sample.answer)) + 3) // 8) * 8
    return replace(task, samples=(replace(sample, max_new_tokens=length),))


def copies(task: Task, count: int) -> list[Sample]:
    """One question asked many times: rows that differ in their random draws alone."""
    return [replace(task.samples[0], index=i) for i in range(count)]


def decoded_share(model: Ideal, task: Task, sampler: str, count: int) -> int:
    samples = copies(task, count)
    out = decode(model, samples, sampler, batch_size=count)
    return sum(
        s.scores["accuracy"] == 1
        for s in task.score_many([g.text for g in out], samples, ["accuracy"])
    )


EXACT = [
    ("waiting_line/shuffle", 3, "random-k4"),
    ("waiting_line/shuffle", 4, "confidence-k2"),
    ("waiting_line/shuffle", 4, "confidence-k4+b8"),
    ("waiting_line/shuffle", 5, "random-k8+t1.0"),
    ("waiting_line/shuffle", 3, "random-k8+b8+t0.7"),
    ("waiting_line/shuffle", 3, "left_to_right-k4"),
    ("waiting_line/shuffle", 4, "threshold-0.3"),
    ("waiting_line/insert_random", 3, "confidence-k2"),
    ("waiting_line/insert_random", 4, "random-k4"),
    ("waiting_line/insert_random", 3, "threshold-0.7"),
    ("waiting_line/insert_random", 4, "eb-0.3"),
    ("waiting_line/remove_random", 3, "confidence-k2"),
    ("waiting_line/remove_random", 4, "margin-k4"),
    ("waiting_line/remove_random", 5, "factor-1.3-ref"),
    ("waiting_line/remove_random", 4, "entropy+linear8"),
    ("waiting_line/replace_random", 3, "confidence-k7"),
    ("waiting_line/replace_random", 4, "random-k2+t1.0"),
    ("waiting_line/replace_random", 4, "frechet-0.3"),
    ("waiting_line/replace_random", 5, "dus-2"),
    ("waiting_line/replace_random", 4, "confidence+s3_5_8"),
    ("list_ops/replace_random", 4, "confidence-k3"),
    ("puzzle/latin_square", 4, "left_to_right-k8"),
    ("puzzle/latin_square", 4, "dus-4+t1.0"),
]


class TestEnumeration:
    @pytest.mark.parametrize(("name", "n", "sampler"), EXACT)
    def test_decoding_with_ideal_agrees(
        self, model: Ideal, name: str, n: int, sampler: str
    ) -> None:
        """The share of right answers of 100 lies within chance of the exact value (fixed seed): one
        that is off by 17 points or more fails.
        """
        task = shortened(name, n)
        expected = ceiling(task.samples, sampler)
        assert expected.kind == "exact"
        assert expected.low == expected.mean == expected.high
        right = decoded_share(model, task, sampler, 100)
        if expected.mean in (0, 1):
            assert right == 100 * expected.mean
        else:
            assert binomtest(right, 100, expected.mean).pvalue > 1e-3, (
                f"{right} of 100, expected {expected.mean:.4f}"
            )

    @pytest.mark.parametrize("op", ["shuffle", "replace_random"])
    @pytest.mark.parametrize(
        "sampler",
        [
            "random-k2",
            "random-k3+t1.0",
            "confidence-k2",
            "margin-k4",
            "threshold-0.3",
            "threshold-0.9",
            "factor-1.3",
        ],
    )
    @pytest.mark.parametrize("n", [3, 6, 10])
    def test_equals_the_closed_form_on_list_ops(self, op: str, sampler: str, n: int) -> None:
        sample = load_task(f"list_ops/{op}", n=n, limit=1).samples[0]
        name = parse(sampler)
        value = exact(answer_distribution(sample), of_name(name).policy, name)
        assert value == pytest.approx(accuracy(op, n, sampler), abs=1e-9)

    @pytest.mark.parametrize(
        "edge", ["threshold-0.5", "threshold-0.25", "factor-1.5", "threshold-0.5+t1.0"]
    )
    @pytest.mark.parametrize("n", [2, 4])
    def test_noise_decides_equalities_as_in_the_closed_form(self, edge: str, n: int) -> None:
        """γ = ½ and ¼ and a factor that confidences just reach."""
        sample = load_task("list_ops/shuffle", n=n, limit=1).samples[0]
        name = parse(edge)
        value = exact(answer_distribution(sample), of_name(name).policy, name)
        assert value == pytest.approx(accuracy("shuffle", n, edge), abs=1e-9)

    @pytest.mark.parametrize("n", [10])
    def test_long_waiting_lines(self, n: int) -> None:
        """The lengths of Tables 5–7 are enumerated, too; more tokens a step never help here."""
        for op in ("shuffle", "insert_random", "remove_random", "replace_random"):
            samples = load_task(f"waiting_line/{op}", n=n, limit=2).samples
            values = [ceiling(samples, f"random-k{k}") for k in (1, 2, 4, 8)]
            assert {value.kind for value in values[1:]} == {"exact"}
            assert [value.mean for value in values] == sorted(
                (value.mean for value in values), reverse=True
            )


class TestKinds:
    def test_one_answer_or_one_token_at_a_time_is_always_right(self) -> None:
        copy = load_task("waiting_line/copy", limit=4).samples
        shuffle = load_task("waiting_line/shuffle", limit=4).samples
        for samples, sampler in ((copy, "wino-0.6"), (shuffle, "entropy-k1+t1.0"), (shuffle, "ar")):
            value = ceiling(samples, sampler)
            assert (value.mean, value.kind, value.low, value.high) == (1.0, "closed", 1.0, 1.0)

    def test_list_ops_have_formulas(self) -> None:
        value = ceiling(load_task("list_ops/shuffle", n=4, limit=3).samples, "random-k2")
        assert (value.mean, value.kind) == (0.375, "closed")

    @pytest.mark.parametrize(
        "sampler", ["random-k4", "confidence-k4", "confidence-k2+rcr", "klass-0.5"]
    )
    def test_the_rest_is_sampled_with_an_interval(self, model: Ideal, sampler: str) -> None:
        """Latin squares; decoding with `ideal` itself agrees."""
        task = shortened("puzzle/latin_square", None)
        value = ceiling(task.samples, sampler, draws=400)
        assert value.kind == "sampled"
        assert value.low <= value.mean <= value.high
        right = decoded_share(model, task, sampler, 60)
        assert binomtest(right, 60, min(max(value.mean, 0.005), 0.995)).pvalue > 1e-3

    def test_sampling_is_repeatable(self) -> None:
        task = load_task("waiting_line/shuffle", n=3, limit=1)
        name = parse("confidence-k2+eos_stop")
        from pbcore.ceilings.ceiling import _sampled

        distribution = answer_distribution(task.samples[0])
        assert _sampled(distribution, of_name(name).policy, name, 200) == _sampled(
            distribution, of_name(name).policy, name, 200
        )

    def test_sampled_and_exact_agree(self) -> None:
        """Both ways on what both can do."""
        from pbcore.ceilings.ceiling import _sampled

        for op, sampler in (("shuffle", "random-k4"), ("insert_random", "confidence-k2+t1.0")):
            task = shortened(f"waiting_line/{op}", 4)
            distribution = answer_distribution(task.samples[0])
            name = parse(sampler)
            sampled = _sampled(distribution, of_name(name).policy, name, 1000)
            try:
                value = exact(distribution, of_name(name).policy, name)
            except NotExact:
                value = decoded_share(Ideal(), task, sampler, 300) / 300
                assert abs(value - sampled.mean) < 0.1
            else:
                assert sampled.low - 0.01 <= value <= sampled.high + 0.01


# Modifiers that no formula and no enumeration knows, one a line.
MODIFIERS = [
    ("shuffle", "random-k4", "+no_early_eos"),
    ("shuffle", "random-k4", "+eos_last"),
    ("remove_random", "random-k4", "+no_early_eos"),
    ("remove_random", "random-k4", "+eos_last"),
    ("remove_random", "confidence-k2", "+no_early_eos"),
    ("remove_random", "confidence-k2", "+eos_last"),
    ("shuffle", "confidence-k2", "+eos_stop"),
    ("shuffle", "confidence-k4", "+rcr"),
    ("shuffle", "confidence-k4", "+rcr-max"),
    ("shuffle", "confidence-k4", "+remdm1"),
    ("shuffle", "confidence-k4", "+remdm1-early"),
    ("shuffle", "confidence-k4", "+counts"),
    ("shuffle", "confidence-k4", "+gap2"),
    ("shuffle", "random-k4", "+rounding+t1.0"),
]


class TestModifiers:
    @pytest.mark.parametrize(("op", "base", "modifier"), MODIFIERS)
    def test_is_sampled_with_the_modifier(
        self, model: Ideal, op: str, base: str, modifier: str
    ) -> None:
        """No formula and no enumeration holds, so the ceiling is decoded, and agrees with `ideal`
        under the whole sampler (100 answers of each, fixed seed).
        """
        task = shortened(f"waiting_line/{op}", 3)
        value = ceiling(task.samples, base + modifier, 100)
        assert value.kind == "sampled"
        drawn = round(100 * value.mean)
        right = decoded_share(model, task, base + modifier, 100)
        assert fisher_exact([[right, 100 - right], [drawn, 100 - drawn]]).pvalue > 1e-3

    @pytest.mark.parametrize("modifier", ["+eos_last", "+no_early_eos"])
    @pytest.mark.parametrize(
        ("op", "base"), [("shuffle", "random-k4"), ("remove_random", "random-k2")]
    )
    def test_rules_for_eos_have_a_ceiling_of_their_own(
        self, op: str, base: str, modifier: str
    ) -> None:
        """EOS held back leaves more of the answer to one step: the interval lies below the exact
        ceiling without the rule.
        """
        samples = shortened(f"waiting_line/{op}", 3).samples
        assert ceiling(samples, base + modifier).high < ceiling(samples, base).mean - 0.01

    @pytest.mark.parametrize("task", ["waiting_line/shuffle", "list_ops/shuffle"])
    def test_what_changes_no_answer_changes_no_ceiling(self, task: str) -> None:
        """The rows at a time are speed alone, exactly and where it is sampled."""
        samples = load_task(task, n=4, limit=1).samples
        for sampler in ("confidence-k2", "confidence-k2+eos_last"):
            assert ceiling(samples, f"{sampler}+x4") == ceiling(samples, sampler)

    @pytest.mark.parametrize("end", ["+eos_stop", "+no_early_eos", "+eos_last"])
    def test_rules_for_eos_take_no_formula(self, end: str) -> None:
        """Also where no answer has an EOS, whose formula would hold."""
        value = ceiling(load_task("list_ops/shuffle", n=4, limit=1).samples, f"random-k2{end}")
        assert value.kind == "sampled"
        assert value.low <= 0.375 <= value.high

    def test_other_orders_are_refused(self) -> None:
        """`ideal` has no attention, so ADAS has no ceiling."""
        samples = load_task("waiting_line/shuffle", n=3, limit=1).samples
        with pytest.raises(NoCeiling, match="attention"):
            ceiling(samples, "confidence-k2+adas40")


class TestCells:
    def test_the_mean_is_over_samples(self) -> None:
        """Lengths 3, 4, 5, 6, 3: a third counts twice."""
        task = load_task("waiting_line/shuffle", limit=5)
        each = [ceiling([sample], "random-k4").mean for sample in task.samples]
        assert ceiling(task.samples, "random-k4").mean == pytest.approx(sum(each) / 5)
        assert each[0] == each[4]

    def test_caches_change_nothing(self) -> None:
        samples = load_task("waiting_line/shuffle", limit=4).samples
        assert ceiling(samples, "confidence-k4+b8+dual") == ceiling(samples, "confidence-k4+b8")

    @pytest.mark.parametrize(
        ("task", "sampler", "said"),
        [
            ("text_writing/w2s_easy", "random-k2", "can't be listed"),
            ("waiting_line/shuffle", "joint-0.5", "review"),
            ("waiting_line/shuffle", "pc-k2", "frequency"),
            ("waiting_line/shuffle", "random-k2+b5", "doesn't divide"),
        ],
    )
    def test_what_ideal_can_not_do_is_refused(self, task: str, sampler: str, said: str) -> None:
        with pytest.raises(NoCeiling, match=said):
            ceiling(load_task(task, limit=2).samples, sampler)

    def test_no_samples_have_no_ceiling(self) -> None:
        with pytest.raises(NoCeiling, match="there is no sample"):
            ceiling([], "random-k2")


class TestOwnPolicies:
    """What a policy of the user's reaches is measured, unless it declares what makes it certain."""

    @pytest.fixture(autouse=True)
    def restored(self) -> Iterator[None]:
        """Policies registered by a test are gone after it."""
        with POLICIES.restored():
            yield

    def test_a_field_named_k_makes_nothing_certain(self, model: Ideal) -> None:
        """All at once under the name of one token a step: right as often as `ideal` is."""
        registered("greedy", lambda policy, step: step.masked)
        task = load_task("waiting_line/shuffle", n=3, limit=1)
        value = ceiling(task.samples, "greedy-k1")
        assert value.kind == "sampled"
        right = decoded_share(model, task, "greedy-k1", 300)
        assert value.low - 0.05 < right / 300 < value.high + 0.05

    @pytest.mark.parametrize(("chooses", "kind"), [("tokens", "closed"), (None, "sampled")])
    def test_one_token_a_step(self, chooses: str | None, kind: str) -> None:
        """Certain where both are declared and checked: the number, and that tokens are kept."""
        registered(
            "one", lambda policy, step: step.best_one(step.confidence), reveals="k", chooses=chooses
        )
        samples = load_task("waiting_line/shuffle", n=3, limit=1).samples
        value = ceiling(samples, "one-k1")
        assert (value.mean, value.kind) == (1, kind)

    def test_one_answer(self) -> None:
        """A policy that writes other tokens misses the only answer, too."""
        registered(
            "other",
            lambda policy, step: Move(step.masked, token=(step.token + 1).clamp(max=1)),
            rewrites=True,
        )
        samples = load_task("waiting_line/copy", n=3, limit=1).samples
        assert ceiling(samples, "confidence-k4").kind == "closed"
        assert ceiling(samples, "other-k4").mean == 0


def registered(name: str, select: Callable[[Any, Step], Tensor | Move], **declared: Any) -> None:
    """A policy with a field k that declares what is given."""
    members = {"select": select, **declared}
    cls = make_dataclass("Own", [("k", int, 1)], namespace=members, frozen=True)
    register_policy(name)(cls)

"""pbcore.analysis.timing.gate: which timings are judged, and what fails."""

from __future__ import annotations

import pytest

from pbcore.analysis.timing.gate import judge_timing

MACHINE = {"cpu": "x", "cpus": 2}


class TestJudgeTiming:
    def verdict(self, head: list[float], base: list[float], **options: object) -> tuple[bool, bool]:
        found = judge_timing(head, base, 0.1, **({"machines": (MACHINE, MACHINE)} | options))  # type: ignore[arg-type]
        return found.judged, found.ok

    def test_only_a_clear_gap_fails(self) -> None:
        """It fails if the fastest head round is slower than the slowest base round by more than the
        margin, and else passes.
        """
        assert self.verdict([1.3, 1.2, 1.4], [1.0, 1.0, 1.0]) == (True, False)
        assert self.verdict([1.3, 1.05, 1.4], [1.0, 1.0, 1.0]) == (True, True)
        assert self.verdict([2.0, 2.0, 2.0], [1.0, 1.9, 1.0]) == (True, True)

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"machines": (MACHINE, {"cpu": "y", "cpus": 2})}, "different machines: cpu"),
            ({"otherwise": "workers shared a device"}, "workers shared"),
            ({"machines": ({}, MACHINE)}, "has no record of the machine"),
        ],
    )
    def test_says_why_it_did_not_judge(self, options: dict[str, object], why: str) -> None:
        """Other machines and shared devices are not judged, with the reason."""
        given_options = {"machines": (MACHINE, MACHINE)} | options
        found = judge_timing([9.0] * 3, [1.0] * 3, 0.1, **given_options)  # type: ignore[arg-type]
        assert not found.judged
        assert found.ok
        assert why in found.reason

    def test_the_margin_itself_is_no_failure(self) -> None:
        """A fastest round that takes exactly the slowest base round and the margin passes; the
        medians are shown.
        """
        found = judge_timing([1.5, 2.0, 1.5], [0.5, 1.0, 1.0], 0.5, machines=(MACHINE, MACHINE))
        assert (found.ok, found.ratio) == (True, 1.5)
        assert found.reason.startswith(
            "median 1 s → 1.5 s (+50.0 %), fastest head round 1.5 s, slowest base round 1 s"
        )

    def test_rounds_without_a_time_are_not_judged(self) -> None:
        """On either side."""
        assert self.verdict([0.0, 1.0, 1.0], [1.0] * 3) == (False, True)
        assert self.verdict([9.0] * 3, [1.0, 0.0, 1.0]) == (False, True)

    def test_too_few_rounds(self) -> None:
        """Two rounds say nothing; a negative margin is refused."""
        assert self.verdict([9.0] * 2, [1.0] * 3) == (False, True)
        assert self.verdict([9.0] * 3, [1.0] * 2) == (False, True)
        with pytest.raises(ValueError, match="margin"):
            judge_timing([1.0] * 3, [1.0] * 3, -1, machines=(MACHINE, MACHINE))

    def test_no_margin_is_a_margin(self) -> None:
        """Then any clear gap fails, with the margin in words; a verdict that isn't judged has no
        ratio.
        """
        found = judge_timing([1.1] * 3, [1.0] * 3, 0.0, machines=(MACHINE, MACHINE))
        assert (found.judged, found.ok) == (True, False)
        assert found.reason.startswith("slower by more than 0 %: median 1 s → 1.1 s (+10.0 %)")
        assert found.ratio == pytest.approx(1.1)
        assert judge_timing([], [], 0.0, machines=(MACHINE, MACHINE)).ratio is None

    @pytest.mark.parametrize(
        ("head", "base", "why"),
        [
            (
                {"cpus": 2, "cpu": "x"},
                {"cpus": 4, "cpu": "y"},
                "different machines: cpu is 'x', the baseline's 'y'",
            ),
            ({"cpu": "x"}, MACHINE, "different machines: cpus is None, the baseline's 2"),
            (MACHINE, {"cpu": "x"}, "different machines: cpus is 2, the baseline's None"),
            (MACHINE, {}, "a run has no record of the machine it was timed on"),
        ],
    )
    def test_the_first_fact_that_differs_is_named(
        self, head: dict[str, object], base: dict[str, object], why: str
    ) -> None:
        """By the alphabet; a fact that one side lacks differs."""
        found = judge_timing([1.0] * 3, [1.0] * 3, 0.1, machines=(head, base))
        assert (found.judged, found.reason) == (False, f"timing not judged: {why}")

    @pytest.mark.parametrize(
        ("head", "base", "why"),
        [
            (
                [],
                [1.0] * 3,
                "a cell has no time of its own (its forwards were shared, or its answers kept)",
            ),
            (
                [1.0] * 3,
                [],
                "a cell has no time of its own (its forwards were shared, or its answers kept)",
            ),
            ([1.0] * 2, [1.0] * 4, "2 and 4 rounds; at least 3 per side are needed (--rounds 3)"),
            ([1.0] * 3, [1.0, -1.0, 1.0], "a round has no measured time"),
        ],
    )
    def test_rounds_that_cannot_be_judged(
        self, head: list[float], base: list[float], why: str
    ) -> None:
        """What is missing, and what to do about it."""
        found = judge_timing(head, base, 0.1, machines=(MACHINE, MACHINE))
        assert (found.judged, found.ok, found.reason) == (False, True, f"timing not judged: {why}")

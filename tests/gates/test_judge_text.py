"""The text of a verdict: on one screen, and all of it in Markdown."""

from __future__ import annotations

from pbcore.analysis.paired import Paired, detectable_drop, detectable_shift
from pbcore.gates.judge import Judgement, Verdict
from pbcore.gates.verdict_text import gate_markdown, gate_text, power_text, rerun_command
from tests.markdown_tables import unpadded

TESTED = {"score": 1.0}


def verdict(*judgements: Judgement) -> Verdict:
    """With a cell of 50 samples that pass without a flip, and three more tests of it."""
    tests = {"score": 1.0, "forwards": 1.0, "rows": 1.0, "more": 1.0}
    same = Judgement("tiny/copy/ar", "passed", paired=Paired(differences=(0.0,) * 50), p=tests)
    return Verdict((*judgements, same), 0.05)


def flips(wrong: tuple[int, ...] = (), right: tuple[int, ...] = (), n: int = 0) -> Paired:
    return Paired(worse=wrong, better=right, differences=(0.0,) * n)


def again(cell_id: str, sample: int) -> str:
    return f"rerun {cell_id} {sample}"


class TestText:
    def test_failures_come_first_by_kind(self) -> None:
        """Quality, speed, errors and refusals, missing cells, floors; then flips, new cells and
        what is detectable.
        """
        told = gate_text(
            verdict(
                Judgement("m/t/a", "floor", "accuracy is 50 %"),
                Judgement("m/t/b", "missing", "not in the run"),
                Judgement("m/t/c", "error", "boom"),
                Judgement("m/t/d", "slower", "NFE 16 → 17"),
                Judgement("m/t/e", "worse", "90 % → 50 %", paired=flips((3, 7), (5,))),
                Judgement("m/t/f", "passed", paired=flips((), (2,))),
                Judgement("m/t/g", "passed", paired=flips((4,))),
                Judgement("m/t/h", "passed"),
                Judgement("m/t/i", "new"),
                Judgement("m/t/j", "refused", "seeds differ"),
            ),
            "main.json",
            again,
        )
        assert told.splitlines() == [
            (
                "gate FAILED against main.json: 1 error, 1 floor, 1 missing, 1 new, 4 passed, 1"
                " refused, 1 slower, 1 worse"
            ),
            "  WORSE    m/t/e: 90 % → 50 %",
            "           newly wrong 3, 7; newly right 5: rerun m/t/e 3",
            "  SLOWER   m/t/d: NFE 16 → 17",
            "  ERROR    m/t/c: boom",
            "  REFUSED  m/t/j: seeds differ",
            "  MISSING  m/t/b: not in the run",
            "  FLOOR    m/t/a: accuracy is 50 %",
            "  flipped  m/t/f: newly right 2",
            "  flipped  m/t/g: newly wrong 4: rerun m/t/g 4",
            "  new, not judged: m/t/i (1)",
            (
                "  at 50 samples and 4 tests (Holm, 5 % false alarms per run) a drop of 17.6 points"
                " is detectable in one cell with 80 % power, assuming no answer improves"
            ),
        ]

    def test_a_pass_is_short(self) -> None:
        """The headline and what is detectable."""
        first, second = gate_text(verdict(Judgement("a/b/c", "passed"))).splitlines()
        assert first == "gate PASSED against baseline: 2 passed"
        assert second.startswith("  at 50 samples")

    def test_long_lists_are_cut(self) -> None:
        """Eight failures, eight cells with flips, four new cells and twelve samples of a cell; the
        rest is counted.
        """
        worse = [Judgement(f"m/t/w{i}", "worse", "x") for i in range(9)]
        flipped = [
            Judgement(f"m/t/f{i}", "passed", paired=flips((), tuple(range(13)))) for i in range(10)
        ]
        new = [Judgement(f"m/t/n{i}", "new") for i in range(5)]
        told = gate_text(verdict(*worse, *flipped, *new)).splitlines()
        assert told[8:10] == ["  WORSE    m/t/w7: x", "  … and 1 more"]
        assert (
            told[10] == "  flipped  m/t/f0: newly right 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 … (13)"
        )
        assert told[18] == "  … and 2 more cells with flipped samples"
        assert told[19] == "  new, not judged: m/t/n0, m/t/n1, m/t/n2, m/t/n3 … (5)"
        assert " … (4)" not in gate_text(verdict(*new[:4]))
        assert "11 … (" not in gate_text(
            verdict(Judgement("a/b/c", "passed", paired=flips((), tuple(range(12)))))
        )

    def test_the_command_finds_the_cell_by_its_parts(self) -> None:
        """A model's name may have slashes of its own."""
        assert (
            rerun_command("org/m/copy/ar", 3)
            == "pytest benches --model org/m --task copy --sampler ar --sample 3"
        )


class TestMarkdown:
    def test_a_row_for_each_cell_that_is_not_simply_passed(self) -> None:
        """Failed, flipped either way, or new; the commands of newly wrong samples follow."""
        told = gate_markdown(
            verdict(
                Judgement("m/t/a", "passed"),
                Judgement("m/t/b", "new"),
                Judgement("m/t/c", "passed", paired=flips((), (1,))),
                Judgement("m/t/d", "worse", "why", paired=flips((2, 3))),
            ),
            "main",
            again,
        )
        assert told.splitlines()[0] == "### gate FAILED against main: 1 new, 3 passed, 1 worse"
        assert unpadded(told).splitlines()[4:] == [
            "| cell | verdict | why | newly wrong | newly right |",
            "|---|---|---|---|---|",
            "| `m/t/b` | new |  |  |  |",
            "| `m/t/c` | passed |  |  | 1 |",
            "| `m/t/d` | worse | why | 2, 3 |  |",
            "",
            "Rerun the samples that got worse (the first 12 of each cell):",
            "",
            "```",
            "rerun m/t/d 2",
            "rerun m/t/d 3",
            "```",
        ]

    def test_twelve_commands_a_cell(self) -> None:
        """Without a newly wrong answer there are none."""
        many = gate_markdown(
            verdict(Judgement("a/b/c", "worse", paired=flips(tuple(range(14))))), rerun=again
        )
        assert [number for number in range(14) if f"rerun a/b/c {number}\n" in many] == list(
            range(12)
        )
        assert "Rerun" not in gate_markdown(
            verdict(Judgement("a/b/c", "passed", paired=flips((), (1,))))
        )


class TestPower:
    def test_what_is_not_detectable_is_said(self) -> None:
        """No tests, no claim; samples too few for any drop, no drop."""
        assert power_text(Verdict((), 0.05)) == "nothing was compared, so no drop is detectable"
        few = Judgement("a/b/c", "passed", paired=flips(n=4), p=TESTED)
        assert "at 4 samples and 5 tests" in power_text(verdict(few))
        assert ") no drop is detectable in one cell" in power_text(verdict(few))

    def test_the_fewest_samples_and_all_tests_count(self) -> None:
        """At Holm's strictest level for them."""
        drop = detectable_drop(50, level=0.05 / 4)
        assert drop is not None
        assert (
            f"at 50 samples and 4 tests (Holm, 5 % false alarms per run) a drop of {100 * drop:.1f}"
            " points" in (power_text(verdict()))
        )

    def test_flips_both_ways_have_their_own_drop(self) -> None:
        """Where they occur; where most answers flip there is none."""
        churned = Judgement("a/b/c", "passed", paired=flips((1,), (2,), 50), p=TESTED)
        drop = detectable_drop(50, churn=0.01, level=0.05 / 5)
        assert drop is not None
        said = f", and {100 * drop:.1f} points at this run's rate of two-way flips (1.0 %)"
        assert power_text(verdict(churned)).endswith(said)
        many = Judgement(
            "a/b/c", "passed", paired=flips(tuple(range(50)), tuple(range(50)), 50), p=TESTED
        )
        assert power_text(verdict(many)).endswith(
            "and none at this run's rate of two-way flips (45.0 %)"
        )

    def test_graded_scores_have_their_own_drop(self) -> None:
        """The largest that one of their cells needs."""
        narrow, wide = (
            Judgement(
                "a/b/c", "passed", paired=Paired(binary=False, differences=(-at, at) * 30), p=TESTED
            )
            for at in (0.1, 0.2)
        )
        shift = detectable_shift(60, 0.2, level=0.05 / 6)
        assert shift is not None
        said = (
            f"; for means over seeds and graded scores up to {100 * shift:.1f} points, depending on"
            " the cell"
        )
        assert power_text(verdict(narrow, wide)).endswith(said)

"""pbcore.analysis: floors, gate, timing; and what the gate lets through and stops, by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.analysis.floors import FloorError, parse_floor
from pbcore.analysis.gate import Judgement, Verdict, greedy, judge
from pbcore.analysis.paired import detectable_drop, holm, mcnemar, power
from pbcore.report.gates import gate_markdown, gate_text, rerun_command
from pbcore.results import CellRecord, SampleRecord, error_cell
from pbcore.results.baseline import baseline_cell
from pbcore.results.rundir import StoredCell
from pbcore.tasks.lists import OPERATIONS
from pbcore.timing.verdict import judge_timing
from tests.results import factory

Entry = tuple[CellRecord, list[SampleRecord]]
MACHINE = {"cpu": "x", "cpus": 2}


def stored(*entries: Entry) -> list[StoredCell]:
    return [StoredCell(record, tuple(samples)) for record, samples in entries]


def gate(run: list[Entry], base: list[Entry], **options: object) -> Verdict:
    return judge(stored(*run), {entry.cell.id: baseline_cell(entry) for entry in stored(*base)}, **options)  # type: ignore[arg-type]


def answers(wrong: int, n: int = 100, first: int = 0) -> list[float]:
    return [float(not first <= i < first + wrong) for i in range(n)]


class TestJudge:
    def test_same_run_passes(self) -> None:
        """A run judged against itself passes without a flip."""
        entries = factory.grid(tasks=("waiting_line/copy",))
        verdict = gate(entries, entries)
        assert verdict.ok
        assert {found.status for found in verdict.judgements} == {"passed"}
        assert verdict.churn == 0

    def test_a_real_drop_fails(self) -> None:
        """20 of 100 newly wrong fail, with the samples and the command that reruns each."""
        verdict = gate([factory.cell(right=answers(20))], [factory.cell(right=answers(0))])
        (found,) = verdict.judgements
        assert not verdict.ok
        assert found.status == "worse"
        assert found.newly_wrong == tuple(range(20))
        assert rerun_command(found.id, 0) in gate_text(verdict)
        assert "-20.0 points" in gate_text(verdict)

    def test_noise_passes_and_is_listed(self) -> None:
        """3 newly wrong and 2 newly right pass, but are named."""
        verdict = gate([factory.cell(right=answers(3))], [factory.cell(right=answers(2, first=50))])
        assert verdict.ok
        assert "newly wrong 0, 1, 2; newly right 50, 51" in gate_text(verdict)

    def test_missing_new_and_errors(self) -> None:
        """A row the run lacks fails, a cell without baseline is new, one that could not be run fails with its cause."""
        renamed, broken = factory.cell(sampler="confidence-k3"), factory.cell(sampler="random-k1")
        verdict = gate([renamed, (error_cell(broken[0], "out of memory"), [])], [factory.cell(), broken])
        assert {found.id.split("/")[2]: found.status for found in verdict.judgements} == {
            "confidence-k2": "missing",
            "confidence-k3": "new",
            "random-k1": "error",
        }
        assert not verdict.ok
        assert "out of memory" in gate_text(verdict)
        assert gate([renamed], []).ok

    @pytest.mark.parametrize(
        ("facts", "named"),
        [
            ({"seed": 1}, "seeds 1, the baseline has 0"),
            ({"dtype": "bfloat16"}, "dtype"),
            ({"length": "15"}, "length"),
            ({"model_info": {"source": "embedded", "revision": "r2"}}, "model revision is 'r2'"),
            ({"n": 19}, "19 samples, the baseline has 20"),
        ],
    )
    def test_refused(self, facts: dict[str, object], named: str) -> None:
        """What was asked of what must be the same; the difference is named."""
        verdict = gate([factory.cell(**facts)], [factory.cell()])  # type: ignore[arg-type]
        assert verdict.judgements[0].status == "refused"
        assert named in verdict.judgements[0].reason
        assert not verdict.ok

    def test_refused_for_data_and_metric(self) -> None:
        """Other data are refused, and so is a score that is no longer measured."""
        record, samples = factory.cell()
        other = replace(record, conditions=replace(record.conditions, data_hash="d2"))
        assert "other data" in gate([(other, samples)], [(record, samples)]).judgements[0].reason
        bare = [replace(sample, scores={}) for sample in samples]
        lost = replace(record, scores={}, absent={"accuracy": "scorer off"})
        assert "scorer off" in gate([(lost, bare)], [(record, samples)]).judgements[0].reason

    @pytest.mark.parametrize(("nfe", "word"), [(17, "16 → 17"), (15, "update the baseline")])
    def test_greedy_forwards_are_exact(self, nfe: int, word: str) -> None:
        """Greedy decoding with any other NFE fails, also if faster, for then the baseline is stale."""
        verdict = gate([factory.cell(nfe=nfe)], [factory.cell(nfe=16)])
        assert verdict.judgements[0].status == "slower"
        assert word in verdict.judgements[0].reason

    def test_one_sample_slower_is_noticed(self) -> None:
        """One more forward for one sample fails, though means hardly move."""
        verdict = gate([factory.cell(nfe=[17] + [16] * 19)], [factory.cell(nfe=16)])
        assert verdict.judgements[0].status == "slower"
        assert "samples [0]" in verdict.judgements[0].reason

    def test_a_rate_that_falls_at_equal_forwards_is_noticed(self) -> None:
        """Shorter canvases at the same NFE mean fewer tokens per step; rounding in the file is no difference."""
        record, samples = factory.cell(nfe=16)
        shorter = replace(record, tokens_per_step=record.tokens_per_step - 0.01)
        (found,) = gate([(shorter, samples)], [(record, samples)]).judgements
        assert found.status == "slower"
        assert "tokens per step 2 → 1.99" in found.reason
        assert gate([(replace(record, tokens_per_step=2 + 4e-7), samples)], [(record, samples)]).ok

    def test_sampled_forwards_may_vary(self) -> None:
        """With a temperature NFE may differ up and down, but a clear rise fails."""
        base = factory.cell(sampler="threshold-0.9+t1.0", nfe=[8, 9] * 10)
        assert gate([factory.cell(sampler="threshold-0.9+t1.0", nfe=[9, 8] * 10)], [base]).ok
        slow = gate([factory.cell(sampler="threshold-0.9+t1.0", nfe=[12, 12] * 10)], [base])
        assert slow.judgements[0].status == "slower"

    def test_names_that_cannot_be_read_are_judged_as_sampled(self) -> None:
        """Only a sampler that is known to be greedy must repeat its forwards exactly."""
        assert [greedy(name) for name in ("confidence-k2", "confidence-k2+t1.0", "as published")] == [
            True,
            False,
            False,
        ]

    def test_holm_over_cells(self) -> None:
        """5 newly wrong fail alone (p = .03), but not among a dozen cells."""
        names = [f"waiting_line/{name}" for name in OPERATIONS] + ["puzzle/sudoku", "puzzle/latin_square"]
        base = [factory.cell(task=name, right=answers(0)) for name in names]
        worse = factory.cell(task=names[0], right=answers(5))
        assert not gate([worse], base[:1]).ok
        assert gate([worse, *base[1:]], base).ok

    def test_graded_scores(self) -> None:
        """A graded score that falls a little on every sample fails; one that only scatters passes."""
        values = [0.3 + 0.4 * i / 99 for i in range(100)]
        base = factory.cell(task="text_writing/summarization", headline="rouge_l", right=values)
        lower = factory.cell(
            task="text_writing/summarization", headline="rouge_l", right=[value - 0.02 for value in values]
        )
        scattered = factory.cell(
            task="text_writing/summarization",
            headline="rouge_l",
            right=[value + 0.02 * (-1) ** i for i, value in enumerate(values)],
        )
        assert gate([lower], [base]).judgements[0].status == "worse"
        assert gate([scattered], [base]).ok

    def test_says_what_it_could_see(self) -> None:
        """The summary names the drop it could have caught at this sample count."""
        one = [factory.cell(right=answers(0))]
        assert gate(one, one).detectable == detectable_drop(100)
        assert "a drop of 6.7 points is detectable" in gate_text(gate(one, one))
        tiny = [factory.cell(n=4, right=1.0)]
        assert "no drop" in gate_text(gate(tiny, tiny))

    def test_churn_is_that_of_binary_scores(self) -> None:
        """Two flips each way in 100 answers are 2 %, whatever the graded cell beside them does."""
        values = [0.5 + 0.3 * (-1) ** i for i in range(100)]
        base, run = (
            [
                factory.cell(right=answers(2, first=first)),
                factory.cell(task="text_writing/summarization", headline="rouge_l", right=graded),
            ]
            for first, graded in ((0, values), (50, values[::-1]))
        )
        assert gate(run, base).churn == 0.02

    def test_fits_a_screen(self) -> None:
        """A hundred failures take no more than thirty lines; Markdown has them all."""
        base = factory.grid()
        verdict = gate(
            [
                factory.cell(record.model, record.task, record.sampler, right=0.0, nfe=record.nfe_max)
                for record, _ in base
            ],
            base,
        )
        assert len(gate_text(verdict).splitlines()) <= 30
        assert gate_markdown(verdict).count("| worse |") == len(verdict.of("worse")) > 50

    def test_level(self) -> None:
        """A level that is no probability is refused."""
        with pytest.raises(ValueError, match="level 5"):
            gate([], [], level=5)


class TestSimulation:
    CELLS, RUNS, N = 12, 2000, 100

    def failing(self, drop: float, churn: float) -> float:
        """The share of runs that fail: flips drawn per cell, then what `judge` does with them (exact McNemar, Holm)."""
        rates = [[churn + drop, churn, 1 - 2 * churn - drop]] + [[churn, churn, 1 - 2 * churn]] * (self.CELLS - 1)
        generator = np.random.default_rng(7)
        draws = np.stack(
            [generator.multinomial(self.N, rate, size=self.RUNS) for rate in rates], axis=1
        )  # (runs, cells, 3)
        p_of = {pair: mcnemar(*pair) for pair in {(int(b), int(c)) for b, c, _ in draws.reshape(-1, 3)}}
        return float(np.mean([min(holm([p_of[int(b), int(c)] for b, c, _ in run])) <= 0.05 for run in draws]))

    def test_false_alarms(self) -> None:
        """At most 5 % of 2,000 unchanged reruns of 12 cells fail, at any rate of meaningless flips."""
        for churn in (0.01, 0.05, 0.15):
            assert self.failing(0.0, churn) <= 0.05

    def test_power_is_as_computed(self) -> None:
        """Of 2,000 runs with one cell 20 points down as many fail as the formula says at the level that Holm leaves."""
        computed = power(self.N, 0.20, churn=0.03, level=0.05 / self.CELLS)
        assert self.failing(0.20, 0.03) == pytest.approx(computed, abs=0.03)

    def test_judge_itself(self) -> None:
        """The same through `judge`: of 30 unchanged reruns few fail; of 10 that lose half of one task's answers
        all do.
        """
        generator = np.random.default_rng(3)
        truth = (generator.random((3, 100)) < 0.8).astype(float)
        tasks = ["waiting_line/copy", "waiting_line/sort", "puzzle/sudoku"]

        def run(drop: float) -> list[Entry]:
            drawn = np.where(generator.random((3, 100)) < 0.04, 1 - truth, truth)
            drawn[0] = np.where(generator.random(100) < drop, 0.0, drawn[0])
            return [factory.cell(task=task, right=list(row)) for task, row in zip(tasks, drawn, strict=True)]

        def fails(drop: float) -> bool:
            return not gate(run(drop), run(0.0)).ok

        assert sum(fails(0.0) for _ in range(30)) <= 4
        assert sum(fails(0.5) for _ in range(10)) == 10


class TestFloors:
    def test_kept_broken_and_unmatched(self) -> None:
        """A floor holds, is broken with the value named, or matches nothing, which fails as well."""
        run = [factory.cell(task="waiting_line/copy", right=0.9)]
        for text, ok in (
            ("tiny/copy/* accuracy>=0.9", True),
            ("tiny/copy/* accuracy >= 90%", True),
            ("*/* nfe<=16", True),
            ("tiny/copy/* accuracy>=0.98", False),
            ("tiny/sort/* accuracy>=0.1", False),
            ("tiny/* grammar>=0.1", False),
        ):
            assert gate(run, [], floors=[parse_floor(text)]).ok is ok, text
        assert "accuracy is 0.9" in gate_text(gate(run, [], floors=[parse_floor("tiny/copy/* accuracy>=0.98")]))

    @pytest.mark.parametrize("text", ["", "accuracy>=1", "tiny/* accuracy=1", "tiny/* accuracy>=high", "tiny/* >=1"])
    def test_unreadable(self, text: str) -> None:
        """A floor that can't be read shows the form."""
        with pytest.raises(FloorError, match="tiny/copy"):
            parse_floor(text)

    @settings(max_examples=30)
    @given(st.sampled_from([">=", "<=", ">", "<"]), st.integers(0, 1000))
    def test_round_trip(self, sign: str, thousandths: int) -> None:
        """A floor prints as it is read."""
        floor = parse_floor(f"a/*/b+t1.0 nfe{sign}{thousandths / 1000:g}")
        assert parse_floor(str(floor)) == floor


class TestTiming:
    def verdict(self, head: list[float], base: list[float], **options: object) -> tuple[bool, bool]:
        found = judge_timing(head, base, 0.1, **({"head_machine": MACHINE, "base_machine": MACHINE} | options))  # type: ignore[arg-type]
        return found.judged, found.ok

    def test_only_a_clear_gap_fails(self) -> None:
        """It fails if the fastest head round is slower than the slowest base round by more than the margin, and else
        passes.
        """
        assert self.verdict([1.3, 1.2, 1.4], [1.0, 1.0, 1.0]) == (True, False)
        assert self.verdict([1.3, 1.05, 1.4], [1.0, 1.0, 1.0]) == (True, True)
        assert self.verdict([2.0, 2.0, 2.0], [1.0, 1.9, 1.0]) == (True, True)

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"base_machine": {"cpu": "y", "cpus": 2}}, "different machines: cpu"),
            ({"shared": True}, "shared"),
            ({"head_machine": {}}, "has no record of the machine"),
        ],
    )
    def test_says_why_it_did_not_judge(self, options: dict[str, object], why: str) -> None:
        """Other machines and shared devices are not judged, with the reason."""
        given_options = {"head_machine": MACHINE, "base_machine": MACHINE} | options
        found = judge_timing([9.0] * 3, [1.0] * 3, 0.1, **given_options)  # type: ignore[arg-type]
        assert not found.judged
        assert found.ok
        assert why in found.reason

    def test_too_few_rounds(self) -> None:
        """Two rounds say nothing; a negative margin is refused."""
        assert self.verdict([9.0] * 2, [1.0] * 3) == (False, True)
        with pytest.raises(ValueError, match="margin"):
            judge_timing([1.0] * 3, [1.0] * 3, -1, head_machine=MACHINE, base_machine=MACHINE)


def test_statuses_that_pass() -> None:
    """Only passed and new cells are fine."""
    statuses = ("passed", "new", "worse", "slower", "refused", "missing", "error", "floor")
    assert [status for status in statuses if Judgement("a", status).ok] == ["passed", "new"]

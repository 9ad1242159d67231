"""pbcore.gates.judge: what passes, what fails, and what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pbcore.analysis.paired import detectable_drop
from pbcore.gates.judge import Judgement, Verdict, greedy, judge
from pbcore.gates.verdict_text import gate_markdown, gate_text, power_text, rerun_command
from pbcore.results import CellRecord, SampleRecord, error_cell
from pbcore.results.baseline import baseline_cell
from pbcore.results.rundir import StoredCell
from pbcore.tasks.lists import OPERATIONS
from tests.markdown_tables import unpadded
from tests.results import factory

Entry = tuple[CellRecord, list[SampleRecord]]


def stored(*entries: Entry) -> list[StoredCell]:
    return [StoredCell(record, tuple(samples)) for record, samples in entries]


def gate(run: list[Entry], base: list[Entry], **options: object) -> Verdict:
    return judge(
        stored(*run), {entry.cell.id: baseline_cell(entry) for entry in stored(*base)}, **options
    )  # type: ignore[arg-type]


def answers(wrong: int, n: int = 100, first: int = 0) -> list[float]:
    return [float(not first <= i < first + wrong) for i in range(n)]


class TestJudge:
    def test_same_run_passes(self) -> None:
        """A run judged against itself passes without a flip."""
        entries = factory.grid(tasks=("waiting_line/copy",))
        verdict = gate(entries, entries)
        assert verdict.ok
        assert {found.status for found in verdict.judgements} == {"passed"}
        assert "two-way flips" not in power_text(verdict)

    def test_a_real_drop_fails(self) -> None:
        """20 of 100 newly wrong fail, with the samples and the command that reruns each."""
        verdict = gate([factory.cell(right=answers(20))], [factory.cell(right=answers(0))])
        (found,) = verdict.judgements
        assert not verdict.ok
        assert found.status == "worse"
        assert found.paired.worse == tuple(range(20))
        assert rerun_command(found.id, 0) in gate_text(verdict)
        assert "-20.0 points" in gate_text(verdict)

    def test_noise_passes_and_is_listed(self) -> None:
        """3 newly wrong and 2 newly right pass, but are named."""
        verdict = gate([factory.cell(right=answers(3))], [factory.cell(right=answers(2, first=50))])
        assert verdict.ok
        assert "newly wrong 0, 1, 2; newly right 50, 51" in gate_text(verdict)

    @pytest.mark.parametrize(
        ("before", "now", "said"), [(0, 2, "newly wrong 0, 1"), (2, 0, "newly right 0, 1")]
    )
    def test_flips_in_one_direction_are_listed_too(self, before: int, now: int, said: str) -> None:
        """A cell that passes shows what changed; a command only where something got worse."""
        verdict = gate([factory.cell(right=answers(now))], [factory.cell(right=answers(before))])
        assert verdict.ok
        (line,) = (
            line for line in gate_text(verdict).splitlines() if line.startswith("  flipped ")
        )
        assert said in line
        assert ("pytest" in line) == (now > 0)

    def test_missing_new_and_errors(self) -> None:
        """A row the run lacks fails, a cell without baseline is new, one that could not be run
        fails with its cause.
        """
        renamed = factory.cell(sampler="confidence-k3")
        broken = factory.cell(sampler="random-k1")
        verdict = gate(
            [renamed, (error_cell(broken[0], "out of memory"), [])], [factory.cell(), broken]
        )
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
            ({"n": 19}, "19 samples, the baseline has 20"),
        ],
    )
    def test_refused(self, facts: dict[str, object], named: str) -> None:
        """What was asked of what must be the same; the difference is named."""
        verdict = gate([factory.cell(**facts)], [factory.cell()])  # type: ignore[arg-type]
        assert verdict.judgements[0].status == "refused"
        assert named in verdict.judgements[0].reason
        assert not verdict.ok

    @pytest.mark.parametrize(
        ("ours", "theirs", "words"),
        [
            ({"digest": "1", "weights": "w"}, {"digest": "1", "weights": "w"}, " (same weights)"),
            (
                {"digest": "1", "weights": "w", "config": "c"},
                {"digest": "2", "weights": "x", "config": "c"},
                " (other weights (weights))",
            ),
            ({}, {"digest": "2", "weights": "x"}, ""),
        ],
    )
    def test_other_weights_are_judged(
        self, ours: dict[str, str], theirs: dict[str, str], words: str
    ) -> None:
        """A gate never refuses them; its first line says whether they are the baseline's."""
        verdict = gate([factory.cell(model_identity=ours)], [factory.cell(model_identity=theirs)])
        assert verdict.ok
        assert gate_text(verdict).startswith(f"gate PASSED against baseline{words}: 1 passed")

    def test_refused_for_data_and_metric(self) -> None:
        """Other data are refused, and so is a score that is no longer measured."""
        record, samples = factory.cell()
        other = replace(record, conditions=replace(record.conditions, data_hash="d2"))
        assert "other data" in gate([(other, samples)], [(record, samples)]).judgements[0].reason
        bare = [replace(sample, scores={}) for sample in samples]
        lost = replace(record, scores={}, absent={"accuracy": "scorer off"})
        assert "scorer off" in gate([(lost, bare)], [(record, samples)]).judgements[0].reason

    @pytest.mark.parametrize(("rows", "status"), [(65, "slower"), (63, "changed")])
    def test_greedy_rows_are_exact(self, rows: int, status: str) -> None:
        """They repeat where the baseline has them, with the same calls; one without them stays
        valid.
        """
        base = factory.cell(nfe=16, rows=64)
        verdict = gate([factory.cell(nfe=16, rows=[rows] + [64] * 19)], [base])
        (found,) = verdict.judgements
        assert found.status == status
        assert f"NFE 16 → 16, rows 64 → {(rows + 19 * 64) / 20:.4g}, " in found.reason
        assert "changed at samples [0]" in found.reason
        assert ("update the baseline" in found.reason) == (status == "changed")
        assert gate([factory.cell(nfe=16, rows=64)], [base]).ok
        assert gate([factory.cell(nfe=16, rows=64)], [factory.cell(nfe=16)]).ok
        assert not gate([factory.cell(nfe=16)], [base]).ok

    @pytest.mark.parametrize(("tokens", "status"), [(602, "slower"), (598, "changed")])
    def test_greedy_tokens_forwarded_are_exact(self, tokens: int, status: str) -> None:
        """They repeat where the baseline has them; one from before the count stays valid."""
        base = factory.cell(tokens=600)
        (found,) = gate([factory.cell(tokens=[tokens] + [600] * 19)], [base]).judgements
        assert found.status == status
        assert f"NFE 16 → 16, tokens forwarded 600 → {(tokens + 19 * 600) / 20:g}, " in found.reason
        assert "changed at samples [0]" in found.reason
        assert gate([factory.cell(tokens=600)], [base]).ok
        assert gate([factory.cell(tokens=600)], [factory.cell()]).ok
        (lost,) = gate([factory.cell()], [base]).judgements
        assert (lost.status, "doesn't report them" in lost.reason) == ("refused", True)

    def test_sampled_tokens_forwarded_are_not_tested(self) -> None:
        """They follow the forwards, whose test stands for both and keeps its power."""
        base = factory.cell(sampler="random-k2+t1.0", tokens=600)
        verdict = gate([factory.cell(sampler="random-k2+t1.0", tokens=700)], [base])
        assert verdict.ok
        assert set(verdict.judgements[0].p) == {"score", "forwards"}

    def test_sampled_rows_are_tested(self) -> None:
        """With a temperature more rows in the same calls are tested as calls are."""
        base = factory.cell(sampler="spec-8+t1.0", nfe=8, rows=[30, 32] * 10)
        assert gate([factory.cell(sampler="spec-8+t1.0", nfe=8, rows=[32, 30] * 10)], [base]).ok
        (found,) = gate(
            [factory.cell(sampler="spec-8+t1.0", nfe=8, rows=[48, 50] * 10)], [base]
        ).judgements
        assert found.status == "slower"
        assert found.reason.startswith("more rows than the baseline (one-sided p = ")

    @pytest.mark.parametrize(
        ("nfe", "status", "word"),
        [(17, "slower", "16 → 17"), (15, "changed", "no sample's accuracy differs; if this is")],
    )
    def test_greedy_forwards_are_exact(self, nfe: int, status: str, word: str) -> None:
        """Greedy decoding with any other NFE fails, also if faster, for then the baseline is
        stale.
        """
        verdict = gate([factory.cell(nfe=nfe)], [factory.cell(nfe=16)])
        assert verdict.judgements[0].status == status
        assert word in verdict.judgements[0].reason

    def test_other_answers_in_fewer_forwards_are_changed(self) -> None:
        """Four answers newly wrong are too few for the test; the cell is named changed, with both
        scores and the flips, and nothing calls it slower or a speed-up.
        """
        verdict = gate(
            [factory.cell(right=answers(4), nfe=12, n=100)],
            [factory.cell(right=answers(0), nfe=16, n=100)],
        )
        (found,) = verdict.judgements
        assert found.status == "changed"
        assert found.p["score"] > verdict.level
        assert found.reason.startswith("accuracy 100.0 → 96.0 % (4 worse, 0 better of 100); greedy")
        assert "NFE 16 → 12" in found.reason
        assert "update the baseline" not in found.reason
        assert not verdict.ok
        for text in (gate_text(verdict), gate_markdown(verdict)):
            assert "slower" not in text.lower()
        assert "newly wrong 0, 1, 2, 3: pytest" in gate_text(verdict)
        (row,) = [
            line for line in unpadded(gate_markdown(verdict)).split("\n") if "| changed |" in line
        ]
        assert row.endswith("| 0, 1, 2, 3 |  |")

    def test_a_clear_drop_in_fewer_forwards_is_worse(self) -> None:
        """The scores decide where they can; the forwards are named behind them."""
        verdict = gate(
            [factory.cell(right=answers(20), nfe=12)], [factory.cell(right=answers(0), nfe=16)]
        )
        (found,) = verdict.judgements
        assert found.status == "worse"
        assert "; also greedy decoding must repeat exactly: NFE 16 → 12" in found.reason
        assert found.reason.count("20 worse") == 1

    def test_other_forwards_of_the_same_sum_are_changed(self) -> None:
        """One forward more here and one less there is not slower."""
        (found,) = gate([factory.cell(nfe=[17, 15] + [16] * 18)], [factory.cell(nfe=16)]).judgements
        assert found.status == "changed"
        assert "samples [0, 1]" in found.reason

    def test_graded_scores_are_not_called_wrong(self) -> None:
        """A graded score falls or rises; only 0/1 scores turn wrong."""
        base = factory.cell(right=[0.5] * 20, headline="rouge_l")
        verdict = gate([factory.cell(right=[0.5] * 18 + [0.4, 0.6], headline="rouge_l")], [base])
        assert verdict.ok
        assert "worse 18; better 19: pytest" in gate_text(verdict)
        assert "| why | worse | better |" in unpadded(gate_markdown(verdict))
        assert "newly" not in gate_text(verdict) + gate_markdown(verdict)

    def test_one_sample_slower_is_noticed(self) -> None:
        """One more forward for one sample fails, though means hardly move."""
        verdict = gate([factory.cell(nfe=[17] + [16] * 19)], [factory.cell(nfe=16)])
        assert verdict.judgements[0].status == "slower"
        assert "samples [0]" in verdict.judgements[0].reason

    def test_a_rate_that_falls_at_equal_forwards_is_noticed(self) -> None:
        """Shorter canvases at the same NFE mean fewer tokens per step; rounding in the file is no
        difference.
        """
        record, samples = factory.cell(nfe=16)
        shorter = replace(record, tokens_per_step=record.tokens_per_step - 0.01)
        (found,) = gate([(shorter, samples)], [(record, samples)]).judgements
        assert found.status == "slower"
        assert "tokens per step 2 → 1.99" in found.reason
        longer = replace(record, tokens_per_step=record.tokens_per_step + 0.01)
        (found,) = gate([(longer, samples)], [(record, samples)]).judgements
        assert found.status == "changed"
        assert gate([(replace(record, tokens_per_step=2 + 4e-7), samples)], [(record, samples)]).ok

    def test_sampled_forwards_may_vary(self) -> None:
        """With a temperature NFE may differ up and down, but a clear rise fails."""
        base = factory.cell(sampler="threshold-0.9+t1.0", nfe=[8, 9] * 10)
        assert gate([factory.cell(sampler="threshold-0.9+t1.0", nfe=[9, 8] * 10)], [base]).ok
        slow = gate([factory.cell(sampler="threshold-0.9+t1.0", nfe=[12, 12] * 10)], [base])
        assert slow.judgements[0].status == "slower"

    def test_names_that_cannot_be_read_are_judged_as_sampled(self) -> None:
        """Only a sampler that is known to be greedy must repeat its forwards exactly."""
        assert [
            greedy(name) for name in ("confidence-k2", "confidence-k2+t1.0", "as published")
        ] == [
            True,
            False,
            False,
        ]

    def test_holm_over_cells(self) -> None:
        """5 newly wrong fail alone (p = .03), but not among a dozen cells."""
        names = [f"waiting_line/{name}" for name in OPERATIONS] + [
            "puzzle/sudoku",
            "puzzle/latin_square",
        ]
        base = [factory.cell(task=name, right=answers(0)) for name in names]
        worse = factory.cell(task=names[0], right=answers(5))
        assert not gate([worse], base[:1]).ok
        assert gate([worse, *base[1:]], base).ok

    def test_graded_scores(self) -> None:
        """A graded score that falls a little on every sample fails; one that only scatters
        passes.
        """
        values = [0.3 + 0.4 * i / 99 for i in range(100)]
        base = factory.cell(task="text_writing/summarization", headline="rouge_l", right=values)
        lower = factory.cell(
            task="text_writing/summarization",
            headline="rouge_l",
            right=[value - 0.02 for value in values],
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
        assert detectable_drop(100) == 0.067
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
        assert power_text(gate(run, base)).count("at this run's rate of two-way flips (2.0 %)") == 1

    def test_fits_a_screen(self) -> None:
        """A hundred failures take no more than thirty lines; Markdown has them all."""
        base = factory.grid()
        verdict = gate(
            [
                factory.cell(
                    record.model, record.task, record.sampler, right=0.0, nfe=record.nfe_max
                )
                for record, _ in base
            ],
            base,
        )
        assert len(gate_text(verdict).splitlines()) <= 30
        assert unpadded(gate_markdown(verdict)).count("| worse |") == len(verdict.of("worse")) > 50

    def test_level(self) -> None:
        """A level that is no probability is refused."""
        with pytest.raises(ValueError, match="level 5"):
            gate([], [], level=5)


def test_statuses_that_pass() -> None:
    """Only passed and new cells are fine."""
    statuses = ("passed", "new", "worse", "slower", "changed", "refused", "missing", "error")
    assert [status for status in statuses if Judgement("a", status).ok] == ["passed", "new"]


class TestJoinedNames:
    def test_scores_alone(self) -> None:
        """Two samplers or models are judged by their scores; another NFE and dtype are
        theirs.
        """
        base = factory.cell(right=answers(0), nfe=16)
        sampler = factory.cell(right=answers(3), sampler="random-k4", nfe=8)
        (found,) = gate([sampler], [base], samplers={"random-k4": "confidence-k2"}).judgements
        assert (found.status, found.paired.worse, found.p.keys()) == (
            "passed",
            (0, 1, 2),
            {"score"},
        )
        facts = {
            "dtype": "bfloat16",
            "model_info": {"source": "other", "revision": "r2"},
            "nfe": 20,
        }
        model = factory.cell(right=answers(20), model="v2", **facts)
        (found,) = gate([model], [base], models={"v2": "tiny"}).judgements
        assert (found.status, found.id) == ("worse", "v2/shuffle/confidence-k2")

    @pytest.mark.parametrize(
        ("names", "facts", "said"),
        [
            ({"models": {"v2": "tiny"}}, {"model": "v2", "seed": 1}, "seeds 1"),
            ({"models": {"v2": "tiny"}}, {"model": "v2", "data_hash": "d2"}, "other data"),
            (
                {"samplers": {"ar": "confidence-k2"}},
                {"sampler": "ar", "dtype": "bfloat16"},
                "dtype",
            ),
            ({"models": {"tiny": "tiny"}}, {"nfe": 17}, "greedy decoding must repeat exactly"),
        ],
    )
    def test_all_else_must_be_equal(
        self, names: dict[str, object], facts: dict[str, object], said: str
    ) -> None:
        """Seeds and data, and for a joined sampler its model's dtype; a name that stands for itself
        is judged in full.
        """
        verdict = gate([factory.cell(**facts)], [factory.cell()], **names)  # type: ignore[arg-type]
        assert not verdict.ok
        assert said in verdict.judgements[0].reason

    def test_a_partner_that_is_missing(self) -> None:
        """A row of B that A has no partner for fails and names the partner; rows of other names are
        not judged.
        """
        base = [
            factory.cell(),
            factory.cell(task="waiting_line/copy"),
            factory.cell(sampler="random-k2"),
        ]
        run = [factory.cell(sampler="ar"), factory.cell(sampler="threshold-0.9")]
        verdict = gate(run, base, samplers={"ar": "confidence-k2"})
        assert [(found.id, found.status) for found in verdict.judgements] == [
            ("tiny/copy/confidence-k2", "missing"),
            ("tiny/shuffle/ar", "passed"),
        ]
        assert verdict.judgements[0].reason == "the run has no tiny/copy/ar to join it with"

"""The choice of docs/which-sampler.md: candidates from a screening, confirmed on new questions."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pbcore
from benches import which_sampler
from benches.simulation import Known, Scenario, p_of_flips
from benches.which_sampler import (
    BASE,
    MARGIN,
    Measured,
    Stage,
    Verdict,
    bound,
    candidates,
    drawn,
    main,
    question,
    questions,
    screening_table,
    simulated,
    trials,
    trials_table,
    winner,
    winners_table,
)

SMALL = ["--model", "ideal", "--task", "waiting_line/shuffle", "--screen", "4", "--confirm", "6"]


def cell(right: int, calls: float, rows: float | None = None, n: int = 100) -> Measured:
    """So many right answers, then wrong ones, at the same cost each."""
    scores = [1.0] * right + [0.0] * (n - right)
    return Measured(scores, [calls] * n, [calls if rows is None else rows] * n)


class TestCandidates:
    def test_the_cheapest_four(self) -> None:
        """In order of calls and of rows in turn; further ones wait, whatever their scores."""
        screened = {
            BASE: cell(100, 32),
            "few-calls": cell(99, 2, 20),
            "second": cell(99, 3, 24),
            "few-rows": cell(99, 5, 5),
            "both": cell(99, 4, 6),
            "fifth": cell(100, 6, 7),
        }
        assert list(candidates(screened)) == ["few-calls", "few-rows", "second", "both"]

    def test_at_most_three_points_below(self) -> None:
        """A loss of 3 in 100 is tried, one of 4 isn't."""
        screened = {BASE: cell(98, 32), "three": cell(95, 2), "four": cell(94, 1)}
        assert list(candidates(screened)) == ["three"]

    def test_cheaper_than_the_reference(self) -> None:
        """What saves neither calls nor rows isn't tried; calls alone are enough."""
        screened = {
            BASE: cell(100, 32),
            "calls-only": cell(99, 9, 40),
            "same": cell(100, 32),
            "dearer": cell(99, 33),
        }
        assert list(candidates(screened)) == ["calls-only"]

    def test_equals_take_one_place(self) -> None:
        """The shortest name stands for samplers with the same scores and costs on all questions;
        equal means alone are not enough.
        """
        other = Measured([0.0, *[1.0] * 99], [3.0] * 100, [3.0] * 100)
        screened = {BASE: cell(100, 32), "a+counts": cell(99, 3), "b": cell(99, 3), "c": other}
        assert candidates(screened) == {"b": ["a+counts"], "c": []}

    def test_without_the_reference(self) -> None:
        """A model that can't run one token at a time has no candidates."""
        assert candidates({"eb-0.1": cell(100, 3)}) == {}


class TestTrials:
    def test_holm_is_over_those_tried(self) -> None:
        """The best of four pays four times its p, and no more than itself where it is alone; names
        that lost their place in the screening cost nothing.
        """
        base = cell(800, 32, n=800)
        good = cell(788, 4, n=800)
        p = p_of_flips(12, 0, 800, MARGIN)
        assert 0.0001 < p < 0.0125
        bad = {f"bad-{i}": cell(700, 3, n=800) for i in range(3)}
        [alone] = trials(base, {"good": good})
        first, *rest = trials(base, {"good": good, **bad})
        assert (alone.p, first.p) == (pytest.approx(p), pytest.approx(4 * p))
        assert (alone.confirmed, first.confirmed) == (True, True)
        assert not any(trial.confirmed for trial in rest)

    def test_holm_can_refuse_what_alone_would_pass(self) -> None:
        """A p between 1.25 and 5 % is confirmed alone and not as the best of four."""
        base = cell(800, 32, n=800)
        wrong = next(count for count in range(800) if p_of_flips(count, 0, 800, MARGIN) > 0.0125)
        assert p_of_flips(wrong, 0, 800, MARGIN) < 0.05
        close = {"close": cell(800 - wrong, 4, n=800)}
        bad = {f"bad-{i}": cell(700, 3, n=800) for i in range(3)}
        assert trials(base, close)[0].confirmed
        assert not trials(base, {**close, **bad})[0].confirmed

    def test_answers_are_paired(self) -> None:
        """Both directions count, on the same question."""
        base = Measured([1.0, 1.0, 0.0, 0.0], [8.0] * 4, [8.0] * 4)
        head = Measured([1.0, 0.0, 1.0, 1.0], [2.0] * 4, [2.0] * 4)
        [trial] = trials(base, {"head": head})
        assert (trial.newly_wrong, trial.newly_right) == (1, 2)


class TestWinner:
    def verdict(self, **heads: Measured) -> Verdict:
        base = cell(800, 32, n=800)
        return Verdict("tiny", "copy", base, trials(base, heads), {name: [] for name in heads})

    def test_the_cheapest_that_is_confirmed(self) -> None:
        """By calls and by rows; what failed never wins, however cheap, and is named."""
        verdict = self.verdict(
            failed=cell(770, 1, n=800), calls=cell(800, 2, 9, 800), rows=cell(800, 3, n=800)
        )
        won = [winner(verdict, price) for price in ("calls", "rows")]
        assert [trial and trial.sampler for trial in won] == ["calls", "rows"]
        lines = winners_table([verdict]).splitlines()[2:]
        assert [line.split("|")[3:5] for line in lines] == [
            [" calls    ", " calls    "],
            [" rows     ", " rows     "],
        ]
        [failed] = [line for line in trials_table([verdict]).splitlines() if "failed" in line]
        assert "**not confirmed**" in failed
        assert "30 / 0" in failed

    def test_ties_go_to_the_shorter_name(self) -> None:
        """Of equal costs; one row of the table where calls and rows have the same winner."""
        heads = {"eb-0.10+counts": cell(800, 2, n=800), "eb-0.1": cell(800, 2, n=800)}
        verdict = self.verdict(**heads)
        [line] = winners_table([verdict]).splitlines()[2:]
        assert [word.strip() for word in line.split("|")[3:7]] == [
            "both",
            "eb-0.1",
            "2.00 (16.0 times fewer)",
            "2.00 (16.0 times fewer)",
        ]

    def test_a_winner_saves_what_it_wins_in(self) -> None:
        """A sampler of fewer calls and more rows than one token at a time wins in calls only."""
        verdict = self.verdict(ahead=cell(800, 2, 40, 800))
        assert winner(verdict, "calls") is not None
        assert winner(verdict, "rows") is None

    def test_none(self) -> None:
        """None confirmed and none tried are said, not left out."""
        failed = self.verdict(failed=cell(700, 1, n=800))
        table = winners_table([failed, Verdict("tiny", "sort", None, (), {})])
        assert "none confirmed" in table.splitlines()[2]
        assert "none tried" in table.splitlines()[3]

    def test_bounds_are_rounded_up(self) -> None:
        """The printed bound is never closer than the bound itself."""
        assert bound(-0.01803) == "at most 1.9 lower"
        assert bound(-0.019) == "at most 1.9 lower"
        assert bound(0.002) == "not lower"


class TestQuestions:
    def test_none_is_asked_twice(self) -> None:
        """Questions of the screening are left out of the confirmation even where the seeds give
        the same ones, and their number stays whole.
        """
        first, second = questions("waiting_line/copy", Stage("a", 0, 5), Stage("b", 0, 7))
        seen = {question(sample) for sample in first.samples}
        assert (len(first.samples), len(second.samples)) == (5, 7)
        assert not seen & {question(sample) for sample in second.samples}
        assert first.data_hash != second.data_hash

    @pytest.mark.parametrize("name", which_sampler.TASKS)
    def test_the_documented_stages(self, name: str) -> None:
        """All questions of the documented run differ."""
        first, second = questions(name, Stage("a", 0, 100), Stage("b", 1, 700))
        every = [question(sample) for sample in (*first.samples, *second.samples)]
        assert len(set(every)) == 800

    def test_one_seed_for_both_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Before anything runs."""
        with pytest.raises(SystemExit):
            main(["--confirm-seed", "0"])
        assert "give two seeds" in capsys.readouterr().err


class TestRun:
    def run(self, out: Path, *more: str) -> None:
        main([*SMALL, "--sampler", "eb-0.1", "--sampler", "spec-8", "--out", str(out), *more])

    def test_an_interrupted_run_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Finished cells are read; the tables are those of a run in one piece."""
        self.run(tmp_path / "whole")
        whole = capsys.readouterr().out
        decode = pbcore.decode
        calls = list[str]()

        def stopping(model: Any, samples: Any, sampler: str, **more: Any) -> Any:
            if len(calls) == 3:
                raise KeyboardInterrupt
            calls.append(sampler)
            return decode(model, samples, sampler, **more)

        monkeypatch.setattr(pbcore, "decode", stopping)
        with pytest.raises(KeyboardInterrupt):
            self.run(tmp_path / "parts")
        monkeypatch.setattr(pbcore, "decode", decode)
        capsys.readouterr()
        kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "parts").iterdir()}
        self.run(tmp_path / "parts")
        assert capsys.readouterr().out.partition("minutes")[0] == whole.partition("minutes")[0]
        assert len(kept) == 3
        assert {file: file.stat().st_mtime_ns for file in kept} == kept

    def test_the_csv_keeps_rows_of_other_models(self, tmp_path: Path) -> None:
        """Those of the model that was measured are replaced; its columns are those of the page's
        file.
        """
        kept = Path(which_sampler.__file__).parents[1] / "docs" / "which-sampler.csv"
        file = tmp_path / "tried.csv"
        file.write_text(kept.read_text(encoding="utf-8"), encoding="utf-8")
        self.run(tmp_path / "out", "--csv", str(file))
        with file.open(encoding="utf-8", newline="") as stream:
            head, *rows = csv.reader(stream)
        with kept.open(encoding="utf-8", newline="") as stream:
            page, *before = csv.reader(stream)
        others = [row for row in before if row[0] != "ideal"]
        assert tuple(head) == tuple(page) == which_sampler.TRIED
        assert rows[: len(others)] == others
        assert [row[:3] for row in rows[len(others) :]] == [
            ["ideal", "shuffle", name] for name in ("spec-8", "eb-0.1")
        ]

    def test_other_questions_are_measured_again(self, tmp_path: Path) -> None:
        """A file of another number of questions isn't taken for this one."""
        self.run(tmp_path)
        self.run(tmp_path, "--screen", "5")
        file = tmp_path / "screen_ideal_shuffle_eb-0.1.json"
        assert len(json.loads(file.read_text())["scores"]) == 5

    def test_the_stages_ask_their_own_questions(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing that the screening asked is asked in the confirmation, by any sampler."""
        asked = dict[int, set[str]]()
        decode = pbcore.decode

        def noting(model: Any, samples: Any, sampler: str, **more: Any) -> Any:
            asked.setdefault(more["seed"], set()).update(map(question, samples))
            return decode(model, samples, sampler, **more)

        monkeypatch.setattr(pbcore, "decode", noting)
        self.run(tmp_path)
        assert [len(asked[seed]) for seed in (0, 1)] == [4, 6]
        assert not asked[0] & asked[1]

    def test_what_a_model_cannot_run(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The sampler is absent from the tables, and its reason is printed once per task."""
        self.run(tmp_path, "--sampler", "dapd_direct-0.01")
        printed = capsys.readouterr()
        assert "dapd_direct" not in printed.out
        assert "ideal shuffle dapd_direct-0.01: " in printed.err

    def test_a_missing_cell(self) -> None:
        """A sampler without an answer on one task has a dash there, no totals, and comes last."""
        cells = [{BASE: cell(100, 32), "part": cell(100, 1)}, {BASE: cell(99, 32)}]
        last = screening_table("tiny", ["copy", "sort"], cells).splitlines()[-1]
        assert [word.strip() for word in last.strip("|").split("|")] == [
            "part",
            "100 / 1.0",
            "–",
            "–",
            "–",
        ]


class TestSimulation:
    def test_tables_are_as_the_scenario_says(self) -> None:
        """The shares of lost and gained answers, and the price."""
        heads = {"head": Known(0.055, 0.025, 0.5)}
        cells = drawn(np.random.default_rng(0), 200_000, heads)
        changes = np.array(cells["head"].scores) - np.array(cells[BASE].scores)
        assert np.mean(changes == -1) == pytest.approx(0.055, abs=0.003)
        assert np.mean(changes == 1) == pytest.approx(0.025, abs=0.003)
        assert cells["head"].price("calls") == 0.5 * cells[BASE].price("calls")

    @pytest.mark.parametrize(("lost", "share"), [(0.0, 1.0), (0.5, 0.0)])
    def test_clear_cases(self, lost: float, share: float) -> None:
        """A sampler without a flip is always confirmed, one that loses half never."""
        scenario = Scenario("", {"head": Known(lost, 0.0, 0.5)}, ["head"])
        assert simulated(scenario, 20, 50, 300) == share

"""pbcore rescore: kept answers scored again, as a new run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.exchange.rescore import rescore, rescore_cell, rescored_text
from pbcore.metrics import grammar, semantic
from pbcore.metrics.grammar import GrammarVerdict
from pbcore.metrics.languagetool import LanguageToolUnavailable
from pbcore.metrics.languagetool.install import NO_DOWNLOAD_VARIABLE, URL_VARIABLE
from pbcore.results import CellRecord, Conditions, RunDir, build_cell, create, error_cell
from pbcore.results.load import load_stored
from pbcore.tasks import Sample, load_task
from pbcore.tasks.scoring import SCORERS, Scored
from tests.results import factory

COPY = "waiting_line/copy"


def run_of(
    path: Path, task: str = COPY, n: int = 4, lengths: Any = None, source: Any = None, **facts: Any
) -> RunDir:
    """A run with the labels as answers, every second one spoilt, as the plugin records it."""
    options = {name: facts[name] for name in ("shots", "cot") if name in facts}
    asked = load_task(task, source, lengths, n, seed=facts.get("data_seed", 0), **options)
    said = "The answer is: " if options.get("cot") else ""
    texts = [
        said + str(sample.answer) + ("" if i % 2 else " spoilt ]")
        for i, sample in enumerate(asked.samples)
    ]
    scored = asked.score_many(texts, asked.samples)
    conditions = Conditions.unknown(
        data_source=asked.source,
        data_hash=asked.data_hash,
        key="k",
        options={"data_seed": facts.get("data_seed", 0), **options},
    )
    record = CellRecord(
        f"m/{task.split('/')[1]}/ar", "m", task, "ar", conditions, headline=asked.headline
    )
    answers = [factory.answer(nfe=8 + i, text=text) for i, text in enumerate(texts)]
    run = create(path.parent, path.name)
    run.write_run({"command": ["pytest"], "started": "then", "profile": "quick", **facts})
    run.write_cell(
        *build_cell(record, answers, scored, rounds=[1.5], indices=[s.index for s in asked.samples])
    )
    return run


class Stricter:
    """List copying under another rule: the answer must be the label and nothing else, and its
    length counts.
    """

    metrics = ("accuracy", "brevity")

    def score(
        self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]
    ) -> list[Scored]:
        return [
            Scored(
                {"accuracy": float(text == sample.answer), "brevity": 1 / len(text)},
                {"why": "by the new rule"},
            )
            for text, sample in zip(predictions, samples, strict=True)
        ]


@pytest.fixture
def stricter(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Called, it replaces the scorer of list copying."""
    known = dict(SCORERS.all())
    name = load_task(COPY, limit=1).scorer

    def replace_it() -> None:
        monkeypatch.setattr(
            type(SCORERS),
            "__getitem__",
            lambda self, key: Stricter() if key == name else known[key],
        )

    return replace_it


class TestScores:
    def test_what_only_the_cell_says_is_absent(self, tmp_path: Path) -> None:
        """A score that is there now is no longer absent; what no scoring measures stays so, with
        its reason.
        """
        run = run_of(tmp_path / "run")
        [entry] = run.read_cells()
        absent = {"accuracy": "no scorer", "seconds": "imported"}
        asked = load_task(COPY, limit=4)
        one = rescore_cell(replace(entry, cell=replace(entry.cell, absent=absent)), asked)
        assert one.after.cell.absent == {"seconds": "imported"}
        assert "seconds" not in rescored_text([one])  # which tells of scores alone
        assert one.after.cell.scores == entry.cell.scores

    def test_equal_tools_give_equal_scores(self, tmp_path: Path) -> None:
        """The whole record comes back, key included; run.json names the parent."""
        parent = run_of(tmp_path / "old")
        made, [one] = rescore(parent.path, tmp_path / "new")
        assert load_stored(made.path) == load_stored(parent.path)
        assert one.changed == {}
        told = made.read_run()["parent"]
        assert (told["run"], told["started"], told["cells"], told["changed"]) == (
            "old",
            "then",
            1,
            [],
        )
        assert told["versions"]["pbcore"]
        assert made.read_run()["command"] == ["pytest"]
        assert {"results.json", "samples.jsonl", "report.md", "report.html", "questions"} <= {
            file.name for file in made.path.iterdir()
        }

    def test_a_changed_scorer_changes_scores_only(
        self, tmp_path: Path, stricter: Callable[[], None]
    ) -> None:
        """New scores, details and failures; answers, NFE and seconds are carried over; the key,
        which stands for the old outcome, is dropped.
        """
        parent = run_of(tmp_path / "old")
        stricter()
        before = load_stored(parent.path)[0]
        after = load_stored(rescore(parent.path, tmp_path / "new")[0].path)[0]
        assert after.cell.scores["accuracy"].mean == 0.5
        assert after.cell.scores["brevity"].n == 4
        blank: dict[str, Any] = {"scores": {}, "failures": {}, "absent": {}}
        conditions = replace(before.cell.conditions, key=None)
        assert replace(after.cell, **blank) == replace(before.cell, **blank, conditions=conditions)
        for old, new in zip(before.samples, after.samples, strict=True):
            assert {**asdict(old), "scores": {}, "details": {}} == {
                **asdict(new),
                "scores": {},
                "details": {},
            }
            assert new.details == {"why": "by the new rule"}

    def test_what_changed_is_told(
        self, tmp_path: Path, stricter: Callable[[], None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Cell, score, answers, and the mean before and after."""
        run_of(tmp_path / "old")
        stricter()
        assert main(["rescore", str(tmp_path / "old"), "-o", str(tmp_path / "new")]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert " ".join(lines[0].split()) == "cell score changed of answers before now"
        now = load_stored(tmp_path / "new")[0].cell.scores["brevity"].mean
        row = next(line.split() for line in lines if "brevity" in line)
        assert row == ["m/copy/ar", "brevity", "4", "4", "–", f"{100 * now:.1f}", "%"]
        assert lines[-2:] == ["1 cell scored again, 0 with the same scores", str(tmp_path / "new")]

    def test_a_parent_of_a_parent(self, tmp_path: Path) -> None:
        """The line of descent stays."""
        first = run_of(tmp_path / "a")
        second, _ = rescore(first.path, tmp_path / "b")
        third, _ = rescore(second.path, tmp_path / "c")
        told = third.read_run()["parent"]
        assert (told["run"], told["parent"]["run"]) == ("b", "a")

    def test_failed_cells_are_copied(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """They have nothing to score and stay failed; their questions, and those of an imported
        run, go along. Without a name the new run stands beside the old one.
        """
        parent = run_of(tmp_path / "old")
        failed = error_cell(factory.cell(model="broken")[0], "boom")
        parent.write_cell(failed, ())
        for folder in ("questions", "data"):
            (parent.path / folder).mkdir()
            (parent.path / folder / "more.json").write_text("{}")
        assert main(["rescore", str(parent.path)]) == 0
        made = Path(capsys.readouterr().out.splitlines()[-1])
        assert made.parent == tmp_path
        assert failed in [entry.cell for entry in load_stored(made)]
        assert (made / "questions" / "more.json").exists()
        assert (made / "data" / "more.json").exists()
        told = RunDir(made).read_run()["parent"]["rescored"]
        assert (
            abs((datetime.now().astimezone() - datetime.fromisoformat(told)).total_seconds()) < 3600
        )
        assert "." not in told

    def test_other_details_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Scores that are equal but for rounding haven't changed; but the key stands for the
        details, too.
        """
        parent = run_of(tmp_path / "old")
        [entry] = load_stored(parent.path)
        nearly = [
            replace(one, scores={k: v + 1e-12 for k, v in one.scores.items()})
            for one in entry.samples
        ]
        asked = load_task(COPY, limit=4)
        same = rescore_cell(replace(entry, samples=tuple(nearly)), asked)
        assert (same.changed, same.after.cell.conditions.key) == ({}, "k")
        told = [replace(one, details={"why": "by an older version"}) for one in entry.samples]
        other = rescore_cell(replace(entry, samples=tuple(told)), asked)
        assert (other.changed, other.after.cell.conditions.key) == ({}, None)
        far = [
            replace(one, scores={k: v - 0.25 for k, v in one.scores.items()})
            for one in entry.samples
        ]
        assert rescore_cell(replace(entry, samples=tuple(far)), asked).changed["accuracy"] == 4

    def test_text_after_the_first_eos(self, tmp_path: Path) -> None:
        """A run that scored the whole canvas is scored so again."""
        parent = run_of(tmp_path / "old")
        [entry] = load_stored(parent.path)
        options = {**entry.cell.conditions.options, "official_text": True}
        cell = replace(entry.cell, conditions=replace(entry.cell.conditions, options=options))
        parent.write_cell(cell, [replace(one, official_text="nothing") for one in entry.samples])
        _, [one] = rescore(parent.path, tmp_path / "new")
        assert one.after.cell.scores["accuracy"].mean == 0


class TestTools:
    def test_a_missing_tool_never_loses_a_score(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A cell whose grammar was measured and can't be now stays as it was, and the reason is
        told.
        """
        task = load_task("text_writing/w2s_easy", limit=2)
        texts = [str(sample.answer or "The dog ran.") for sample in task.samples]
        full = {"grammar": 1.0, "inclusion": 1.0, "inclusion_any_case": 1.0, "v1": 1.0, "v2": 1.0}
        conditions = Conditions.unknown(data_source=task.source, data_hash=task.data_hash)
        record = CellRecord("m/w2s_easy/ar", "m", task.name, "ar", conditions, headline="grammar")
        parent = create(tmp_path, "old")
        parent.write_cell(
            *build_cell(
                record, [factory.answer(text=t) for t in texts], [Scored(full)] * 2, rounds=[1]
            )
        )

        def gone() -> None:
            raise LanguageToolUnavailable("no LanguageTool here")

        monkeypatch.setattr(grammar, "checker", gone)
        made, results = rescore(parent.path, tmp_path / "new")
        assert load_stored(made.path) == load_stored(parent.path)
        kept = "1 cell left unchanged: grammar: no LanguageTool here"
        assert rescored_text(results).splitlines() == [
            "0 cells scored again, 0 with the same scores",
            kept,
        ]

    def test_the_tools_that_scored_are_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """LanguageTool and BERTScore where a text was scored with them; not where they are there
        and weren't needed.
        """
        server = SimpleNamespace(identity="LanguageTool 9")
        checker = SimpleNamespace(
            server=server, check=lambda texts: [GrammarVerdict() for _ in texts]
        )
        meaning = SimpleNamespace(source="some model", f1=lambda texts, _: [0.5 for _ in texts])
        monkeypatch.setattr(grammar, "checker", lambda: checker)
        monkeypatch.setattr(semantic, "available", lambda: True)
        monkeypatch.setattr(semantic, "bert_scorer", lambda: meaning)
        both = {"LanguageTool": "LanguageTool 9", "BERTScore": "some model"}
        for task, tools in ((COPY, {}), ("text_writing/paraphrasing", both)):
            made, _ = rescore(run_of(tmp_path / "old" / task, task).path, tmp_path / task)
            assert made.read_run()["parent"]["tools"] == tools

    def test_what_was_not_measured_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Once for all cells that lack it for the same reason."""

        def gone() -> None:
            raise LanguageToolUnavailable("no LanguageTool here")

        monkeypatch.setattr(grammar, "checker", gone)
        _, results = rescore(
            run_of(tmp_path / "old", "text_writing/w2s_easy").path, tmp_path / "new"
        )
        assert rescored_text(results).splitlines() == [
            "1 cell scored again, 1 with the same scores",
            "not measured in 1 cell: grammar, v1, v2: no LanguageTool here",
        ]

    def test_options_are_for_the_tools(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """They read the environment, where an option that isn't given leaves no trace; a folder
        that holds no model is refused before anything is scored.
        """
        names = (NO_DOWNLOAD_VARIABLE, URL_VARIABLE, semantic.MODEL_VARIABLE)
        run_of(tmp_path / "old")
        for given in ([], ["--no-download", "--languagetool-url", "http://x"]):
            with monkeypatch.context() as patch:
                for name in names:
                    patch.setenv(name, "")  # so that it is put back
                    patch.delenv(name)
                assert (
                    main(
                        [
                            "rescore",
                            str(tmp_path / "old"),
                            "-o",
                            str(tmp_path / f"new{len(given)}"),
                            *given,
                        ]
                    )
                    == 0
                )
                assert [os.environ.get(name) for name in names] == (
                    ["1", "http://x", None] if given else [None] * 3
                )
                assert (
                    main(
                        [
                            "rescore",
                            str(tmp_path / "old"),
                            "--bertscore-model",
                            str(tmp_path / "none"),
                        ]
                    )
                    == 2
                )
        assert str(tmp_path / "none") in capsys.readouterr().err

    @pytest.mark.slow
    def test_without_torch(self, tmp_path: Path) -> None:
        """No model and no torch is needed."""
        run_of(tmp_path / "old")
        words = ["rescore", str(tmp_path / "old"), "-o", str(tmp_path / "new")]
        code = (
            f"import sys; from pbcore.cli import main; print(main({words!r}), 'torch' in"
            " sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "0 False"


def test_a_run_without_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """results.json alone can't be scored again."""
    run = run_of(tmp_path / "old")
    results, lines = run.assemble()
    alone = tmp_path / "alone"
    alone.mkdir()
    results.rename(alone / "results.json")
    lines.unlink()
    assert main(["rescore", str(alone), "-o", str(tmp_path / "new")]) == 2
    assert "has no kept answers" in capsys.readouterr().err

"""pbcore import: run folders of the 2026 rewrite as full runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pbcore.base.check import LoadError
from pbcore.cli import main
from pbcore.exchange.rescore import rescore
from pbcore.extras.paper.rewrite.command import import_runs, imported_text
from pbcore.results import load, questions
from pbcore.results.load import load_stored
from pbcore.tasks import load_task
from tests.extras.paper.rewrite import folders as rewrite
from tests.reference import reference

COPY = "waiting_line/copy"
SHUFFLE = "waiting_line/shuffle"


class TestExample:
    def test_as_published(self, tmp_path: Path) -> None:
        """The published folder: every answer, score, NFE and length is that of its row."""
        folder = next(reference("published", "v2_run_example").rglob("*_all"))
        rows = [
            json.loads(line)
            for line in next(folder.glob("samples_*.jsonl")).read_text().splitlines()
        ]
        run, [one] = import_runs(folder, tmp_path / "run")
        cell = one.stored.cell
        samples = one.stored.samples
        assert cell.id == "Dream-org/Dream-v0-Instruct-7B/sudoku/threshold-0.7"
        assert [(s.index, s.text, s.nfe, s.answer_tokens, s.canvas_tokens) for s in samples] == [
            (row["doc_id"], row["resps"][0][0], row["nfe"], row["output_length"], 64)
            for row in rows
        ]
        assert [(s.scores["accuracy"], s.scores["accuracy_strict"]) for s in samples] == [
            (row["score"], row["score_strict"]) for row in rows
        ]
        assert cell.tokens_per_step == pytest.approx(
            sum(row["tokens_per_step"] for row in rows) / len(rows)
        )
        assert one.published == 0.78  # of 100 rows, 6 of which are here
        assert "the folder's samples are not those of its results file" in imported_text([one])
        [record] = load(run.path).to_dict("records")
        assert (record["prompts"], record["data_source"], record["status"]) == (
            "rewrite-2026",
            "rewrite-2026",
            "ok",
        )

    def test_scored_again_it_has_the_published_scores(self, tmp_path: Path) -> None:
        """With the questions that the run keeps, wherever the folder is by then."""
        folder = shutil.copytree(reference("published", "v2_run_example"), tmp_path / "published")
        run, _ = import_runs(folder, tmp_path / "run")
        shutil.rmtree(folder)
        again, [one] = rescore(run.path, tmp_path / "again")
        for score in ("accuracy", "accuracy_strict"):
            assert score not in one.changed
        assert (
            load_stored(again.path)[0].cell.scores["accuracy"]
            == load_stored(run.path)[0].cell.scores["accuracy"]
        )

    @pytest.mark.slow
    def test_real_answers_to_all_kinds_of_tasks(self, tmp_path: Path) -> None:
        """146 published answers, imported and scored again, have the published scores, grammar
        aside, which takes LanguageTool.
        """
        given = [
            json.loads(line)
            for line in reference("golden", "real_outputs.jsonl").read_text().splitlines()
        ]
        runs: dict[tuple[str, ...], dict[str, list[object]]] = {}
        ours = {theirs: name for name, theirs in rewrite.NAMES.items()}
        for one in given:
            place = (one["model"], one["method"], one["param"], "20260319_172837_all")
            values = {
                name: one[name]
                for name in ("score", "score_strict", "inclusion", "rougeL", "inv_bleu", "nfe")
            }
            line = rewrite.row(
                one["doc_id"], one["prompt"], one["label"], one["response"], **values
            )
            runs.setdefault(place, {}).setdefault(ours[one["task"]], []).append(line)
        for place, tasks in runs.items():
            rewrite.write(tmp_path / "published", tasks, place)  # type: ignore[arg-type]
        run, _ = import_runs(tmp_path / "published", tmp_path / "run")
        _, results = rescore(run.path, tmp_path / "again")
        changed = {
            name for one in results for name in one.changed if name in one.before.cell.scores
        }
        assert changed <= {"grammar"}
        assert sum(len(one.before.samples) for one in results) == 146
        compared = {
            name
            for one in results
            for name in one.before.cell.scores.keys() & one.after.cell.scores.keys()
        }
        assert {
            "accuracy",
            "accuracy_strict",
            "inclusion",
            "rouge_l_unstemmed",
            "inv_bleu",
        } <= compared


class TestImport:
    def test_a_run_like_ours(self, tmp_path: Path) -> None:
        """Several folders become one run of several cells; what no row has is null with its
        reason.
        """
        rewrite.write(tmp_path / "p", {COPY: rewrite.rows(COPY, [True, False, True])})
        other = ("org__model-7B", "confidence_topk", "k2", "20260319_172837_all")
        rewrite.write(
            tmp_path / "p",
            {COPY: rewrite.rows(COPY, [True] * 3), SHUFFLE: rewrite.rows(SHUFFLE, [False])},
            other,
        )
        run, results = import_runs(tmp_path / "p", tmp_path / "run")
        stored = {entry.cell.id: entry for entry in load_stored(run.path)}
        assert sorted(stored) == [
            "org/model-7B/copy/confidence-k2",
            "org/model-7B/copy/threshold-0.9",
            "org/model-7B/shuffle/confidence-k2",
        ]
        cell = stored["org/model-7B/copy/threshold-0.9"].cell
        assert [sample.index for sample in stored[cell.id].samples] == [0, 1, 3]
        assert (cell.nfe_mean, cell.tokens_per_step, cell.seconds, cell.conditions.device) == (
            8,
            4,
            None,
            None,
        )
        assert "no times" in cell.absent["seconds"]
        assert cell.decoding == {}  # NaN in every row
        assert cell.conditions.options["generation"] == {"max_tokens": 32, "alg_threshold": 0.9}
        assert cell.scores["accuracy"].mean == pytest.approx(2 / 3)
        assert len(results) == 3
        assert {"report.md", "report.html", "results.json"} <= {
            file.name for file in run.path.iterdir()
        }

    def test_lengths_with_gaps_are_listed(self, tmp_path: Path) -> None:
        """3, 5 and 7 are not 3-7."""
        samples = load_task(COPY, n=[3, 5, 7], limit=6).samples
        rows = [
            rewrite.row(i, one.prompt, one.label, str(one.answer), score=1.0, score_strict=1.0)
            for i, one in enumerate(samples)
        ]
        for one, sample in zip(rows, samples, strict=True):
            one["doc"]["metadata"] = {"length": sample.length}
        _, [found] = import_runs(rewrite.write(tmp_path, {COPY: rows}), tmp_path / "run")
        assert found.stored.cell.length == "3,5,7"

    def test_the_questions_are_kept(self, tmp_path: Path) -> None:
        """The run has the questions of each cell, without the answers that came with them."""
        folder = rewrite.write(tmp_path / "p", {COPY: rewrite.rows(COPY, [True, False])})
        run, [one] = import_runs(folder, tmp_path / "run")
        digest = one.stored.cell.conditions.data_hash or ""
        kept = run.path / "data" / digest[:12]
        assert load_task(COPY, data_dir=kept).data_hash == digest
        assert "nothing" not in next(kept.iterdir()).read_text()
        assert set(questions.read_questions(run)[COPY, digest]) == {0, 1}

    def test_a_count_that_is_a_batch_mean_is_none(self, tmp_path: Path) -> None:
        """NFE of a batch that is no whole number is not a sample's, so the cell has none, and says
        so.
        """
        lines = rewrite.rows(COPY, [True, True])
        lines[1]["nfe"] = 7.5
        _, [one] = import_runs(rewrite.write(tmp_path / "p", {COPY: lines}), tmp_path / "run")
        assert one.stored.cell.nfe_mean is None
        assert one.stored.cell.absent["nfe"].startswith(
            "not in every row of samples_parallelbench_waiting_line_copy"
        )


class TestPublished:
    def test_scores_of_the_results_file(self, tmp_path: Path) -> None:
        """Percent become shares by task; groups, tasks of others and what was not measured have
        none.
        """
        folder = rewrite.write(
            tmp_path / "p",
            {COPY: rewrite.rows(COPY, [True, False]), SHUFFLE: rewrite.rows(SHUFFLE, [True])},
        )
        results = {
            "parallelbench_all": {"score,none": 90.0},
            f"parallelbench_{rewrite.NAMES[COPY]}": {"score,none": 40.0, "nfe,none": 7.0},
            f"parallelbench_{rewrite.NAMES[SHUFFLE]}": {"score,none": float("nan")},
            "gsm8k": {"score,none": 10.0},
        }
        (folder / "results_parallelbench.json").write_text(json.dumps({"results": results}))
        _, imported = import_runs(folder, tmp_path / "run")
        assert {one.stored.cell.task: one.published for one in imported} == {
            COPY: 0.4,
            SHUFFLE: None,
        }
        text = imported_text(imported)
        assert "40.0" in next(line for line in text.splitlines() if "/copy/" in line)
        assert (
            "the folder's samples are not those of its results file" in text
        )  # 50 % of its rows are right

    @pytest.mark.parametrize("text", ["{}", '{"results": [1]}', '{"results": {"a": 1}}', "{"])
    def test_another_file(self, tmp_path: Path, text: str) -> None:
        """It is named, and nothing is written."""
        folder = rewrite.write(tmp_path / "p", {COPY: rewrite.rows(COPY, [True])})
        (folder / "results_parallelbench.json").write_text(text)
        with pytest.raises(
            LoadError, match=r"results_parallelbench.json is not a results file of the rewrite"
        ):
            import_runs(folder, tmp_path / "run")
        assert not (tmp_path / "run").exists()


class TestErrors:
    def test_nothing_to_import(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A folder without samples, and one with results alone, which reports read."""
        assert main(["import", str(tmp_path), "-o", str(tmp_path / "x")]) == 2
        assert "give a run folder" in capsys.readouterr().err
        (tmp_path / "results_parallelbench.json").write_text("{}")
        assert main(["import", str(tmp_path), "-o", str(tmp_path / "x")]) == 2
        assert "pbcore report reads them" in capsys.readouterr().err
        assert not (tmp_path / "x").exists()

    def test_two_runs_of_one_cell(self, tmp_path: Path) -> None:
        """Two dates of the same model, method and parameter: which one is the user's choice."""
        for date in ("20260319_all", "20260320_all"):
            rewrite.write(tmp_path, {COPY: rewrite.rows(COPY, [True])}, (*rewrite.PARTS[:3], date))
        with pytest.raises(
            ValueError, match=r"copy/threshold-0.9 is in .*20260319_all and .*20260320_all"
        ):
            import_runs(tmp_path, tmp_path / "run")

    @pytest.mark.parametrize(
        ("field", "value", "said"),
        [
            ("resps", [["a", "b"]], r"doc_id 1: field resps is .*; it should be \[\[answer\]\]"),
            ("resps", None, "doc_id 1: field resps is None"),
            ("score", 3.0, "doc_id 1: field score is 3.0; it should be between 0 and 1"),
        ],
    )
    def test_rows_that_cannot_be_read(
        self, tmp_path: Path, field: str, value: object, said: str
    ) -> None:
        """File, row and field are named, and nothing is written."""
        lines = rewrite.rows(COPY, [True, True])
        lines[1][field] = value
        with pytest.raises(ValueError, match=said):
            import_runs(rewrite.write(tmp_path / "p", {COPY: lines}), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        "odd",
        [
            {"arguments": {"gen_args_0": None}},
            {"arguments": {"gen_args_0": {"arg_1": {"until": [float("nan")], "max_tokens": 32}}}},
            {"nfe": 10**400, "tokens_per_step": -1.0},
            {"nfe": 1e30},
            {"tokens_per_step": 1e308},
        ],
    )
    def test_odd_numbers_and_arguments_are_left_out(
        self, tmp_path: Path, odd: dict[str, object]
    ) -> None:
        """What a record can't hold is not part of it; the answers and their scores are."""
        lines = [{**line, **odd} for line in rewrite.rows(COPY, [True, False])]
        run, _ = import_runs(rewrite.write(tmp_path / "p", {COPY: lines}), tmp_path / "run")
        [entry] = load_stored(run.path)
        assert entry.cell.scores["accuracy"].mean == 0.5
        assert entry.cell.conditions.options["generation"].keys() <= {"max_tokens", "alg_threshold"}

    def test_an_existing_target_stays(self, tmp_path: Path) -> None:
        """A run never overwrites another."""
        folder = rewrite.write(tmp_path / "p", {COPY: rewrite.rows(COPY, [True])})
        import_runs(folder, tmp_path / "run")
        with pytest.raises(ValueError, match="exists and is not empty"):
            import_runs(folder, tmp_path / "run")


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told from one without answers."""
    assert main(["import", str(tmp_path / "nope")]) == 2
    assert (
        capsys.readouterr().err
        == f"pbcore import: {tmp_path / 'nope'} does not exist; give a run folder\n"
    )

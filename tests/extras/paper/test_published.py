"""Published results in our columns: the rewrite's run folders and table, the paper's tables."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pbcore.extras.paper.published import sampler_name
from pbcore.results import load
from tests.reference import bundled


def test_run_folder() -> None:
    """The rewrite's run folder becomes rows of ours; tokens per step as published, text
    headline = grammar.
    """
    table = load(bundled("rewrite_run")).set_index("task")
    assert set(table.index) == {
        "puzzle/sudoku",
        "text_writing/paraphrasing",
        "waiting_line/copy",
    }
    sudoku = table.loc["puzzle/sudoku"]
    paraphrase = table.loc["text_writing/paraphrasing"]
    assert (sudoku["accuracy"], sudoku["nfe"], sudoku["sampler"]) == (
        0.78,
        4.21,
        "threshold-0.7",
    )
    assert sudoku["tokens_per_step"] == pytest.approx(18.2121, abs=1e-4)
    assert paraphrase["grammar"] == 0.84
    assert math.isnan(paraphrase["accuracy"])
    assert table.loc["waiting_line/copy", "model"] == "Dream-org/Dream-v0-Instruct-7B"


def test_every_column_of_the_table(tmp_path: Path) -> None:
    """Percent become shares under our names, the score is that of the task's kind, other tasks
    are left out.
    """
    (tmp_path / "t.csv").write_text(
        "model,method,param,task,score,score_strict,grammar_score,inclusion_score,rougeL_score,bertscore_score,inv_bleu_score,"
        "nfe,tokens_per_step,output_length,run\n"
        "a__b,topk_margin,k2,waiting_line_copy,90,80,,,,,,16,2,20,r1\n"
        "a__b,topk_margin,k2,text_writing_paraphrasing,70,,70,60,50,40,30,N/A,4,40,r1\n"
        "a__b,topk_margin,k2,all,80,,,,,,,16,3,30,r1\n"
    )
    table = load(tmp_path / "t.csv").set_index("task")
    copy = table.loc["waiting_line/copy"]
    paraphrase = table.loc["text_writing/paraphrasing"]
    assert len(table) == 2
    assert copy[["id", "model", "category", "sampler", "status", "headline", "run"]].tolist() == [
        "a/b/copy/margin-k2",
        "a/b",
        "waiting_line",
        "margin-k2",
        "ok",
        "accuracy",
        "r1",
    ]
    assert copy[["data_source", "prompts", "dummy", "shared_device"]].tolist() == [
        "published",
        "rewrite-2026",
        False,
        False,
    ]
    numbers = [
        "score",
        "accuracy",
        "accuracy_strict",
        "nfe",
        "tokens_per_step",
        "output_length",
    ]
    assert copy[numbers].tolist() == [0.9, 0.9, 0.8, 16, 2, 20]
    scores = ["score", "grammar", "inclusion", "rouge_l", "bertscore", "inv_bleu"]
    assert paraphrase[scores].tolist() == [0.7, 0.7, 0.6, 0.5, 0.4, 0.3]
    assert paraphrase["headline"] == "grammar"
    assert math.isnan(paraphrase["nfe"])


def test_a_run_folder_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folders above don't say what was run, model, method and parameter are
    unknown.
    """
    (tmp_path / "x_all").mkdir()
    results = {"results": {"parallelbench_waiting_line_copy": {"score,none": 50, "nfe,none": 8}}}
    (tmp_path / "x_all" / "results_parallelbench.json").write_text(json.dumps(results))
    monkeypatch.chdir(tmp_path)
    (row,) = load("x_all").to_dict("records")
    assert (row["model"], row["sampler"], row["run"]) == ("unknown", "unknown-unknown", "x_all")
    assert (row["accuracy"], row["nfe"]) == (0.5, 8)


def test_a_row_of_the_papers_tables(tmp_path: Path) -> None:
    """Its metrics become columns of shares; the score is the accuracy, of text tasks the
    grammar.
    """
    (tmp_path / "p.csv").write_text(
        "table,model,task,setting,metric,value_percent\n"
        "7,LLaDA,text_writing_summarization,k2,grammar,80\n"
        "7,LLaDA,text_writing_summarization,k2,rouge_l,40\n"
        "5,LLaDA,waiting_line_copy,k2,accuracy,95\n"
    )
    table = load(tmp_path / "p.csv").set_index("task")
    copy = table.loc["waiting_line/copy"]
    summary = table.loc["text_writing/summarization"]
    assert (copy["score"], copy["accuracy"], summary["score"], summary["rouge_l"]) == (
        0.95,
        0.95,
        0.8,
        0.4,
    )
    assert [row["headline"] for row in (copy, summary)] == ["accuracy", "grammar"]
    assert copy[["id", "category", "sampler", "prompts", "status", "data_source"]].tolist() == [
        "LLaDA/copy/as-published",
        "waiting_line",
        "as-published",
        "v1",
        "ok",
        "published",
    ]
    assert not table[["dummy", "shared_device"]].any(axis=None)
    assert list(table.index) == [
        "text_writing/summarization",
        "waiting_line/copy",
    ]  # as in the file


@pytest.mark.parametrize(
    ("task", "metric"), [("waiting_line/copy", "accuracy"), ("text_writing/x", "grammar")]
)
def test_a_table_of_one_kind_of_task(tmp_path: Path, task: str, metric: str) -> None:
    """It needs no column for the score of the other kind."""
    (tmp_path / "p.csv").write_text(
        f"table,model,task,setting,metric,value_percent\n5,M,{task},k2,{metric},50\n"
    )
    (row,) = load(tmp_path / "p.csv").to_dict("records")
    assert (row["headline"], row["score"]) == (metric, 0.5)


def test_published_tables() -> None:
    """Both CSVs load: 17 tasks for each of 42 runs; Table 5's LLaDA copy at 100 %."""
    rewrite = load(bundled("parallelbench_v2.csv"))
    assert len(rewrite) == 42 * 17
    assert rewrite["score"].between(0, 1).all()
    assert rewrite["id"].is_unique
    assert set(rewrite["prompts"]) == {"rewrite-2026"}
    paper = load(bundled("paper_tables.csv"))
    chosen = paper[(paper["model"] == "LLaDA") & (paper["task"] == "waiting_line/copy")]
    assert list(chosen["accuracy"]) == [1.0]
    assert set(paper["prompts"]) == {"v1"}


def test_sampler_names() -> None:
    """Methods get our names where they have one."""
    assert sampler_name("topk_margin", "k2") == "margin-k2"
    assert (
        sampler_name("klass", "conf_threshold0.9_kl_history_length2_kl_threshold0.01")
        == "klass-0.9"
    )
    assert sampler_name("confidence_factor", "f1.3") == "factor-1.3-ref"

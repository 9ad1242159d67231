"""Records of the harness's files, written here by hand: likelihoods, conditions, damage."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.results import CellRecord, RunDir, SampleRecord
from pbcore.results.load import LoadError, load_stored
from pbcore.results.questions import read_questions
from tests.extras.lm_eval.harness import needs_harness

needs_harness()

from pbcore.extras.lm_eval.records import write_run

TEXTS = [" Jones", " Smith", " Alice"]
VALUES = [[-4.0, -1.5, -3.0], [-0.5, -6.0, -2.0]]
RESULTS: dict[str, Any] = {
    "lm_eval_version": "0.4.13",
    "chat_template_sha": "abc",
    "fewshot_as_multiturn": True,
    "n-shot": {"choose": 2},
    "versions": {"choose": 1.5},
    "configs": {"choose": {"generation_kwargs": {"until": ["x"]}}},
    "config": {
        "limit": 2.0,
        "pbcore": {
            "model": "tiny",
            "sampler": "confidence-k1",
            "seed": 3,
            "mc": 8,
            "device": "cpu",
            "batch_size": 4,
            "model_info": {"dummy": False, "dtype": "float32", "family": "llada"},
            "tasks": {
                "choose": {
                    "seconds": 2.0,
                    "requests": [
                        {
                            "doc": doc,
                            "log_likelihood": value,
                            "standard_error": 0.25,
                            "nfe": 5 + place,
                        }
                        for doc, values in enumerate(VALUES)
                        for place, value in enumerate(values)
                    ],
                }
            },
        },
    },
}


def row(doc: int, right: float) -> dict[str, Any]:
    return {
        "doc_id": 10 + doc,
        "doc_hash": f"d{doc}",
        "prompt_hash": f"p{doc}",
        "target_hash": f"t{doc}",
        "target": 1,
        "arguments": {
            f"gen_args_{i}": {"arg_0": f"question {doc}", "arg_1": text}
            for i, text in enumerate(TEXTS)
        },
        "resps": [[[str(value), "False"]] for value in VALUES[doc]],
        "filtered_resps": [[str(value), "False"] for value in VALUES[doc]],
        "filter": "none",
        "metrics": ["acc"],
        "acc": right,
    }


def written(folder: Path, results: dict[str, Any] = RESULTS) -> Path:
    """The harness's files in a folder."""
    folder.mkdir(exist_ok=True)
    lines = [row(0, 1.0), row(1, 0.0)]
    (folder / "samples_choose_2026.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in lines)
    )
    file = folder / "results_2026.json"
    file.write_text(json.dumps(results))
    return file


def imported(
    folder: Path, results: dict[str, Any] = RESULTS
) -> tuple[CellRecord, tuple[SampleRecord, ...]]:
    [stored] = load_stored(write_run([written(folder / "files", results)], folder / "run"))
    return stored.cell, stored.samples


def test_choices_by_likelihood(tmp_path: Path) -> None:
    """The answer is the likeliest continuation; its forwards are those of all; nothing was decoded,
    so nothing has a canvas or tokens per step.
    """
    cell, samples = imported(tmp_path)
    assert [(one.index, one.text, one.nfe, one.canvas_tokens) for one in samples] == [
        (10, " Smith", 18, None),
        (11, " Jones", 18, None),
    ]
    assert [one.details["log_likelihood"] for one in samples] == VALUES
    assert [one.details["standard_error"] for one in samples] == [[0.25] * 3] * 2
    assert (cell.scores["acc"].mean, cell.nfe_mean, cell.tokens_per_step, cell.seconds) == (
        0.5,
        18,
        None,
        2,
    )


def test_conditions(tmp_path: Path) -> None:
    """What decided the answers is in the record, with what the harness says of itself."""
    cell, _ = imported(tmp_path)
    told = cell.conditions
    assert told.options == {
        "n_shot": 2,
        "version": 1.5,
        "generation_kwargs": {"until": ["x"]},
        "chat_template": "abc",
        "fewshot_as_multiturn": True,
        "limit": 2.0,
        "mc": 8,
    }
    assert (told.versions["lm-eval"], "torch" in told.versions) == ("0.4.13", True)
    assert (told.seeds, told.device, told.dtype, told.batch_size) == ([3], "cpu", "float32", 4)
    assert (told.data_source, told.shared_device, told.dummy) == ("lm_eval", False, False)
    assert told.model_info == {"dummy": False, "dtype": "float32", "family": "llada"}


def test_an_answer_with_an_unknown_part(tmp_path: Path) -> None:
    """A continuation whose likelihood came from the harness's cache has no forwards, nor has the
    cell then.
    """
    results = copy.deepcopy(RESULTS)
    del results["config"]["pbcore"]["tasks"]["choose"]["requests"][1]["nfe"]
    cell, samples = imported(tmp_path, results)
    assert [one.nfe for one in samples] == [None, None]
    assert "cache" in cell.absent["nfe"]


def test_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line per cell, and where the run is; its questions are kept with it."""
    written(tmp_path / "files")
    monkeypatch.chdir(tmp_path)
    assert main(["lm-eval", "import", "files", "run"]) == 0
    header, _, line, last = capsys.readouterr().out.splitlines()
    assert header.split("  ")[0] == "cell"
    assert header.split()[1:] == [
        "samples",
        "score",
        "mean",
        "(%)",
        "NFE",
        "TPF",
        "seconds",
    ]
    assert line.split() == [
        "tiny/lm_eval/choose/confidence-k1",
        "2",
        "acc",
        "50.00",
        "18.00",
        "–",
        "2.00",
    ]
    assert last == "run: run"
    [known] = read_questions(RunDir(tmp_path / "run")).values()
    assert [(one.index, one.prompt) for one in known.values()] == [
        (10, "question 0"),
        (11, "question 1"),
    ]


def test_damage_is_named(tmp_path: Path) -> None:
    """Results without a part, and samples that can't be read, with their file."""
    results = copy.deepcopy(RESULTS)
    del results["config"]["pbcore"]["sampler"]
    file = written(tmp_path / "files", results)
    with pytest.raises(LoadError) as error:
        write_run([file], tmp_path / "run")
    assert str(error.value) == f"{file} is not a results file of the harness: KeyError: 'sampler'"
    file = written(tmp_path / "files")
    rows = file.with_name("samples_choose_2026.jsonl")
    rows.write_text(rows.read_text() + "{")
    with pytest.raises(LoadError, match=r"samples_choose_2026\.jsonl"):
        write_run([file], tmp_path / "run")

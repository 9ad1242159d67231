"""pbcore.exchange.every_eval: a run in the schema of Every Eval Ever."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.base.errors import InputError
from pbcore.exchange.every_eval import _model_info, export_every_eval
from pbcore.results import create
from tests.results import factory


def exported(folder: Path) -> tuple[dict[str, object], list[dict[str, object]], list[Path]]:
    """The whole and the lines of a run of two cells."""
    cells = [
        factory.cell("tiny", task="waiting_line/copy", sampler="confidence-k2", right=0.75),
        factory.cell("tiny", task="waiting_line/shuffle", sampler="random-k1+t0.5", right=0.5),
    ]
    run = factory.write(create(folder, "run"), cells)
    files = export_every_eval(run.path, folder / "out")
    whole, lines = (file.read_text(encoding="utf-8") for file in files)
    return json.loads(whole), [json.loads(line) for line in lines.splitlines()], files


def test_a_result_per_score(tmp_path: Path) -> None:
    """With its interval, what it cost and how it was decoded."""
    whole, _, _ = exported(tmp_path)
    results = {result["evaluation_result_id"]: result for result in whole["evaluation_results"]}  # type: ignore[attr-defined]
    copy = results["tiny/copy/confidence-k2#accuracy"]
    assert copy["score_details"]["score"] == 0.75
    interval = copy["score_details"]["uncertainty"]["confidence_interval"]
    assert interval["lower"] < 0.75 < interval["upper"]
    assert interval["method"] == "wilson"
    assert copy["score_details"]["details"]["tokens_per_step"] == "2.0"
    assert copy["metric_config"]["additional_details"] == {"headline": "true"}
    drawn = results["tiny/shuffle/random-k1+t0.5#accuracy"]["generation_config"]
    assert drawn["generation_args"]["temperature"] == 0.5
    assert drawn["additional_details"]["sampler"] == "random-k1+t0.5"


def test_how_it_was_deployed() -> None:
    """Our own loop is named as the engine; a server is its owner's, whose engine isn't known."""
    cell, _ = factory.cell("tiny")
    own = _model_info("tiny", "pbcore", cell)
    served = _model_info("mercury", "inception", replace(cell, served={}))
    assert own["inference_engine"]["name"] == "pbcore with torch"
    assert own["additional_details"]["deployment_type"] == "self_deployed"
    assert "inference_engine" not in served
    assert served["additional_details"]["deployment_type"] == "externally_managed"


def test_a_line_per_answer(tmp_path: Path) -> None:
    """Each points to its cell's headline score, whose mean is the lines'; the file is found by its
    name and checksum.
    """
    whole, lines, files = exported(tmp_path)
    detailed = whole["detailed_evaluation_results"]
    assert isinstance(detailed, dict)
    assert detailed["total_rows"] == len(lines)
    assert detailed["checksum"] == hashlib.sha256(files[1].read_bytes()).hexdigest()
    assert (tmp_path / "out" / detailed["file_path"]) == files[1]
    of_copy = [line for line in lines if line["evaluation_name"] == "waiting_line/copy"]
    scores = [line["evaluation"]["score"] for line in of_copy]  # type: ignore[index]
    assert sum(scores) / len(scores) == 0.75
    assert {line["evaluation_id"] for line in lines} == {whole["evaluation_id"]}
    assert {line["model_id"] for line in lines} == {"pbcore/tiny"}


def test_the_same_run_gives_the_same_names(tmp_path: Path) -> None:
    """So that an export that is repeated replaces the first."""
    _, _, files = exported(tmp_path)
    again = export_every_eval(tmp_path / "run", tmp_path / "out")
    assert again == files


def test_nothing_to_export(tmp_path: Path) -> None:
    """Is said."""
    run = factory.write(create(tmp_path, "run"), [])
    with pytest.raises(InputError, match="no scored cell to export"):
        export_every_eval(run.path, tmp_path / "out")


@pytest.mark.nightly
def test_their_own_check(tmp_path: Path) -> None:
    """Of the format's own package, which needs Python 3.12, in an environment of its own."""
    python = "python3.12"
    if shutil.which(python) is None or subprocess.run([python, "-V"], check=False).returncode:
        pytest.skip("no Python 3.12 or newer beside this one, which every-eval-ever needs")
    subprocess.run([python, "-m", "venv", str(tmp_path / "env")], check=True)
    programs = tmp_path / "env" / "bin"
    subprocess.run([programs / "pip", "install", "-q", "every-eval-ever==0.3.0"], check=True)
    exported(tmp_path)
    out = tmp_path / "out"
    names = [str(file.relative_to(out)) for file in sorted(out.rglob("*.json*"))]
    done = subprocess.run(
        [programs / "every_eval_ever", "validate", *names],
        cwd=out,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout

"""Paraphrasing cells: BERTScore by a folder of one's own, without its model, and with one that
can't be used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pbcore
from pbcore.metrics import grammar, semantic
from tests.metrics import small_roberta
from tests.plugin.conftest import Run

CELLS = (
    "--model",
    "speaker",
    "--sampler",
    "eb-0.1",
    "--limit",
    "2",
    "--task",
    "paraphrasing",
    "--no-download",
)


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No model in the cache, no hub, no LanguageTool."""
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "cache"))
    grammar.stop()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name in (semantic.MODEL_VARIABLE, semantic.LAYER_VARIABLE, "PBCORE_LANGUAGETOOL_URL"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("SPEAKER_SAYS", "The dog runs.")
    semantic._scorer.cache_clear()
    yield
    grammar.stop()
    semantic._scorer.cache_clear()


def test_a_folder_of_ones_own_measures(
    run: Run, project: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option wins over the environment; scores are those of the checkpoint, made here."""
    (tmp_path / "own").mkdir()
    folder = small_roberta.write(tmp_path / "own")
    monkeypatch.setenv(semantic.MODEL_VARIABLE, str(tmp_path / "nothing"))
    monkeypatch.setenv(semantic.LAYER_VARIABLE, "2")
    run(*CELLS, f"--bertscore-model {folder} --out out").assert_outcomes(passed=1)
    (samples,) = pbcore.results.load_samples(project.path / "out").values()
    measured = [sample.scores["bertscore"] for sample in samples]
    asked = pbcore.load_task("text_writing/paraphrasing", limit=2).samples
    texts = [asked[sample.index].label["text"] for sample in samples]
    scorer = semantic.BertScore(semantic.find_model(str(folder), "2"), "cpu")
    assert measured == pytest.approx(scorer.f1(["The dog runs."] * 2, texts), abs=1e-6)
    assert len(set(measured)) == 2


def test_without_the_model_the_reason_is_given_once(run: Run, project: pytest.Pytester) -> None:
    """Other scores are there; the report names what the missing model keeps from being measured in
    one line.
    """
    run(*CELLS, "--out out").assert_outcomes(passed=1)
    rows = pbcore.results.load(project.path / "out")
    assert "bertscore" not in rows
    assert rows["inv_bleu"].notna().all()
    report = (project.path / "out" / "report.md").read_text()
    assert report.count("roberta-large is not on this machine") == 1
    assert "- bertscore, v1: BERTScore's model roberta-large" in report


@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_wrong_folder_is_an_error_before_anything_is_decoded(
    run: Run, project: pytest.Pytester, tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is run or written; a run of lists doesn't need what the environment names."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv(semantic.LAYER_VARIABLE, "2")
    if by == "environment":
        monkeypatch.setenv(semantic.MODEL_VARIABLE, str(tmp_path / "empty"))
    option = f"--bertscore-model {tmp_path / 'empty'}" if by == "option" else ""
    result = run(*CELLS, f"{option} --out out")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: BERTScore's model */empty lacks config.json (config.json): give a whole *"]
    )
    assert not (project.path / "out").exists()
    if by == "environment":
        run("--model speaker --sampler eb-0.1 --limit 1 --task copy").assert_outcomes(passed=1)

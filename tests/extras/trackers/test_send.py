"""pbcore export --wandb and --mlflow, offline: what they keep is read back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.exchange.export import tables
from pbcore.extras.trackers.send import METRICS, metrics
from pbcore.results import RunDir, create, error_cell
from tests.results import factory


def run_of(tmp_path: Path) -> RunDir:
    failed = error_cell(factory.cell(model="broken")[0], "boom")
    run = factory.write(
        create(tmp_path, "my run"),
        [factory.cell(right=0.9, sampler="confidence-k2+b8"), (failed, [])],
    )
    run.assemble()
    (run.path / "report.html").write_text("<!doctype html><title>page</title>")
    return run


class TestMetrics:
    def test_names_that_trackers_take(self, tmp_path: Path) -> None:
        """Ids with characters that MLflow refuses are rewritten; failed cells and what was not
        measured have none.
        """
        named = metrics(tables(run_of(tmp_path).path))
        assert named["tiny/shuffle/confidence-k2_b8/score"] == 0.9
        assert named["tiny/shuffle/confidence-k2_b8/nfe"] == 16
        assert not any(name.startswith("broken") for name in named)

    def test_two_names_that_become_one(self) -> None:
        """Both are kept."""
        columns: dict[str, list[Any]] = {
            name: [0.5, 0.25] if name == "score" else [None, None] for name in METRICS
        }
        made = {"cells": {"id": ["m/t/a+b", "m/t/a_b"], **columns}}
        named = metrics(made)
        assert (named["m/t/a_b/score"], named["m/t/a_b_2/score"]) == (0.5, 0.25)
        assert "m/t/a_b/tokens_per_second" not in named

    def test_models_that_are_paths(self) -> None:
        """MLflow refuses names that a path would be written otherwise: `/data/m`, `./m` and
        `../m`.
        """
        ids = ["/data//m/t/a", "./m/t/a", "../m/t/a"]
        columns: dict[str, list[Any]] = {
            name: [0.5, 0.25, 1.0] if name == "score" else [None] * 3 for name in METRICS
        }
        named = metrics({"cells": {"id": ids, **columns}})
        assert named == {"data/m/t/a/score": 0.5, "m/t/a/score": 0.25, "m/t/a_2/score": 1.0}


class TestMlflow:
    def test_file_store(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Parameters, metrics, the cells as a table and the page are in the store."""
        mlflow = pytest.importorskip("mlflow")
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        run = run_of(tmp_path)
        uri = (tmp_path / "store").as_uri()
        assert main(["export", str(run.path), "--mlflow", uri, "--experiment", "mine"]) == 0
        number = capsys.readouterr().out.split()[-1]
        client = mlflow.MlflowClient(tracking_uri=uri)
        kept = client.get_run(number)
        assert kept.info.run_name == "my run"
        assert kept.info.status == "FINISHED"
        assert kept.data.metrics["tiny/shuffle/confidence-k2_b8/score"] == 0.9
        assert kept.data.params["seeds"] == "[0]"
        names = {item.path for item in client.list_artifacts(number)}
        assert {"cells.json", "report.html", "results.json"} <= names
        folder = Path(client.download_artifacts(number, "cells.json", str(tmp_path)))
        table = json.loads(folder.read_text())
        assert [row[table["columns"].index("status")] for row in table["data"]] == ["error", "ok"]
        assert client.get_experiment(kept.info.experiment_id).name == "mine"

    def test_what_mlflow_refuses_is_one_line(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Its newest versions refuse file stores unless told otherwise: its own words, without a
        traceback.
        """
        pytest.importorskip("mlflow")
        monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
        assert (
            main(["export", str(run_of(tmp_path).path), "--mlflow", (tmp_path / "store").as_uri()])
            == 2
        )
        assert "MLFLOW_ALLOW_FILE_STORE=true" in capsys.readouterr().err

    def test_without_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The extra is named."""
        monkeypatch.setitem(sys.modules, "mlflow", None)
        assert main(["export", str(run_of(tmp_path).path), "--mlflow", "file:x"]) == 2
        assert "pip install -c constraints.txt -e '.[mlflow]'" in capsys.readouterr().err


class TestWandb:
    @pytest.mark.slow
    def test_offline(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Metrics, the table and the page are in the files that `wandb sync` would send."""
        pytest.importorskip("wandb")
        for name in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_CONFIG_DIR"):
            monkeypatch.setenv(name, str(tmp_path / "wandb"))
        monkeypatch.setenv("WANDB_MODE", "offline")
        monkeypatch.setenv("WANDB_SILENT", "true")
        assert main(["export", str(run_of(tmp_path).path), "--wandb", "mine"]) == 0
        folder = Path(capsys.readouterr().out.strip().removeprefix("Weights & Biases: "))
        [kept] = folder.glob("media/table/cells*.json")
        table = json.loads(kept.read_text())
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
        assert [(row["model"], row["status"], row["score"]) for row in rows] == [
            ("broken", "error", None),
            ("tiny", "ok", 0.9),
        ]
        [sent] = folder.parent.glob("*.wandb")
        for name in (
            b"tiny/shuffle/confidence-k2_b8/score",
            b"report.html",
            b"results.json",
            b"mine",
            b"my run",
        ):
            assert name in sent.read_bytes()

    def test_without_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The extra is named."""
        monkeypatch.setitem(sys.modules, "wandb", None)
        assert main(["export", str(run_of(tmp_path).path), "--wandb", "p"]) == 2
        assert "pip install -c constraints.txt -e '.[wandb]'" in capsys.readouterr().err

"""A run in experiment trackers: Weights & Biases and MLflow, each an optional extra that is
imported at its use.
"""

import argparse
import re
from collections.abc import Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from pbcore.base.errors import InputError
from pbcore.base.links import install_command
from pbcore.base.printable import printable
from pbcore.exchange.export import TableColumns, tables
from pbcore.results.measures import shown_in
from pbcore.results.rundir import RunDir

# Columns that are metrics, and those that make up the table.
SCORES = ("score", "score_low", "score_high")
METRICS = (*SCORES, *(measure.key for measure in shown_in("trackers")))
COLUMNS = ("model", "task", "sampler", "status", "n", "length", "prompts", "headline", *METRICS)
FILES = ("report.html", "report.md", "curves*.png", "speed*.png", "results.json", "junit.xml")
_ODD = re.compile(r"[^A-Za-z0-9_\-./ ]")


def metrics(made: dict[str, TableColumns]) -> dict[str, float]:
    """`<cell id>/<metric>` → value, for everything measured; characters that trackers refuse in
    names become `_`, parts of a path that stand for a folder (empty, `.`, `..`) are left out, and a
    name that occurs twice gets a number.
    """
    named: dict[str, float] = {}
    cells = made["cells"]
    for row, cell_id in enumerate(cells["id"]):
        parts = _ODD.sub("_", cell_id).split("/")
        plain = "/".join(part for part in parts if part not in ("", ".", ".."))
        prefix = plain
        number = 1
        while any(f"{prefix}/{metric}" in named for metric in METRICS):
            number += 1
            prefix = f"{plain}_{number}"
        for metric in METRICS:
            value = cells[metric][row]
            if value is not None:
                named[f"{prefix}/{metric}"] = float(value)
    return named


def _read(path: Path) -> tuple[RunDir, dict[str, Any], dict[str, float], list[list[Any]]]:
    """A run, the facts of run.json without those of the machine's paths, its metrics, and a row per
    cell.
    """
    run = RunDir(path)
    made = tables(path)
    facts: Mapping[str, object] = run.read_run()
    kept = (
        "started",
        "profile",
        "seeds",
        "data_seed",
        "limit",
        "shard",
        "settings",
        "versions",
        "machine",
        "parent",
    )
    sent = {name: facts[name] for name in kept if facts.get(name) not in (None, [], {})}
    rows = zip(*(made["cells"][name] for name in COLUMNS), strict=True)
    return run, sent, metrics(made), [list(row) for row in rows]


def _package(name: str, title: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{title} is not installed: {install_command(name)}") from None


def _attachments(run: RunDir) -> list[Path]:
    """The files that go with a run: pages, curves, results."""
    files: list[Path] = []
    for pattern in FILES:
        files.extend(sorted(run.path.glob(pattern)))
    return files


def to_wandb(path: Path, project: str) -> str:
    """Sends a run to a project of Weights & Biases: facts as config, metrics as summary, the cells
    as a table, pages and results as an artifact. With WANDB_MODE=offline everything stays below
    `wandb/`. Returns where it went. Raises InputError without wandb.
    """
    wandb = _package("wandb", "Weights & Biases")
    run, facts, named, rows = _read(path)
    name = run.path.resolve().name
    artifact_name = f"pbcore-{_ODD.sub('_', name).replace('/', '_').replace(' ', '_')}"
    try:
        with wandb.init(project=project, name=name, job_type="pbcore", config=facts) as session:
            session.summary.update(named)
            session.log(
                {"cells": wandb.Table(columns=list(COLUMNS), data=rows, allow_mixed_types=True)}
            )
            artifact = wandb.Artifact(artifact_name, type="pbcore-run")
            for file in _attachments(run):
                artifact.add_file(str(file), name=file.name)
            session.log_artifact(artifact)
            return str(session.url or session.dir)
    except wandb.Error as error:
        raise InputError(f"Weights & Biases: {printable(str(error), 600)}") from error
    finally:
        wandb.teardown()  # its service writes on until then


def to_mlflow(path: Path, uri: str, experiment: str) -> str:
    """Sends a run to MLflow: facts as parameters, metrics, the cells as a table, pages and results
    as artifacts.

    Args:
        path: the run's folder.
        uri: a tracking server or store (http://…, file:…).
        experiment: its name there.

    Returns:
        The id of the run in MLflow.

    Raises:
        InputError: without MLflow, and where it can't be written to.
    """
    mlflow = _package("mlflow", "MLflow")
    run, facts, named, rows = _read(path)
    try:
        mlflow.set_tracking_uri(uri)
        mlflow.set_experiment(experiment)
        with mlflow.start_run(run_name=run.path.resolve().name) as session:
            mlflow.log_params({name: str(value)[:500] for name, value in facts.items()})
            for start in range(0, len(named), 500):  # a request takes at most 1,000
                mlflow.log_metrics(dict(islice(named.items(), start, start + 500)))
            mlflow.log_dict({"columns": list(COLUMNS), "data": rows}, "cells.json")
            for file in _attachments(run):
                mlflow.log_artifact(str(file))
            return str(session.info.run_id)
    except (mlflow.exceptions.MlflowException, OSError) as error:
        raise InputError(f"MLflow at {printable(uri)}: {printable(str(error), 600)}") from error


class Trackers:
    """The options of `pbcore export` for both (`exchange.export.Exporter`)."""

    usage = "--wandb PROJECT, --mlflow URI"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        wandb = "project of Weights & Biases (extra `wandb`); WANDB_MODE=offline sends nothing"
        mlflow = "MLflow's tracking server or store, e.g. http://host:5000 (extra `mlflow`)"
        experiment = "MLflow's experiment (default: pbcore)"
        parser.add_argument("--wandb", metavar="PROJECT", help=wandb)
        parser.add_argument("--mlflow", metavar="URI", help=mlflow)
        parser.add_argument("--experiment", default="pbcore", metavar="NAME", help=experiment)

    def asked(self, args: argparse.Namespace) -> bool:
        return bool(args.wandb or args.mlflow)

    def send(self, path: Path, args: argparse.Namespace) -> list[str]:
        lines = []
        if args.wandb:
            lines.append(f"Weights & Biases: {to_wandb(path, args.wandb)}")
        if args.mlflow:
            run_id = to_mlflow(path, args.mlflow, args.experiment)
            lines.append(f"MLflow: run {run_id}")
        return lines


TRACKERS = Trackers()

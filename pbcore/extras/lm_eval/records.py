"""Results of the harness as a run: a record per task and sampler, from the files that it wrote.

`results_<date>.json` says under config → pbcore what `PbcoreLM.get_model_info` told;
`samples_<task>_<date>.jsonl` has a row per document and filter with its scores.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pbcore.base.check import LoadError, plain, read_json
from pbcore.base.errors import InputError
from pbcore.extras.lm_eval.tasks import KIND, PREFIX, HarnessDetails, harness_scored, metric_name
from pbcore.models.base import Generation
from pbcore.report.files import write_all
from pbcore.results.build import absent_metrics, build_cell
from pbcore.results.environment import versions
from pbcore.results.questions import write_questions as keep_questions
from pbcore.results.record import CellRecord, Conditions
from pbcore.results.rundir import RunDir, StoredCell
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.files import UnreadableFile, read_json_lines
from pbcore.tasks.scoring import Scored

COUNTS = ("nfe", "answer_tokens", "canvas_tokens", "prefill", "store")
CACHED = "answers came from the harness's cache, without their forwards"


def results_files(folder: Path) -> list[Path]:
    """The results files that the harness wrote into a folder or below it, oldest first."""
    return sorted(folder.rglob("results_*.json"), key=lambda file: (file.name, str(file)))


def write_run(files: Iterable[Path], folder: Path) -> Path:
    """Writes the records of results files into a new run directory, with report and page; returns
    the directory. Raises InputError for results of another model than pbcore's, for missing
    samples, and for two results of one task, model and sampler; LoadError for damaged files.
    """
    files = list(files)
    run = RunDir(folder)
    run.cells_dir.mkdir(parents=True, exist_ok=True)
    seen: dict[str, Path] = {}
    seeds: set[int] = set()
    for file in files:
        for stored, questions in _cells(file):
            if stored.cell.id in seen:
                raise InputError(
                    f"{stored.cell.id} is in {seen[stored.cell.id]} and {file}; import one of"
                    " the two"
                )
            seen[stored.cell.id] = file
            seeds.update(stored.cell.conditions.seeds)
            keep_questions(run, questions)
            run.write_cell(stored.cell, stored.samples)
    command = ["pbcore", "lm-eval", "import", *map(str, files)]
    run.write_run({"command": command, "seeds": sorted(seeds), "versions": versions()})
    write_all(run)
    return run.path


def _cells(file: Path) -> list[tuple[StoredCell, Task]]:
    """The cells of one results file, each with its questions."""
    results = read_json(file)
    config = results.get("config") if isinstance(results, dict) else None
    measured = config.get("pbcore") if isinstance(config, dict) else None
    if not isinstance(measured, dict):
        raise InputError(
            f"{file} has no forwards and tokens of requests; it was not written with --model pbcore"
        )
    date = file.stem.removeprefix("results_")
    cells = []
    try:
        for task in results["configs"]:
            rows = file.with_name(f"samples_{task}_{date}.jsonl")
            if not rows.is_file():
                raise InputError(f"{rows} is missing; run the harness with --log_samples")
            read = [row for _, row in read_json_lines(rows)]
            cells.append(_cell(task, read, measured, results))
    except UnreadableFile as error:
        raise LoadError(str(error)) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise LoadError(
            f"{file} is not a results file of the harness: {type(error).__name__}: {error}"
        ) from error
    return cells


def _cell(
    task: str,
    rows: Sequence[Mapping[str, Any]],
    measured: Mapping[str, Any],
    results: Mapping[str, Any],
) -> tuple[StoredCell, Task]:
    """The cell of one task, with its questions.

    Args:
        task: the harness's name.
        rows: of its samples file.
        measured: what `PbcoreLM.get_model_info` told.
        results: of the results file.
    """
    name = f"{PREFIX}{task}"
    by_filter: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_filter.setdefault(row["filter"], []).append(row)
    documents = by_filter[rows[0]["filter"]]
    of_task = measured["tasks"].get(task, {"requests": [], "seconds": 0.0})
    requests: dict[int, list[dict[str, Any]]] = {place: [] for place in range(len(documents))}
    for request in of_task["requests"]:
        requests[request["doc"]].append(request)
    answers = []
    scores = []
    for place, document in enumerate(documents):
        answers.append(_answer(document, requests[place]))
        filtered = {kind: of_filter[place] for kind, of_filter in by_filter.items()}
        scores.append(_scored(filtered, requests[place]))
    absent = absent_metrics(scores)
    if any(answer.nfe is None for answer in answers):
        answers = [replace(answer, nfe=None) for answer in answers]
        absent["nfe"] = CACHED
    uncached = all(requests.values())
    if not uncached:
        absent["seconds"] = CACHED
    metrics = chain.from_iterable(scored.scores for scored in scores)
    headline = next(metrics, "")
    data_hash = _data_hash(documents)
    facts = CellRecord(
        f"{measured['model']}/{name}/{measured['sampler']}",
        measured["model"],
        name,
        measured["sampler"],
        _conditions(task, measured, results, data_hash),
        n_available=results.get("n-samples", {}).get(task, {}).get("original"),
        headline=headline,
    )
    indices = [int(row["doc_id"]) for row in documents]
    cell, samples = build_cell(
        facts,
        answers,
        scores,
        rounds=[of_task["seconds"]] if uncached else [],
        indices=indices,
        seeds=[measured["seed"]] * len(documents),
        absent=absent,
    )
    asked = tuple(_sample(name, row) for row in documents)
    questions = Task(name, "lm_eval", asked, scorer="", headline=headline, data_hash=data_hash)
    return StoredCell(cell, tuple(samples)), questions


def _data_hash(documents: Iterable[Mapping[str, Any]]) -> str:
    """The digest of a task's documents, from the harness's digests of each."""
    text = ""
    for row in documents:
        digests = [row[name] for name in ("doc_id", "doc_hash", "prompt_hash", "target_hash")]
        text += json.dumps(digests)
    return hashlib.sha256(text.encode()).hexdigest()


def _answer(row: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> Generation:
    """The generated text, or of several continuations the likeliest one; forwards and tokens of all
    requests.
    """
    likelihoods = [request["log_likelihood"] for request in requests if "log_likelihood" in request]
    if likelihoods:
        likeliest = max(range(len(likelihoods)), key=likelihoods.__getitem__)
        text = _continuation(row, likeliest)
    elif isinstance(row["resps"][0][0], str):
        text = row["resps"][0][0]
    else:
        text = _continuation(row, 0)
    sums: dict[str, Any] = {"nfe": None, "answer_tokens": None}
    for name in COUNTS:
        if requests and all(name in request for request in requests):
            sums[name] = sum(request[name] for request in requests)
    canvas = (0,) * sums.pop("canvas_tokens", 0)  # the ids aren't known
    return Generation(text, canvas, **sums)


def _continuation(row: Mapping[str, Any], place: int) -> str:
    """The continuation that a document's request asked the likelihood of."""
    return str(list(row["arguments"].values())[place]["arg_1"])


def _scored(rows: Mapping[str, Mapping[str, Any]], requests: Sequence[Mapping[str, Any]]) -> Scored:
    """A document's scores by its rows for each filter."""
    values = {}
    filtered = {}
    for kind, row in rows.items():
        filtered[kind] = row["filtered_resps"]
        for metric in row["metrics"]:
            values[metric_name(metric, kind)] = row.get(metric)
    details: HarnessDetails = {"filtered": filtered}
    if requests and all("log_likelihood" in request for request in requests):
        details["log_likelihood"] = [request["log_likelihood"] for request in requests]
    if requests and all("standard_error" in request for request in requests):
        details["standard_error"] = [request["standard_error"] for request in requests]
    return harness_scored(values, details)


def _conditions(
    task: str, measured: Mapping[str, Any], results: Mapping[str, Any], data_hash: str
) -> Conditions:
    config = results["configs"][task]
    info = measured["model_info"]
    options = {
        "n_shot": results.get("n-shot", {}).get(task),
        "version": results.get("versions", {}).get(task),
        "generation_kwargs": config.get("generation_kwargs"),
        "chat_template": results.get("chat_template_sha"),
        "fewshot_as_multiturn": results.get("fewshot_as_multiturn"),
        "limit": results["config"].get("limit"),
        "mc": measured["mc"],
    }
    stated = {key: value for key, value in options.items() if value is not None}
    return Conditions.unknown(
        options=plain(stated, f"options of {task}"),
        versions={**versions(), "lm-eval": str(results.get("lm_eval_version", ""))},
        seeds=[measured["seed"]],
        data_source=KIND,
        data_hash=data_hash,
        device=measured["device"],
        dtype=str(info.get("dtype", "")),
        batch_size=measured["batch_size"],
        shared_device=False,
        dummy=bool(info.get("dummy", False)),
        model_info=dict(info),
    )


def _sample(task: str, row: Mapping[str, Any]) -> Sample:
    """A document's question as a sample."""
    prompt = str(next(iter(row["arguments"].values()))["arg_0"])
    return Sample(
        task, int(row["doc_id"]), ({"role": "user", "content": prompt},), {}, str(row["target"]), 0
    )

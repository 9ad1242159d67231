"""A run in the schema of Every Eval Ever 0.3 (arXiv 2606.14516), the exchange format of evaluation
results: per model a JSON file with a result per cell and score, and a JSON Lines file with a line
per answer.
"""

import hashlib
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pbcore.base.check import refuse
from pbcore.base.errors import InputError
from pbcore.models.registry import sources
from pbcore.names import SamplerNameError, parse
from pbcore.report.plots import file_part
from pbcore.results import questions
from pbcore.results.load import load_stored
from pbcore.results.questions import Key, StoredQuestion
from pbcore.results.record import CellRecord, SampleRecord, Score
from pbcore.results.rundir import StoredCell, open_run, write_atomic

SCHEMA = "0.3.0"
BENCHMARK = "parallelbench"
OWN = "pbcore"  # who provides the models that come with the package
LEVEL = 0.95
Json = dict[str, Any]


def export_every_eval(run: Path, folder: Path) -> list[Path]:
    """Writes a run's scored cells.

    Args:
        run: a run directory.
        folder: where `data/parallelbench/DEVELOPER/MODEL/UUID.json` and `UUID_samples.jsonl` are
            written. The same run gives the same names.

    Returns:
        The files.

    Raises:
        InputError: if the run has no scored cell.
    """
    opened = open_run(run)
    facts = opened.read_run()
    asked = questions.read_questions(opened)
    by_model: dict[str, list[StoredCell]] = {}
    for stored in load_stored(run, refuse):
        if stored.cell.status == "ok" and stored.cell.scores:
            by_model.setdefault(stored.cell.model, []).append(stored)
    if not by_model:
        raise InputError(f"{run} has no scored cell to export")
    files = []
    for model, cells in by_model.items():
        hub = sources().get(model, model)
        developer, _, name = hub.rpartition("/")
        where = Path("data", BENCHMARK, file_part(developer or OWN), file_part(name))
        keys = sorted(stored.cell.conditions.key or stored.cell.id for stored in cells)
        digest = hashlib.sha256("\n".join([model, *keys]).encode()).digest()
        stem = str(uuid.UUID(bytes=digest[:16], version=4))  # the form that the schema asks for
        started = facts.get("started") or ""
        whole: Json = {
            "schema_version": SCHEMA,
            "evaluation_id": f"{BENCHMARK}/{hub}/{stem}",
            "evaluation_timestamp": started,
            "retrieved_timestamp": str(int(time.time())),
            "source_metadata": {
                "source_name": "pbcore",
                "source_type": "evaluation_run",
                "source_organization_name": "unknown",
                "evaluator_relationship": "third_party",
            },
            "eval_library": {"name": "pbcore", "version": version("pbcore")},
            "model_info": _model_info(hub, developer or OWN, cells[0].cell),
            "evaluation_results": [
                result for stored in cells for result in _results(stored.cell, started)
            ],
        }
        lines = [json.dumps(line) for line in _lines(cells, asked, hub, whole["evaluation_id"])]
        samples = "".join(f"{line}\n" for line in lines)
        whole["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": (where / f"{stem}_samples.jsonl").as_posix(),
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(samples.encode()).hexdigest(),
            "total_rows": len(lines),
        }
        out = folder / where
        out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
        files.append(write_atomic(out / f"{stem}.json", text))
        files.append(write_atomic(out / f"{stem}_samples.jsonl", samples))
    return files


def _model_info(hub: str, developer: str, cell: CellRecord) -> Json:
    """What the schema wants to know of a model; a model behind a server is managed elsewhere."""
    served = cell.served is not None
    details = {
        "deployment_type": "externally_managed" if served else "self_deployed",
        "model_availability": "unknown" if served else "open_weights",
        "dtype": cell.conditions.dtype,
        "device": cell.conditions.device,
        **(cell.conditions.model_identity or {}),
    }
    identifier = hub if "/" in hub else f"{developer}/{hub}"
    info: Json = {
        "name": cell.model,
        "id": identifier,
        "developer": developer,
        "additional_details": _strings(details),
    }
    if not served:
        torch = cell.conditions.versions.get("torch", "unknown")
        info["inference_engine"] = {"name": "pbcore with torch", "version": torch}
    return info


def _results(cell: CellRecord, started: str) -> Iterator[Json]:
    """A cell's scores, each a result of its own."""
    for metric, summary in cell.scores.items():
        yield {
            "evaluation_result_id": f"{cell.id}#{metric}",
            "evaluation_name": cell.task,
            "source_data": {
                "dataset_name": cell.task,
                "source_type": "other",
                "additional_details": _strings(
                    {"data": cell.conditions.data_source, "digest": cell.conditions.data_hash}
                ),
            },
            "evaluation_timestamp": started,
            "metric_config": {
                "metric_id": metric,
                "metric_name": metric,
                "metric_unit": "proportion",
                "lower_is_better": False,
                "score_type": "continuous",
                "min_score": 0,
                "max_score": 1,
                "additional_details": {"headline": str(metric == cell.headline).lower()},
            },
            "score_details": _score(cell, summary),
            "generation_config": _generation(cell),
        }


def _score(cell: CellRecord, summary: Score) -> Json:
    """A score with its interval and what it cost."""
    speed = {
        "tokens_per_step": cell.tokens_per_step,
        "tokens_per_forward": cell.tokens_per_forward,
        "nfe_mean": cell.nfe_mean,
        "seconds": cell.seconds,
    }
    method = "wilson" if summary.kind == "binary" else "bootstrap"
    interval = {
        "lower": summary.low,
        "upper": summary.high,
        "confidence_level": LEVEL,
        "method": method,
    }
    return {
        "score": summary.mean,
        "details": _strings(speed),
        "uncertainty": {"confidence_interval": interval, "num_samples": summary.n},
    }


def _generation(cell: CellRecord) -> Json:
    """How a cell was decoded."""
    try:
        temperature: float | None = parse(cell.sampler).temperature
    except SamplerNameError:  # a sampler that only its own model knows
        temperature = None
    details = {
        "sampler": cell.sampler,
        "seeds": cell.conditions.seeds,
        "batch_size": cell.conditions.batch_size,
        **cell.conditions.options,
        **{f"version of {name}": text for name, text in cell.conditions.versions.items()},
    }
    return {
        "generation_args": {"temperature": temperature},
        "additional_details": _strings(details),
    }


def _lines(
    cells: Iterable[StoredCell],
    asked: Mapping[Key, Mapping[int, StoredQuestion]],
    hub: str,
    evaluation: str,
) -> Iterator[Json]:
    """A line per answer, with its headline score."""
    for stored in cells:
        cell = stored.cell
        known = asked.get(questions.key(cell), {})
        for sample in stored.samples:
            score = sample.scores.get(cell.headline or "")
            if score is not None:
                yield _line(cell, sample, known.get(sample.index), score) | {
                    "evaluation_id": evaluation,
                    "model_id": hub if "/" in hub else f"{OWN}/{hub}",
                }


def _line(
    cell: CellRecord, sample: SampleRecord, question: StoredQuestion | None, score: float
) -> Json:
    prompt = question.prompt if question is not None else ""
    reference = [question.answer] if question is not None and question.answer is not None else []
    digest = hashlib.sha256((prompt + "".join(reference)).encode()).hexdigest()
    cost = {
        "sampler": cell.sampler,
        "forwards": sample.nfe,
        "tokens": sample.answer_tokens,
        "seed": sample.seed,
        **{f"score {name}": value for name, value in sample.scores.items()},
    }
    return {
        "schema_version": SCHEMA,
        "evaluation_name": cell.task,
        "evaluation_result_id": f"{cell.id}#{cell.headline}",
        "sample_id": str(sample.index),
        "sample_hash": digest if question is not None else None,
        "interaction_type": "single_turn",
        "input": {"raw": prompt, "reference": reference},
        "output": {"raw": [sample.text]},
        "messages": None,
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": sample.text,
                "extraction_method": "custom",
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": score, "is_correct": score == 1},
        "metadata": _strings(cost),
    }


def _strings(values: Mapping[str, Any]) -> dict[str, str]:
    """What is known, as the schema's texts."""
    texts = {}
    for name, value in values.items():
        if value is not None:
            texts[name] = value if isinstance(value, str) else json.dumps(value, default=str)
    return texts

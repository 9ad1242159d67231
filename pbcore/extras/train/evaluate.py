"""Evaluates a checkpoint: its score on every task's test split for several numbers of tokens per
step.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pbcore.base.tabular import Table
from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.tasks.registry import all_task_names, load_task, task_names

# Of masked, block-causal, autoregressive and SEDD checkpoints.
SAMPLERS = ("confidence-k1", "confidence-k2", "confidence-k4", "confidence-k8")
BLOCK_SAMPLERS = ("confidence-k1", "confidence-k2", "confidence-k4")  # a block has four tokens
CAUSAL_SAMPLERS = ("ar",)
SEDD_SAMPLERS = ("analytic-s16", "analytic-s4", "analytic-s2", "analytic-s1")


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The mean of one score of one task, a value per sampler; None where it could not be
    measured.
    """

    task: str
    measure: str
    scores: dict[str, float | None]


def evaluate(
    folder: Path, *, samples: int = 100, tasks: Sequence[str] | None = None, device: str = "cpu"
) -> list[TaskResult]:
    """Results on the first samples of each test split (seed 0, own data).

    They are decoded under the samplers of the checkpoint's family; each result goes to stderr at
    once.

    Args:
        folder: the checkpoint.
        samples: how many samples of each task.
        tasks: by default the paper's; for SEDD list operations on symbols.
        device: where the model computes.
    """
    model = load_model(str(folder), device=device, dtype="float32")
    causal = model.info.get("autoregressive", False)
    scores = model.info.get("family") == "sedd"
    samplers: Sequence[str] = SAMPLERS
    if causal:
        samplers = CAUSAL_SAMPLERS
    elif scores:
        samplers = SEDD_SAMPLERS
    elif "block" in model.info:
        samplers = BLOCK_SAMPLERS
    results: list[TaskResult] = []
    symbols = [name for name in all_task_names() if name.startswith("list_ops/")]
    for name in tasks or (symbols if scores else task_names()):
        task = load_task(name, limit=samples)
        measures = _measures(name)
        # An autoregressive checkpoint in a folder of its own may answer with more tokens than the
        # canvas has.
        length = task.samples[0].max_new_tokens if causal else None
        scored = {}
        for sampler in samplers:
            texts = [generation.text for generation in decode(model, task.samples, sampler, length)]
            scored[sampler] = [
                result.scores for result in task.score_many(texts, task.samples, metrics=measures)
            ]
        for measure in measures:
            of_sampler = {sampler: _mean(measure, answers) for sampler, answers in scored.items()}
            print(f"  {name} {measure}: {of_sampler}", file=sys.stderr, flush=True)
            results.append(TaskResult(name, measure, of_sampler))
    return results


def _mean(measure: str, answers: Sequence[Mapping[str, float]]) -> float | None:
    """The mean of a score; None if an answer lacks it."""
    if not all(measure in scores for scores in answers):
        return None
    return fmean(scores[measure] for scores in answers)


def _measures(name: str) -> tuple[str, ...]:
    """The scores of a task: accuracy of lists and puzzles; grammar and one more of text tasks (not
    BERTScore).
    """
    own = {"summarization": "rouge_l", "paraphrasing": "inv_bleu"}
    category, _, short = name.partition("/")
    return ("grammar", own.get(short, "inclusion")) if category == "text_writing" else ("accuracy",)


def scores_table(results: Sequence[TaskResult]) -> Table:
    """Results as a table in percent; the last row is the mean accuracy over lists and
    puzzles.
    """
    samplers = list(results[0].scores)
    rows = [
        (result.task, result.measure, [result.scores[name] for name in samplers])
        for result in results
    ]
    exact = [values for _, measure, values in rows if measure == "accuracy"]
    if exact:
        means = [fmean(value or 0.0 for value in values) for values in zip(*exact, strict=True)]
        rows.append(("mean of lists and puzzles", "accuracy", list(means)))
    cells = [
        [task, measure, *(None if value is None else 100 * value for value in values)]
        for task, measure, values in rows
    ]
    sides = "ll" + "r" * len(samplers)
    return Table(["task", "score", *samplers], cells, sides, ".1f")

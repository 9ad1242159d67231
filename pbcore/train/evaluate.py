"""Evaluates a checkpoint: its score on every task's test split for several numbers of tokens per step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.tasks.registry import all_task_names, load_task, task_names

SAMPLERS = ("confidence-k1", "confidence-k2", "confidence-k4", "confidence-k8")
CAUSAL_SAMPLERS = ("ar",)
SEDD_SAMPLERS = ("analytic-s16", "analytic-s4", "analytic-s2", "analytic-s1")


@dataclass(frozen=True, slots=True)
class Result:
    """The mean of one score of one task, a value per sampler; None where it could not be measured."""

    task: str
    measure: str
    scores: dict[str, float | None]


def evaluate(
    folder: Path,
    *,
    samples: int = 100,
    samplers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    device: str = "cpu",
) -> Iterator[Result]:
    """Yields results task by task, on the first `samples` samples of each test split (seed 0, own data).

    `samplers` are by default SAMPLERS, or those of the checkpoint's family: CAUSAL_SAMPLERS, SEDD_SAMPLERS. `tasks`: by
    default the paper's, for SEDD list operations on symbols.
    """
    model = load_model(str(folder), device=device, dtype="float32")
    causal = model.info.get("autoregressive", False)
    scores = model.info.get("family") == "sedd"
    own = CAUSAL_SAMPLERS if causal else SEDD_SAMPLERS if scores else SAMPLERS
    samplers = own if samplers is None else samplers
    symbols = [name for name in all_task_names() if name.startswith("list_ops/")]
    for name in tasks or (symbols if scores else task_names()):
        task = load_task(name, limit=samples)
        # An autoregressive checkpoint in a folder of its own may answer with more tokens than the canvas has.
        length = task.samples[0].max_new_tokens if causal else None
        means: dict[str, dict[str, float | None]] = {}
        for sampler in samplers:
            texts = [generation.text for generation in decode(model, task.samples, sampler, length)]
            scored = task.score_many(texts, task.samples, metrics=_measures(name))
            for measure in _measures(name):
                values = [one.scores[measure] for one in scored if measure in one.scores]
                means.setdefault(measure, {})[sampler] = fmean(values) if len(values) == len(scored) else None
        yield from (Result(name, measure, scores) for measure, scores in means.items())


def _measures(name: str) -> tuple[str, ...]:
    """The scores of a task: accuracy for lists and puzzles; for text tasks grammar and one more (BERTScore is left
    out).
    """
    own = {"summarization": "rouge_l", "paraphrasing": "inv_bleu"}
    category, _, short = name.partition("/")
    return ("grammar", own.get(short, "inclusion")) if category == "text_writing" else ("accuracy",)


def scores_table(results: Sequence[Result]) -> str:
    """Results as a Markdown table in percent; the last row is the mean accuracy over lists and puzzles."""
    samplers = list(results[0].scores)
    lines = ["| task | score | " + " | ".join(samplers) + " |", "|---|---|" + "---:|" * len(samplers)]
    for result in results:
        lines.append(
            f"| {result.task} | {result.measure} | "
            + " | ".join(_percent(result.scores[name]) for name in samplers)
            + " |"
        )
    exact = [result.scores for result in results if result.measure == "accuracy"]
    if exact:
        means = [fmean(scores[name] or 0.0 for scores in exact) for name in samplers]
        lines.append("| **mean of lists and puzzles** | accuracy | " + " | ".join(map(_percent, means)) + " |")
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"

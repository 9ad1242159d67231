"""Tasks of lm-evaluation-harness as tasks of ours, `lm_eval/gsm8k`: samples, prompts, filters and scores are the
harness's.

Only tasks that generate text: what is scored by likelihoods isn't decoded. A question is one user turn, with the
harness's solved examples before it as text.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pbcore.errors import InputError
from pbcore.integrations.lm_eval.generation import asked, cut
from pbcore.names import SamplerName
from pbcore.printable import first_line, shown
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.registry import add_specs
from pbcore.tasks.scoring import SCORERS, Scored
from pbcore.tasks.spec import TaskSpec

KIND = "lm_eval"
PREFIX = f"{KIND}/"
MISSING = "lm-evaluation-harness is not installed: pip install 'pbcore[lm-eval]'"
MAX_GEN_TOKS = 256  # the harness's default where a task has no max_gen_toks
FEWSHOT_SEED = 1234  # the harness's default
NOT_A_SCORE = "the harness's value of a document is not a number from 0 to 1"


@dataclass(frozen=True, slots=True)
class HarnessScorer:
    """Scores answers as the harness does: cut at the stop strings, through its filters, by its metrics.

    `version` is a digest of the task's declaration and the harness's version, for a cell's key.
    """

    task: Any
    version: str
    metrics: tuple[str, ...] = ()

    def score(self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]) -> list[Scored]:
        from lm_eval.api.instance import Instance

        documents = self.task.eval_docs
        instances = [
            Instance(
                "generate_until",
                documents[sample.index],
                (),
                0,
                (sample.task, sample.index, 1),
                [_cut(prediction, sample)],
            )
            for prediction, sample in zip(predictions, samples, strict=True)
        ]
        for ensemble in self.task._filters:
            ensemble.apply(instances)
        return [self._scored(instance, metrics) for instance in instances]

    def _scored(self, instance: Any, metrics: frozenset[str]) -> Scored:
        scores: dict[str, float] = {}
        absent: dict[str, str] = {}
        for kind, filtered in instance.filtered_resps.items():
            for metric, found in self.task.process_results(instance.doc, [filtered]).items():
                name, value = metric_name(metric, kind), score(found)
                if value is None:
                    absent[name] = NOT_A_SCORE
                elif not self.metrics or name in metrics:
                    scores[name] = value
        read = {
            kind: value if isinstance(value, str) else str(value) for kind, value in instance.filtered_resps.items()
        }
        return Scored(scores, {"filtered": read, **({"absent": absent} if absent else {})})


def _cut(prediction: str, sample: Sample) -> str:
    return cut(prediction, asked(sample.input["generation_kwargs"], None, MAX_GEN_TOKS).until)


def metric_name(metric: str, kind: str) -> str:
    """A score's name, as the harness writes it: `exact_match,strict-match`; without the filter if that is `none`."""
    return metric if kind == "none" else f"{metric},{kind}"


def score(value: Any) -> float | None:
    """A metric's value for one document; None if it is not a number from 0 to 1."""
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, bool | int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        return None
    return float(value)


def add_harness_tasks(patterns: Iterable[str], folder: Path | None = None, unsafe: bool = False) -> list[str]:
    """Adds tasks of lm-evaluation-harness (`lm_eval/gsm8k`, a group, `lm_eval/mbpp*`) and returns their names.

    `folder` has task files of the user's own. Code that models write runs only with `unsafe`. Raises the errors of
    `harness_specs`.
    """
    return add_specs(harness_specs(patterns, folder, unsafe))


def harness_specs(patterns: Iterable[str], folder: Path | None, unsafe: bool) -> list[TaskSpec]:
    """The harness's tasks that these patterns (`lm_eval/gsm8k`, a group, `lm_eval/mbpp*`) name, their scorers
    registered.

    `folder` has task files of the user's own; `unsafe` is the opt-in to tasks that run code which models wrote. Raises
    InputError without the harness, for unknown names, and for tasks that can't be cells, with the reason.
    """
    patterns = list(patterns)
    if not patterns:
        return []
    if find_spec("lm_eval") is None:
        raise InputError(MISSING)
    if folder is not None and not folder.is_dir():
        raise InputError(f"--lm-eval-path {folder}: no such folder; give one with the harness's task files (YAML)")
    specs = []
    for pattern in patterns:
        manager, names = _found(pattern, folder)
        specs += [_spec(name, task, unsafe) for name, task in _loaded(manager, names, pattern).items()]
    return specs


def load_harness_task(spec: TaskSpec, limit: int | None) -> Task:
    """A task with its first `limit` samples."""
    scorer = SCORERS[spec.scorer]
    assert isinstance(scorer, HarnessScorer)
    scorer.task.build_all_requests(limit=limit, rank=0, world_size=1)
    samples = tuple(_sample(spec.name, scorer.task, instance) for instance in scorer.task.instances)
    return Task(spec.name, KIND, samples, spec.scorer, spec.headline, KIND)


class HarnessTasks:
    """The harness's tasks, for `pbcore.tasks` (`tasks.sources.TaskSource`)."""

    name, prefix = "lm-evaluation-harness", PREFIX

    def load(self, spec: TaskSpec, limit: int | None) -> Task:
        return load_harness_task(spec, limit)

    def refuses(self, task: Task, sampler: SamplerName) -> str | None:
        return contradicts(task.samples[0], sampler)


TASKS = HarnessTasks()


def contradicts(sample: Sample, sampler: SamplerName) -> str | None:
    """Why a sampler can't answer a harness task's question as that asks for it (`do_sample`, `temperature` …)."""
    try:
        asked(sample.input["generation_kwargs"], sampler, MAX_GEN_TOKS)
    except InputError as error:
        return str(error)
    return None


def _found(pattern: str, folder: Path | None) -> tuple[Any, list[str]]:
    """What loads the tasks of a pattern, and their names; the user's own files are read first, and alone if they have
    some.
    """
    from lm_eval.tasks import TaskManager

    own = [] if folder is None else [{"include_path": str(folder), "include_defaults": False}]
    for options in [*own, {}]:
        manager = TaskManager(**options)
        names = manager.match_tasks([pattern.removeprefix(PREFIX)])
        if names:
            return manager, list(names)
    raise InputError(f"{pattern}: the harness has no such task; `lm_eval ls tasks` lists them")


def _loaded(manager: Any, names: Sequence[str], pattern: str) -> Mapping[str, Any]:
    try:
        tasks: Mapping[str, Any] = manager.load(list(names))["tasks"]
    except (ValueError, OSError, RuntimeError, ImportError, LookupError, TypeError, AssertionError) as error:
        raise InputError(f"{pattern}: the harness can't load it: {first_line(str(error))}") from error
    return tasks


def _spec(name: str, task: Any, unsafe: bool) -> TaskSpec:
    full = PREFIX + name
    why = _why_not(task, unsafe)
    if why is not None:
        raise InputError(f"{full}: {why}")
    if task.get_config("num_fewshot") is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=FEWSHOT_SEED)
    config = json.dumps(task.dump_config(), sort_keys=True, default=str)
    digest = hashlib.sha256(config.encode()).hexdigest()[:16]
    scorer = _registered(full, HarnessScorer(task, f"{version('lm_eval')}-{digest}"))
    kwargs = task.get_config("generation_kwargs") or {}
    room = asked(kwargs, None, MAX_GEN_TOKS).length
    settings = {"n_shot": task.get_config("num_fewshot"), "harness": scorer.version}
    documents = len(task.eval_docs)
    return TaskSpec(full, KIND, "", full, scorer.metrics[0], room, settings, documents, asked_by=TASKS.name)


def _why_not(task: Any, unsafe: bool) -> str | None:
    """Why a harness task can't be a cell; None if it can."""
    kind = task.OUTPUT_TYPE
    if kind != "generate_until":
        return (
            f"its answers are judged by likelihoods ({kind}), and cells measure decoding; run it with `pbcore lm-eval`"
        )
    if getattr(task, "UNSAFE_CODE", False) and not unsafe:
        return (
            "scoring runs code that the model wrote; in a sandbox, add --confirm-run-unsafe-code and set "
            "HF_ALLOW_CODE_EVAL=1"
        )
    if getattr(task, "MULTIMODAL", False):
        return "its questions have images or sound, and the models here read text"
    if task.get_config("gen_prefix"):
        return "its answers begin with a given text (gen_prefix), which a chat can't hold; run it with `pbcore lm-eval`"
    if (task.get_config("repeats") or 1) != 1:
        return "it asks each question several times (repeats); run it with `pbcore lm-eval`"
    return None


def _registered(name: str, made: HarnessScorer) -> HarnessScorer:
    """The task's scorer with the names of its scores, those of an empty answer to its first question."""
    known = SCORERS.all().get(name)
    if isinstance(known, HarnessScorer) and known.version == made.version:
        return known
    made.task.build_all_requests(limit=1, rank=0, world_size=1)
    first = _sample(name, made.task, made.task.instances[0])
    [trial] = made.score([""], [first], frozenset())
    if not trial.scores:
        raise InputError(f"{name}: none of its metrics is a number from 0 to 1 for a document ({shown(trial.details)})")
    scorer = HarnessScorer(made.task, made.version, tuple(trial.scores))
    SCORERS.register(name, scorer)
    return scorer


def _sample(name: str, task: Any, instance: Any) -> Sample:
    prompt, kwargs = instance.arguments[:2]
    length = asked(kwargs, None, MAX_GEN_TOKS).length
    target = task.doc_to_target(instance.doc)
    return Sample(
        name,
        int(instance.doc_id),
        ({"role": "user", "content": prompt},),
        {"generation_kwargs": kwargs},
        target if isinstance(target, str) else str(target),
        length,
        source=KIND,
        limited=True,
    )

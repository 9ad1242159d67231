"""Tasks of lm-evaluation-harness as tasks of ours, `lm_eval/gsm8k`: samples, prompts, filters and
scores are the harness's.

Only tasks that generate text: what is scored by likelihoods isn't decoded. A question is one user
turn, with the harness's solved examples before it as text.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from pbcore.base.errors import InputError
from pbcore.base.links import install_command
from pbcore.base.printable import first_line, shown
from pbcore.base.rules import Rule, why_not
from pbcore.names import SamplerName
from pbcore.tasks.base import Message, Sample, Task
from pbcore.tasks.registry import add_specs
from pbcore.tasks.scoring import SCORERS, Details, Scored
from pbcore.tasks.spec import TaskSpec

KIND = "lm_eval"
PREFIX = f"{KIND}/"
MISSING = f"lm-evaluation-harness is not installed: {install_command('lm-eval')}"
MAX_GEN_TOKS = 256  # the harness's default where a task has no max_gen_toks
FEWSHOT_SEED = 1234  # the harness's default
NOT_A_SCORE = "the harness's value of a document is not a number from 0 to 1"
# In the harness's order.
LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
# Settings that cut off improbable tokens, and those of other decoders, with the values at which
# they change nothing.
CUTS: Mapping[str, tuple[Any, ...]] = {
    "top_p": (None, 1),
    "top_k": (None, 0, -1),
    "min_p": (None, 0),
}
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    **CUTS,
    "num_beams": (None, 1),
    "num_return_sequences": (None, 1),
    "repetition_penalty": (None, 1),
    "use_cache": (None, True, False),
}


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A generation of `length` new tokens, whose text ends before the first of the strings
    `until`.
    """

    length: int
    until: tuple[str, ...] = ()


def asked(
    arguments: Mapping[str, Any], sampler: SamplerName | None, length: int
) -> GenerationRequest:
    """Reads a request's `generation_kwargs`.

    Args:
        arguments: settings by name, as the harness gives them.
        sampler: whose name says whether decoding is greedy and at which temperature; None reads
            length and stop strings alone.
        length: tokens of the answer where the request has no length.

    Returns:
        The length and the stop strings.

    Raises:
        InputError: where the request contradicts the sampler's name, for settings that a masked
            diffusion model's decoder doesn't have, and for a length or stop string of another type.
    """
    settings = dict(arguments)
    lengths = [settings.pop(name, None) for name in LENGTHS]
    chosen = next((tokens for tokens in lengths if tokens is not None), length)
    if type(chosen) is not int or chosen < 1:
        raise InputError(f"max_gen_toks {shown(chosen)}: give a whole number of at least 1")
    until = _stop_strings(settings.pop("until", None))
    if sampler is None:
        return GenerationRequest(chosen, until)
    _check_temperature(settings.pop("do_sample", None), settings.pop("temperature", None), sampler)
    for name, value in settings.items():
        greedy = name in CUTS and sampler.greedy  # the most probable token is never cut off
        own = {"top_p": sampler.top_p, "top_k": sampler.top_k}.get(name)
        if not greedy and value != own and value not in NEUTRAL.get(name, ()):
            raise InputError(
                f"generation setting {shown(name)} = {shown(value)} is not one of pbcore's"
                " samplers; leave it out, or choose a sampler (pbcore list samplers)"
            )
    return GenerationRequest(chosen, until)


def _stop_strings(until: Any) -> tuple[str, ...]:
    """The strings of a request's `until`. Raises InputError for another type."""
    if until is None:
        return ()
    stops = [until] if isinstance(until, str) else until
    if not isinstance(stops, list | tuple) or not all(isinstance(stop, str) for stop in stops):
        raise InputError(f"until {shown(until)}: give a text or a list of texts")
    return tuple(stops)


def cut_at_stop(text: str, until: Sequence[str]) -> str:
    """The text before the first stop string."""
    ends = [text.index(stop) for stop in until if stop and stop in text]
    return text[: min(ends)] if ends else text


def _check_temperature(do_sample: Any, temperature: Any, sampler: SamplerName) -> None:
    """Raises InputError where a request's do_sample and temperature contradict the sampler's
    name.
    """
    if do_sample is None and temperature is None:
        return
    if temperature is not None and (
        isinstance(temperature, bool) or not isinstance(temperature, int | float)
    ):
        raise InputError(f"temperature {shown(temperature)}: give a number")
    greedy = do_sample is False or temperature == 0
    where = f"do_sample={do_sample}, temperature={temperature}"
    if greedy and not sampler.greedy:
        raise InputError(
            f"the task asks for greedy decoding ({where}), and sampler {sampler} has temperature "
            f"{sampler.temperature}; drop +t{sampler.temperature}, or pass "
            f"--gen_kwargs do_sample=True,temperature={sampler.temperature}"
        )
    if not greedy and (sampler.greedy or temperature not in (None, sampler.temperature)):
        wanted = 1.0 if temperature is None else float(temperature)
        has = "is greedy" if sampler.greedy else f"has temperature {sampler.temperature}"
        raise InputError(
            f"the task asks for sampling ({where}), and sampler {sampler} {has}; add +t{wanted} to"
            " its name, or pass --gen_kwargs do_sample=False,temperature=0"
        )


@dataclass(frozen=True, slots=True)
class HarnessScorer:
    """Scores answers as the harness does: cut at the stop strings, through its filters, by its
    metrics. `version` is a digest of the task's declaration and the harness's version, for a cell's
    key.
    """

    task: Any
    version: str
    metrics: tuple[str, ...] = ()

    def score(
        self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]
    ) -> list[Scored]:
        from lm_eval.api.instance import Instance

        documents = self.task.eval_docs
        instances = []
        for prediction, sample in zip(predictions, samples, strict=True):
            request = asked(sample.input["generation_kwargs"], None, MAX_GEN_TOKS)
            answer = cut_at_stop(prediction, request.until)
            place = (sample.task, sample.index, 1)
            instances.append(
                Instance("generate_until", documents[sample.index], (), 0, place, [answer])
            )
        for ensemble in self.task._filters:
            ensemble.apply(instances)
        results = []
        for instance in instances:
            scored = self._scored(instance)
            if self.metrics:
                scores = {name: score for name, score in scored.scores.items() if name in metrics}
                scored = replace(scored, scores=scores)
            results.append(scored)
        return results

    def _scored(self, instance: Any) -> Scored:
        """One document's scores by all of the harness's metrics, for each filter."""
        values = {}
        filtered = {}
        for kind, response in instance.filtered_resps.items():
            filtered[kind] = str(response)
            results = self.task.process_results(instance.doc, [response])
            for metric, value in results.items():
                values[metric_name(metric, kind)] = value
        return harness_scored(values, {"filtered": filtered})


def metric_name(metric: str, kind: str) -> str:
    """A score's name, as the harness writes it: `exact_match,strict-match`; without the filter if
    that is `none`.
    """
    return metric if kind == "none" else f"{metric},{kind}"


class HarnessDetails(Details, total=False):
    """With what the harness's filters made of an answer, and the likelihoods of its requests."""

    filtered: Mapping[str, Any]
    log_likelihood: list[Any]
    standard_error: list[Any]


def harness_scored(values: Mapping[str, Any], details: HarnessDetails) -> Scored:
    """A document's scores: those of the harness's values that are numbers from 0 to 1; others are
    absent.
    """
    scores = {}
    for name, value in values.items():
        number = value.item() if hasattr(value, "item") else value
        if isinstance(number, bool | int | float) and 0 <= number <= 1:
            scores[name] = float(number)
    absent = {name: NOT_A_SCORE for name in values if name not in scores}
    if absent:
        details["absent"] = absent
    return Scored(scores, details)


def add_harness_tasks(
    patterns: Iterable[str], folder: Path | None = None, unsafe: bool = False
) -> list[str]:
    """Adds tasks of lm-evaluation-harness and their scorers.

    Args:
        patterns: names such as `lm_eval/gsm8k`, a group's name, or `lm_eval/mbpp*`.
        folder: task files of the user's own (YAML), beside the harness's.
        unsafe: True runs code that models write; tasks that need it are refused by default.

    Returns:
        The names of the tasks.

    Raises:
        InputError: without the harness, for unknown names, and for tasks that can't be cells, with
            the reason.
    """
    patterns = list(patterns)
    if not patterns:
        return []
    if find_spec("lm_eval") is None:
        raise InputError(MISSING)
    if folder is not None and not folder.is_dir():
        raise InputError(
            f"--lm-eval-path {folder}: no such folder; give one with the harness's task files"
            " (YAML)"
        )
    loaded: list[tuple[str, Any]] = []
    for pattern in patterns:
        loaded.extend(_loaded(pattern, folder).items())
    return add_specs([_spec(name, task, unsafe) for name, task in loaded])


class HarnessTasks:
    """The harness's tasks, for `pbcore.tasks` (`tasks.spec.TaskSource`)."""

    name = "lm-evaluation-harness"
    prefix = PREFIX

    def load(self, spec: TaskSpec, limit: int | None) -> Task:
        scorer = SCORERS[spec.scorer]
        assert isinstance(scorer, HarnessScorer)
        samples = tuple(_samples(spec.name, scorer.task, limit))
        available = len(scorer.task.eval_docs)
        return Task(spec.name, KIND, samples, spec.scorer, spec.headline, KIND, available=available)

    def refuses(self, task: Task, sampler: SamplerName) -> str | None:
        try:
            asked(task.samples[0].input["generation_kwargs"], sampler, MAX_GEN_TOKS)
        except InputError as error:
            return str(error)
        return None


TASKS = HarnessTasks()


def _loaded(pattern: str, folder: Path | None) -> Mapping[str, Any]:
    """The tasks of a pattern by name; the user's own files are read first, and alone if they have
    some.
    """
    from lm_eval.tasks import TaskManager

    sources: list[dict[str, Any]] = [{}]
    if folder is not None:
        sources.insert(0, {"include_path": str(folder), "include_defaults": False})
    for options in sources:
        manager = TaskManager(**options)
        names = manager.match_tasks([pattern.removeprefix(PREFIX)])
        if names:
            break
    else:
        raise InputError(f"{pattern}: the harness has no such task; `lm_eval ls tasks` lists them")
    try:
        tasks: Mapping[str, Any] = manager.load(list(names))["tasks"]
    except (
        ValueError,
        OSError,
        RuntimeError,
        ImportError,
        LookupError,
        TypeError,
        AssertionError,
    ) as error:
        raise InputError(
            f"{pattern}: the harness can't load it: {first_line(str(error))}"
        ) from error
    return tasks


def _spec(name: str, task: Any, unsafe: bool) -> TaskSpec:
    full = PREFIX + name
    why = why_not(_RULES, _Declared(task, unsafe))
    if why is not None:
        raise InputError(f"{full}: {why}")
    if task.get_config("num_fewshot") is None:
        task.set_config(key="num_fewshot", value=0)
    scorer = _scorer(full, task)
    room = asked(task.get_config("generation_kwargs") or {}, None, MAX_GEN_TOKS).length
    settings = {"n_shot": task.get_config("num_fewshot"), "harness": scorer.version}
    documents = len(task.eval_docs)
    return TaskSpec(
        full, KIND, "", full, scorer.metrics[0], room, settings, documents, asked_by=TASKS.name
    )


def _scorer(name: str, task: Any) -> HarnessScorer:
    """The registered scorer of a task; registers one with the scores that an empty answer to the
    first question has. Raises InputError if it has none.
    """
    config = json.dumps(task.dump_config(), sort_keys=True, default=str)
    digest = hashlib.sha256(config.encode()).hexdigest()[:16]
    scorer = HarnessScorer(task, f"{version('lm_eval')}-{digest}")
    registered = SCORERS.all().get(name)
    if isinstance(registered, HarnessScorer) and registered.version == scorer.version:
        return registered
    [trial] = scorer.score([""], _samples(name, task, 1), frozenset())
    if not trial.scores:
        raise InputError(
            f"{name}: none of its metrics is a number from 0 to 1 for a document"
            f" ({shown(trial.details)})"
        )
    scorer = replace(scorer, metrics=tuple(trial.scores))
    SCORERS.register(name, scorer)
    return scorer


class _Declared(NamedTuple):
    """A harness task, and whether code that a model wrote may be run."""

    task: Any
    unsafe: bool


# Harness tasks that can't be cells.
_RULES: tuple[Rule[_Declared], ...] = (
    Rule(
        lambda d: d.task.OUTPUT_TYPE != "generate_until",
        lambda d: (
            f"its answers are judged by likelihoods ({d.task.OUTPUT_TYPE}), and cells measure"
            " decoding; run it with `pbcore lm-eval`"
        ),
    ),
    Rule(
        lambda d: getattr(d.task, "UNSAFE_CODE", False) and not d.unsafe,
        "scoring runs code that the model wrote; in a sandbox, add --confirm-run-unsafe-code and"
        " set HF_ALLOW_CODE_EVAL=1",
    ),
    Rule(
        lambda d: getattr(d.task, "MULTIMODAL", False),
        "its questions have images or sound, and the models here read text",
    ),
    Rule(
        lambda d: d.task.get_config("gen_prefix"),
        "its answers begin with a given text (gen_prefix), which a chat can't hold; run it with"
        " `pbcore lm-eval`",
    ),
    Rule(
        lambda d: (d.task.get_config("repeats") or 1) != 1,
        "it asks each question several times (repeats); run it with `pbcore lm-eval`",
    ),
)


def _samples(name: str, task: Any, limit: int | None) -> list[Sample]:
    """The first `limit` questions of a task; its solved examples are drawn anew, as the harness
    draws them.
    """
    task.set_fewshot_seed(seed=FEWSHOT_SEED)
    task.build_all_requests(limit=limit, rank=0, world_size=1)
    samples = []
    for instance in task.instances:
        prompt, kwargs = instance.arguments[:2]
        question: tuple[Message, ...] = ({"role": "user", "content": prompt},)
        target = str(task.doc_to_target(instance.doc))
        room = asked(kwargs, None, MAX_GEN_TOKS).length
        values = {"generation_kwargs": kwargs}
        samples.append(
            Sample(
                name,
                int(instance.doc_id),
                question,
                values,
                target,
                room,
                source=KIND,
                limited=True,
            )
        )
    return samples

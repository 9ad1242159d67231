"""Capabilities of models, known before loading: unsupported combinations are left out of the grid and counted."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from pbcore.decoding import resolve
from pbcore.decoding.checks import why_not_in_blocks
from pbcore.decoding.protocol import traits
from pbcore.decoding.samplers import policy
from pbcore.grid.levels import factors_of
from pbcore.models import resolve_model
from pbcore.models.errors import ModelError
from pbcore.models.families import block_of
from pbcore.models.tokenizer import Tokenizer, read_tokenizer
from pbcore.names import SamplerNameError, parse
from pbcore.tasks.base import Task
from pbcore.tasks.registry import task_spec
from pbcore.tasks.spec import asked_by
from pbcore.theory.distributions import supports


class _Own(NamedTuple):
    """A family that decodes by itself: policies whose names it reads, an example, whether it keeps given tokens, and
    the samplers that it runs in place of a profile's."""

    policies: tuple[str, ...]
    example: str
    infills: bool = False
    samplers: tuple[str, ...] = ()


_STEPS = tuple(f"analytic-s{steps}" for steps in (32, 16, 8, 4, 2, 1))
OWN_DECODERS = {
    "diffusion_gemma": _Own(("eb",), "eb-0.1"),
    "causal": _Own(("ar",), "ar", samplers=("ar",)),
    "sedd": _Own(("analytic", "euler"), "analytic-s32", infills=True, samplers=_STEPS),
}
OWN_BATCHES = ("diffusion_gemma", "sedd")  # families that form their batches by themselves


def may_decode_itself(model: str) -> bool:
    """Whether `model` reads sampler names in its own way; of a user's own model only its `check` knows."""
    entry = resolve_model(model)
    return entry.served or entry.family in (*OWN_BATCHES, "user", "unknown")  # the samplers of `causal` are known


def own_samplers(model: str) -> tuple[str, ...]:
    """The samplers that a model has instead of the profile's; none for models that run the profile's."""
    entry = resolve_model(model)
    own = OWN_DECODERS.get(entry.family)
    return entry.samplers or (own.samplers if own else ())


def served(model: str) -> bool:
    """Whether a model answers elsewhere, behind a server; "" is none."""
    return bool(model) and resolve_model(model).served


def no_infilling(model: str, load_task: Callable[[], Task]) -> str | None:
    """Why a model can't run a task whose answers are given in part; None if it can."""
    entry = resolve_model(model)
    own = OWN_DECODERS.get(entry.family)
    if not entry.served and (own is None or own.infills):
        return None
    task = load_task()
    if all(sample.canvas is None for sample in task.samples):
        return None
    return f"{model} × {task.category}: infilling, and a model that decodes by itself can't keep given tokens"


def otherwise_asked(load_task: Callable[[], Task], task: str, sampler: str) -> str | None:
    """Why a sampler contradicts what an integration's task asks for, such as greedy decoding; None if it doesn't."""
    source = asked_by(task)
    why = None if source is None else source.refuses(load_task(), parse(sampler))
    return None if why is None else f"{task} × {sampler}: {why}"


def no_factor(model: str, level: str) -> str | None:
    """Why a level's factors mean nothing to a model; None if it has them all."""
    entry, names = resolve_model(model), factors_of(level)
    if names and entry.served:
        return f"{model} × --factor {', '.join(names)}: its computer is the server's"
    return f"{model} × --factor dtype: it has no weights" if "dtype" in names and entry.family == "ideal" else None


def not_so_asked(model: str, task: str, cot: bool, max_new_tokens: int | None) -> str | None:
    """Why a model can't answer a task in steps (`cot`: those of the run, beside tasks that ask for them by themselves),
    or a task can't have the run's `max_new_tokens`; None if they can, or aren't asked to."""
    spec = task_spec(task)
    if max_new_tokens and spec.fixed is not None and not spec.infills:  # a given canvas has no length to choose
        return f"{task} with --max-new-tokens: {spec.fixed}, its length included; pbcore lm-eval takes --gen_kwargs"
    if cot and spec.fixed is not None:
        return f"{spec.category} with --cot: {spec.fixed}, which leaves no room for steps"
    if (cot or spec.cot) and resolve_model(model).family == "ideal":
        return f"{model} × chain of thought: it knows the right answers, and no steps that lead to them"
    return None


def why_not(model: str, task: str, sampler: str) -> str | None:
    """Why `model` can't run this task with this sampler; None if it can, or if only its `check` knows."""
    entry, name = resolve_model(model), parse(sampler)
    own, block = OWN_DECODERS.get(entry.family), None
    if entry.served:
        reason = entry.refuses(name)
        return None if reason is None else f"{model} × samplers other than {', '.join(entry.samplers)}: {reason}"
    if entry.family in ("user", "unknown"):
        return None
    if own is not None:
        if name.policy in own.policies:
            return f"{model} × +ahead{name.ahead}: it decodes by itself" if name.ahead else None
        names = " and ".join(own.policies)
        return f"{model} × samplers other than {names}: it decodes by itself, e.g. with --sampler {own.example}"
    if not _in_the_loop(sampler):
        return f"{model} × {sampler}: a sampler for models that decode by themselves"
    if entry.family == "masked":
        block = block_of(entry)
        reason = None if block is None else why_not_in_blocks(block, traits(policy(name)), name)
        return None if reason is None else f"{model} × {sampler}: it decodes block by block, and {reason}"
    if entry.family == "ideal" and not supports(task):
        return f"{model} × {task.split('/')[0]}: the right answers can't be listed, so it has no ideal model"
    if entry.family == "ideal" and name.cache:
        return f"{model} × +{name.cache}: it has no attention, so nothing to cache"
    return None


@cache
def _in_the_loop(sampler: str) -> bool:
    """Whether the decoding loop has this sampler."""
    try:
        return resolve(sampler).policy != "ar"
    except SamplerNameError:
        return False


def lacks_words(model: str, task: Task) -> str | None:
    """Why an embedded model, whose vocabulary holds the words of the package's own data, can't read a task's prompts;
    None if it can. Other models can spell any word."""
    entry = resolve_model(model)
    if not entry.embedded or entry.folder is None:
        return None
    tokenizer: Tokenizer = read_tokenizer(entry.folder, entry.name, entry.chat)
    try:
        for sample in task.samples:
            tokenizer.chat(sample.messages)
    except ModelError:
        covers = "its vocabulary covers the package's own data, and these prompts have other words"
        return f"{model} × {task.name}: {covers}"
    return None

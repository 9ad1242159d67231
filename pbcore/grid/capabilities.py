"""Capabilities of models, known before loading: unsupported combinations are left out of the grid
and counted.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from pbcore.decoding import resolve
from pbcore.decoding.checks import why_not_in_blocks
from pbcore.decoding.protocol import traits
from pbcore.decoding.samplers import policy
from pbcore.grid.levels import factors_of
from pbcore.models import resolve_model
from pbcore.models.entry import ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import block_of
from pbcore.models.tokenizer import read_tokenizer
from pbcore.names import SamplerName, SamplerNameError
from pbcore.tasks.base import Task
from pbcore.tasks.registry import task_spec
from pbcore.theory.answers import MOST_ANSWERS, count_latin_squares
from pbcore.theory.distributions import supports


class _OwnDecoding(NamedTuple):
    """A family that decodes by itself: policies whose names it reads, an example, whether it keeps
    given tokens, and the samplers that it runs in place of a profile's.
    """

    policies: tuple[str, ...]
    example: str
    infills: bool = False
    samplers: tuple[str, ...] = ()


_STEPS = tuple(f"analytic-s{steps}" for steps in (32, 16, 8, 4, 2, 1))
OWN_DECODERS = {
    "diffusion_gemma": _OwnDecoding(("eb",), "eb-0.1"),
    "causal": _OwnDecoding(("ar",), "ar", samplers=("ar",)),
    "sedd": _OwnDecoding(("analytic", "euler"), "analytic-s32", infills=True, samplers=_STEPS),
}
OWN_BATCHES = ("diffusion_gemma", "sedd")  # families that form their batches by themselves


def is_served(model: str) -> bool:
    """Whether a model answers elsewhere, behind a server; "" is none."""
    return bool(model) and resolve_model(model).served


@dataclass(frozen=True)
class Capabilities:
    """What one model can run. `why_not` and what is named `no_…` give the reason that excludes a
    combination, or None if the model can run it, or if only its `check` knows.
    """

    model: str  # as the user names it

    @cached_property
    def entry(self) -> ModelEntry:
        return resolve_model(self.model)

    @cached_property
    def _own(self) -> _OwnDecoding | None:
        return OWN_DECODERS.get(self.entry.family)

    @cached_property
    def block(self) -> int | None:
        """The block's length of a model that decodes block by block; None for others."""
        return block_of(self.entry)

    @property
    def in_blocks(self) -> bool:
        """Whether it decodes block by block, by itself or by its attention."""
        return self.block is not None

    @property
    def may_decode_itself(self) -> bool:
        """Whether it reads sampler names in its own way; of a user's own model only its `check`
        knows.
        """
        # The samplers of `causal` are known.
        return self.entry.served or self.entry.family in (*OWN_BATCHES, "user", "unknown")

    @property
    def own_samplers(self) -> tuple[str, ...]:
        """The samplers that it has instead of the profile's; none for models that run the
        profile's.
        """
        return self.entry.samplers or (self._own.samplers if self._own else ())

    def why_not(self, task: str, name: SamplerName) -> str | None:
        """Of a sampler, for this task."""
        entry = self.entry
        own = self._own
        model = self.model
        if entry.served:
            reason = entry.refuses(name)
            if reason is None:
                return None
            return f"{model} × samplers other than {', '.join(entry.samplers)}: {reason}"
        if entry.family in ("user", "unknown"):
            return None
        if own is not None and name.policy not in own.policies:
            names = " and ".join(own.policies)
            return (
                f"{model} × samplers other than {names}: it decodes by itself, e.g. with --sampler"
                f" {own.example}"
            )
        if own is not None:
            return None
        if not _in_the_loop(str(name)):
            return f"{model} × {name}: a sampler for models that decode by themselves"
        if entry.family == "masked" and self.block is not None:
            reason = why_not_in_blocks(self.block, traits(policy(name)), name)
            if reason is None:
                return None
            return f"{model} × {name}: it decodes block by block, and {reason}"
        return self._not_ideal(task, name) if entry.family == "ideal" else None

    def _not_ideal(self, task: str, name: SamplerName) -> str | None:
        """Of a sampler, for this task and an ideal model."""
        model = self.model
        if not supports(task):
            return (
                f"{model} × {task.split('/')[0]}: the right answers can't be listed, so it has no"
                " ideal model"
            )
        reads_attention = "attention" in traits(policy(name)).needs
        if model == "ideal-mi" and reads_attention and task_spec(task).scorer == "walk":
            return (
                f"{model} × {task} with a sampler that reads attention: the mutual information of a"
                " walk's positions is not worked out"
            )
        if name.cache:
            return f"{model} × +{name.cache}: it has no attention, so nothing to cache"
        return None

    def no_infilling(self, load_task: Callable[[], Task]) -> str | None:
        """Of a task whose answers are given in part."""
        if not self.entry.served and (self._own is None or self._own.infills):
            return None
        task = load_task()
        if all(sample.canvas is None for sample in task.samples):
            return None
        return (
            f"{self.model} × {task.category}: infilling, and a model that decodes by itself can't"
            " keep given tokens"
        )

    def no_list(self, task: str, lengths: Collection[int]) -> str | None:
        """Of a task with more right answers at one of these n than can be listed."""
        if self.entry.family != "ideal" or task_spec(task).scorer != "latin_square":
            return None
        most = max(lengths, default=0)
        squares = count_latin_squares(most) if most else 0
        if squares <= MOST_ANSWERS:
            return None
        return (
            f"{self.model} × {task} with n = {most}: there are {squares} such squares, and at most"
            f" {MOST_ANSWERS} are listed"
        )

    def no_factor(self, level: str) -> str | None:
        """Of a level whose factors mean nothing to the model."""
        names = factors_of(level)
        if names and self.entry.served:
            return f"{self.model} × --factor {', '.join(names)}: its computer is the server's"
        weightless = "dtype" in names and self.entry.family == "ideal"
        return f"{self.model} × --factor dtype: it has no weights" if weightless else None

    def no_such_asking(self, task: str, cot: bool, max_new_tokens: int | None) -> str | None:
        """Why the model can't be asked a task in steps, or with another length; None if it can.

        Args:
            task: its name.
            cot: whether the run asks for steps; some tasks ask for them by themselves.
            max_new_tokens: the run's; None: each task's own.
        """
        spec = task_spec(task)
        # A given canvas has no length to choose.
        if max_new_tokens and spec.fixed is not None and not spec.infills:
            return (
                f"{task} with --max-new-tokens: {spec.fixed}, its length included; pbcore lm-eval"
                " takes --gen_kwargs"
            )
        if cot and spec.fixed is not None:
            return f"{spec.category} with --cot: {spec.fixed}, which leaves no room for steps"
        if (cot or spec.cot) and self.entry.family == "ideal":
            return (
                f"{self.model} × chain of thought: it knows the right answers, and no steps that"
                " lead to them"
            )
        return None

    def no_words(self, task: Task) -> str | None:
        """Of a task whose prompts an embedded model can't read, since its vocabulary holds the
        words of the package's own data. Other models can spell any word.
        """
        entry = self.entry
        if not entry.embedded or entry.folder is None:
            return None
        tokenizer = read_tokenizer(entry.folder, entry.name, entry.chat)
        try:
            for sample in task.samples:
                tokenizer.chat(sample.messages)
        except ModelError:
            return (
                f"{self.model} × {task.name}: its vocabulary covers the package's own data, and"
                " these prompts have other words"
            )
        return None


@cache
def _in_the_loop(sampler: str) -> bool:
    """Whether the decoding loop has this sampler."""
    try:
        return resolve(sampler).policy != "ar"
    except SamplerNameError:
        return False

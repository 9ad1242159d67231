"""Why a run leaves out a combination of model, task, sampler and level, known before loading."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from pbcore.base.rules import Rule, why_not
from pbcore.decoding.checks import IN_BLOCKS, InBlocks, lacks
from pbcore.decoding.samplers import Sampler
from pbcore.grid.capabilities import Capabilities
from pbcore.grid.cellid import CellName
from pbcore.grid.levels import FACTORS, factors_of
from pbcore.grid.needs import Use, acts
from pbcore.grid.settings import Settings
from pbcore.models.base import Denoiser, complete
from pbcore.models.entry import ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.tokenizer import read_tokenizer
from pbcore.names import SamplerName
from pbcore.tasks.base import Task
from pbcore.tasks.registry import task_spec
from pbcore.tasks.spec import MORE, TaskSpec, asked_by
from pbcore.theory.answers import MOST_ANSWERS, count_latin_squares
from pbcore.theory.distributions import supports

LISTING = '; labels {"answers": [texts]} or the scorer list_match list them'


@dataclass(frozen=True)
class PlannedTask:
    """A task as a run asks it of a model.

    - `lengths`: the n of its questions, if they have some.
    - `load`: the task with the samples for a model by its name; empty: for no model.
    - `count_tokens`: the numbers of tokens that its answers have to decode.
    """

    can: Capabilities
    task: str
    settings: Settings
    lengths: Collection[int]
    load: Callable[[str], Task]
    count_tokens: Callable[[], set[int]]

    @cached_property
    def spec(self) -> TaskSpec:
        return task_spec(self.task)

    @cached_property
    def tokens(self) -> set[int]:
        return self.count_tokens()

    @cached_property
    def number(self) -> int:
        """Of samples."""
        return len(self.load(self.can.model).samples)

    @cached_property
    def squares(self) -> int:
        """How many right answers a latin square of the largest n has; 0 for other tasks."""
        most = max(self.lengths, default=0)
        return count_latin_squares(most) if most and self.spec.scorer == "latin_square" else 0

    @cached_property
    def listed(self) -> bool:
        """Whether its right answers are known: by its scorer, or by the labels of its questions."""
        if supports(self.task) or self.spec.drawn:
            return supports(self.task)
        labels = [sample.label for sample in self.load("").samples]
        return all(isinstance(label, Mapping) and "answers" in label for label in labels)

    @cached_property
    def begun(self) -> bool:
        """Whether answers are given in part."""
        return any(sample.canvas is not None for sample in self.load("").samples)

    @cached_property
    def unreadable(self) -> bool:
        """Whether prompts have words that an embedded model lacks: its vocabulary holds those of
        the package's own data. Other models can spell any word.
        """
        settings = self.settings
        others = (
            self.spec.kind in MORE  # asked in words that the paper's tasks lack
            or asked_by(self.task)
            or settings.data_dir
            or settings.tasks
            or not self.spec.drawn  # the user's own
            or settings.cot
        )
        if not others:
            return False
        task = self.load(self.can.model)
        entry = self.can.entry
        if not entry.embedded or entry.folder is None:
            return False
        tokenizer = read_tokenizer(entry.folder, entry.name, entry.chat)
        try:
            for sample in task.samples:
                tokenizer.chat(sample.messages)
        except ModelError:
            return True
        return False


@dataclass(frozen=True)
class Combination:
    """A sampler as named, at so many rows or requests at a time (0: as the run says) and at a level
    of the run's factors, for the questions of a task.
    """

    asked: PlannedTask
    sampler: Sampler
    at_once: int = 0
    level: str = ""

    @property
    def name(self) -> SamplerName:
        return self.sampler.name

    @property
    def can(self) -> Capabilities:
        return self.asked.can

    @property
    def model(self) -> str:
        return self.asked.can.model

    @property
    def entry(self) -> ModelEntry:
        return self.asked.can.entry

    @property
    def task(self) -> str:
        return self.asked.task

    @property
    def spec(self) -> TaskSpec:
        return self.asked.spec

    @property
    def settings(self) -> Settings:
        return self.asked.settings

    @property
    def in_blocks(self) -> str | None:
        """Why a block model can't run the sampler."""
        if self.entry.loaded_as != "masked" or self.can.block is None:
            return None
        return why_not(IN_BLOCKS, InBlocks(self.can.block, self.sampler.declared, self.name))

    @property
    def lacking(self) -> str | None:
        """What `ideal` lacks of what the sampler needs. Other models are asked once loaded."""
        if not self.can.ideal:
            return None
        declared = self.sampler.declared
        if not declared.needs and declared.review is None:
            return None
        return lacks(_ideal(self.model), declared, self.name)

    @property
    def idle(self) -> list[str]:
        """The factors of its level that change nothing of it."""
        if not self.level:
            return []
        use = Use.of(self.settings, CellName(self.model, self.task, self.sampler))
        named = factors_of(self.level)
        return [name for name in named if not acts(FACTORS[name].field, use)]

    @property
    def by_source(self) -> str | None:
        """Why the neighbour that asks the questions can't ask them of the sampler."""
        source = asked_by(self.task)
        return None if source is None else source.refuses(self.asked.load(""), self.name)


@cache
def _ideal(model: str) -> Denoiser:
    """An ideal model, which has no weights."""
    from pbcore.models import load_model  # imports torch

    return complete(load_model(model))


RULES: tuple[Rule[Combination], ...] = (
    # A model and a sampler, for this task.
    Rule(
        lambda c: c.entry.refuses(c.name),
        lambda c: (
            f"{c.model} × samplers other than {', '.join(c.entry.samplers)}:"
            f" {c.entry.refuses(c.name)}"
        ),
    ),
    Rule(
        lambda c: c.can.own.policies and c.name.policy not in c.can.own.policies,
        lambda c: (
            f"{c.model} × samplers other than {' and '.join(c.can.own.policies)}: it decodes by"
            f" itself, e.g. with --sampler {c.can.own.example}"
        ),
    ),
    Rule(
        lambda c: c.can.looped and not c.sampler.in_the_loop,
        lambda c: f"{c.model} × {c.name}: a sampler for models that decode by themselves",
    ),
    Rule(
        lambda c: c.in_blocks,
        lambda c: f"{c.model} × {c.name}: it decodes block by block, and {c.in_blocks}",
    ),
    Rule(
        lambda c: c.can.ideal and not c.asked.listed,
        lambda c: (
            f"{c.model} × {c.spec.category}: the right answers can't be listed, so it has no ideal"
            f" model{'' if c.spec.drawn else LISTING}"
        ),
    ),
    Rule(
        lambda c: (
            c.model == "ideal-mi"
            and "attention" in c.sampler.declared.needs
            and c.spec.scorer == "walk"
        ),
        lambda c: (
            f"{c.model} × {c.task} with a sampler that reads attention: the mutual information of a"
            " walk's positions is not worked out"
        ),
    ),
    Rule(
        lambda c: c.can.ideal and c.name.cache,
        lambda c: f"{c.model} × +{c.name.cache}: it has no attention, so nothing to cache",
    ),
    Rule(lambda c: c.lacking, lambda c: f"{c.model} × {c.name}: {c.lacking}"),
    # A model and the questions, as the run asks them.
    Rule(  # a given canvas has no length to choose
        lambda c: c.settings.max_new_tokens and c.spec.fixed is not None and not c.spec.infills,
        lambda c: (
            f"{c.task} with --max-new-tokens: {c.spec.fixed}, its length included; leave"
            " --max-new-tokens out"
        ),
    ),
    Rule(
        lambda c: c.settings.cot and c.spec.fixed is not None,
        lambda c: f"{c.spec.category} with --cot: {c.spec.fixed}, which leaves no room for steps",
    ),
    Rule(
        lambda c: (c.settings.cot or c.spec.cot) and c.can.ideal,
        lambda c: (
            f"{c.model} × chain of thought: it knows the right answers, and no steps that lead to"
            " them"
        ),
    ),
    Rule(
        lambda c: c.can.ideal and c.asked.squares > MOST_ANSWERS,
        lambda c: (
            f"{c.model} × {c.task} with n = {max(c.asked.lengths)}: there are {c.asked.squares}"
            f" such squares, and at most {MOST_ANSWERS} are listed"
        ),
    ),
    Rule(
        lambda c: not c.can.infills and c.asked.begun,
        lambda c: (
            f"{c.model} × {c.spec.category}: infilling, and a model that decodes by itself can't"
            " keep given tokens"
        ),
    ),
    Rule(
        lambda c: c.asked.unreadable,
        lambda c: (
            f"{c.model} × {c.task}: its vocabulary covers the package's own data, and these prompts"
            " have other words"
        ),
    ),
    # A sampler and the questions.
    Rule(  # a server's canvas is its own: what is asked of it needn't be whole blocks
        lambda c: (
            not c.entry.served
            and c.name.block
            and not c.name.adaptive
            and any(tokens % c.name.block for tokens in c.asked.tokens)
        ),
        lambda c: (
            f"{c.spec.category} × +b{c.name.block}: blocks of {c.name.block} don't divide the"
            " answers' length"
        ),
    ),
    Rule(lambda c: c.by_source, lambda c: f"{c.task} × {c.name}: {c.by_source}"),
    Rule(
        lambda c: c.at_once and c.at_once > c.asked.number,
        lambda c: f"{c.task} × +x{c.at_once}: it has {c.asked.number} samples (--limit)",
    ),
    # A cell and the level of factors.
    Rule(
        lambda c: c.idle,
        lambda c: (
            f"{c.model} × --factor {c.idle[0]}: it acts on a cell that"
            f" {FACTORS[c.idle[0]].need.value}"
        ),
    ),
)

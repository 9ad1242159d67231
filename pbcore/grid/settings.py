"""The settings of a run: type, default, help and role of each. Options, records and resume keys
derive from them.
"""

# ruff: noqa: RUF009  the default of each field carries its option, as dataclasses.field does

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from pbcore.base.links import docs
from pbcore.base.speed import MAX_LOSS
from pbcore.costs.kinds import SpeedAxis
from pbcore.grid import option as kinds
from pbcore.grid.option import (
    OPTION_GROUPS,
    Need,
    OptionGroup,
    OptionValues,
    Role,
    option,
    options_of,
)

SELECTS, ANSWERS, LOADS, COMPUTES, JUDGES, WRITES = Role
BASELINE = Path("reports/baselines/embedded-cpu.json")
PROFILES = ("quick", "ci", "paper", "full")
GroupOfOptions = TypeVar("GroupOfOptions", bound=OptionGroup)
SHARING = ("paper", "full")  # profiles that share forwards unless told otherwise


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run. Empty tuples and None mean: as the profile, the task or the model
    says.
    """

    model: tuple[str, ...] = option(
        SELECTS,
        "model to measure: a registered name, a checkpoint folder or a hub id (repeatable; default:"
        " the profile's)",
        many=True,
    )
    sampler: tuple[str, ...] = option(
        SELECTS,
        "sampler to measure, e.g. confidence-k2+b8 (repeatable; default: the profile's)",
        many=True,
    )
    task: tuple[str, ...] = option(
        SELECTS,
        "task to measure: name, short name or pattern such as waiting_line/* (repeatable; default:"
        " the profile's)",
        many=True,
    )
    profile: str = option(
        SELECTS,
        f"which grid of cells: {', '.join(PROFILES)} (default: quick)",
        default="quick",
        metavar="NAME",
    )
    preset: str | None = option(
        ANSWERS,
        "settings of a paper by name: sampler, length … (`pbcore list presets` lists them), or a"
        " FILE.yaml that was tuned",
        metavar="NAME|FILE",
        held="it stands for several options; pbcore explain compares presets",
    )
    limit: int | None = option(SELECTS, "at most N samples a task", kinds.samples)
    questions: tuple[str, ...] = option(
        SELECTS,
        "these questions of each task alone, by number: 0-99 or 3,5,8-20; copy=0-99: of one task"
        " (repeatable)",
        kinds.questions,
        many=True,
    )
    gpu: bool = option(
        ANSWERS,
        "run models on the GPU; a usage error where none can be used",
        None,
        recorded=False,
        need=Need.DEVICE,
        held="it names a device",
    )
    device: str | None = option(
        ANSWERS,
        "cpu, cuda (as --gpu), or mps: an Apple GPU, for masked models in float32 or less, which"
        " decode on the CPU (the project has not run it yet)",
        kinds.device,
        recorded=False,
        need=Need.DEVICE,
        held="it names a device",
    )
    dtype: str | None = option(
        ANSWERS,
        "dtype of the model: float32, bfloat16, float16, float64",
        metavar="DTYPE",
        need=Need.DTYPE,
    )
    quantization: str | None = option(
        LOADS,
        f"load weights quantized: bitsandbytes-4bit, torchao-int8 …; more: {docs('models.md')}",
        metavar="KIND",
        need=Need.WEIGHTS,
    )
    attn_implementation: str | None = option(
        LOADS,
        "attention of transformers: sdpa, eager, flash_attention_2 …",
        metavar="NAME",
        need=Need.NETWORK,
    )
    device_map: str | None = option(
        LOADS,
        "where transformers puts the weights, e.g. auto: spread over the GPUs",
        metavar="MAP",
        need=Need.WEIGHTS,
        held="it names a device",
    )
    revision: str | None = option(
        LOADS,
        "commit, tag or branch of the hub's model instead of the pinned one; with one --model",
        metavar="REV",
        need=Need.HUB,
        held="it names a commit",
    )
    trust_remote_code: bool = option(
        LOADS,
        "run the code that comes with a checkpoint whose architecture is unknown",
        None,
        need=Need.CODE,
    )
    architecture: str | None = option(
        LOADS,
        "what a checkpoint is, whatever its config.json names: a family of `pbcore list models"
        " --families`, llama, qwen2, qwen3, or causal",
        metavar="FAMILY",
        need=Need.WEIGHTS,
    )
    draft: str | None = option(
        LOADS,
        "smaller autoregressive model with the same tokenizer; ar-draft5 verifies its text",
        metavar="MODEL",
        need=Need.DRAFT,
    )
    adapter: str | None = option(
        LOADS,
        "folder of a LoRA adapter to merge into the weights of the one --model; --model MODEL+DIR"
        " does it for one of several",
        metavar="DIR",
        need=Need.NETWORK,
    )
    batch_size: tuple[int, ...] = option(
        COMPUTES,
        "rows decoded at a time; changes speed and memory, never an answer in float32; several,"
        " 1,4,16,64: each cell at each of them",
        kinds.levels,
        (),
        need=Need.ROWS,
    )
    threads: int | None = option(
        COMPUTES,
        "CPU threads of a process (default: torch's, and with -n a fair part of them)",
        kinds.threads,
        varies=True,
        need=Need.HERE,
    )
    factor: tuple[str, ...] = option(
        SELECTS,
        "run every cell at each level of a factor, an option that can change answers:"
        " dtype=float32,bfloat16, shots=0,1 or cot=on,off (repeatable: all combinations); the"
        " summary shows what each factor changes; --batch-size 1,8 and --seed 0-4 are short forms",
        many=True,
        metavar="NAME=LEVELS",
    )
    share_forwards: bool | None = option(
        COMPUTES,
        "share forwards between a model's samplers, which then have no times of their own;"
        f" --no-share-forwards: don't (default: in the profiles {' and '.join(SHARING)}, unless"
        " times are asked for)",
        None,
        negated=True,
        need=Need.SHARES,
    )
    share_memory: float = option(
        COMPUTES,
        "memory for shared forwards in each worker (default: 1 GiB)",
        kinds.amount,
        1.0,
        need=Need.STORE,
    )
    seed: tuple[int, ...] = option(
        ANSWERS,
        "seeds of the random draws of decoding: 0, 0-4 or 3,5,8; every sample is answered once for"
        " each (default: 0)",
        kinds.seeds,
        (0,),
        recorded=False,
    )
    data_seed: int = option(
        ANSWERS,
        "seed of the project's own samples (default: 0)",
        kinds.natural,
        0,
        need=Need.GENERATED,
        held="it chooses the questions, which are the same at every level",
    )
    data_dir: Path | None = option(
        ANSWERS,
        "folder with the official samples, in their layout, or a run folder of the 2026 rewrite",
        Path,
        need=Need.OFFICIAL,
        held="it chooses the questions, which are the same at every level",
    )
    official_text: bool = option(
        ANSWERS,
        "score the whole canvas as the official benchmark does, text after the first EOS included",
        None,
        need=Need.ENDS,
    )
    languagetool_url: str | None = option(
        ANSWERS,
        "LanguageTool server that checks grammar (default: the installed one)",
        metavar="URL",
        need=Need.GRAMMAR,
        held="it names a server",
    )
    bertscore_model: str | None = option(
        ANSWERS,
        "folder of BERTScore's model, or a downloaded one's name (default: roberta-large)",
        metavar="DIR",
        need=Need.BERTSCORE,
        held="one model scores all of a run",
    )
    no_download: bool = option(
        COMPUTES,
        "download nothing: scores whose tools are not installed are absent, with that reason",
        None,
        need=Need.GRAMMAR,
    )
    tasks: tuple[Path, ...] = option(
        ANSWERS,
        "YAML file with tasks of your own (repeatable)",
        Path,
        many=True,
        metavar="FILE",
        recorded=False,
        need=Need.OWN_TASK,
    )
    n: tuple[int, ...] | None = option(
        ANSWERS,
        "items of the lists (2-60) and of several questions (2-6), words of the word sets (1-7),"
        " side of the latin squares (2-9), nodes of the walks (2-1024): 15, 3-6 or 5,10,20",
        kinds.lengths,
        recorded=False,
        need=Need.LENGTH,
        held="it chooses the questions, which are the same at every level",
    )
    shots: int | None = option(
        ANSWERS,
        "solved examples before each list and puzzle question (default: the task's, one)",
        kinds.shots,
        need=Need.SHOTS,
        of_task=True,
    )
    max_new_tokens: int | None = option(
        ANSWERS,
        "canvas length, or limit, of answers in tokens (default: the task's, or more if n"
        " needs it)",
        kinds.positive,
        need=Need.CANVAS,
    )
    cot: bool = option(
        ANSWERS,
        "chain of thought: questions ask for steps, and what follows 'The answer is:' is scored",
        None,
        need=Need.CANVAS,
    )
    cot_answer: str | None = option(
        ANSWERS,
        "of an answer with steps: score what follows 'The answer is:' (marked, the default), or the"
        " whole text, as the official code does (whole)",
        kinds.cot_answer,
        need=Need.STEPS,
        unset="marked",
    )
    out: Path | None = option(
        WRITES,
        "run directory to write; must not exist or be empty (default: reports/<date-time>)",
        Path,
        need=Need.WRITTEN,
    )
    rounds: int = option(
        WRITES,
        "how often each cell decodes for timing (default: 1)",
        kinds.positive,
        1,
        need=Need.TIMED,
    )
    blame: bool = option(
        WRITES,
        "find the step that broke each wrong answer, and whether revealing tokens together or the"
        f" model is to blame ({docs('why.md')}); its forwards and seconds are not the cell's",
        None,
        need=Need.BLAMED,
    )
    sample: tuple[int, ...] = option(
        SELECTS,
        "drill-down: only sample N of each cell, as an item of its own (repeatable)",
        kinds.natural,
        many=True,
    )
    per_sample: bool = option(
        SELECTS,
        "drill-down: every sample is an item and a wrong answer fails it (implied by -x unless a"
        " gate is given)",
        None,
    )
    resume: Path | None = option(
        WRITES,
        "resume run directory RUN: finished cells whose key still matches are kept",
        Path,
        metavar="RUN",
    )
    resume_anyway: bool = option(
        WRITES,
        "with --resume: measure cells again whose settings differ from the earlier run's",
        None,
    )
    estimate: bool = option(
        WRITES,
        "print download, memory, cells, forwards and hours that the run would take, and run no"
        " cell; no weights and no GPU are needed: models that aren't here are computed for two"
        " devices, or for those that --price names",
        None,
    )
    shard: tuple[int, int] | None = option(
        SELECTS, "run part I of N of the cells, split by model first", kinds.shard
    )
    gate: tuple[Path, ...] = option(
        JUDGES,
        "judge cells against their rows in BASELINE, a run directory or a baseline file"
        " (repeatable)",
        Path,
        many=True,
        metavar="BASELINE",
    )
    gate_level: float = option(
        JUDGES,
        "probability that a gate fails although nothing changed, over all its cells (default:"
        " 0.05)",
        kinds.level,
        0.05,
        need=Need.GATED,
    )
    gate_exact: bool = option(
        JUDGES,
        "with --gate: every answer counts, though the weights are others than the baseline's"
        " (default: scores are tested; greedy float32 decoding alone)",
        None,
        need=Need.GATED,
    )
    gate_time: float | None = option(
        JUDGES,
        "fail cells slower than the gate's baseline by more than this share, e.g. 10%%",
        kinds.share,
    )
    against: str | None = option(
        JUDGES,
        "revision or checkout whose code is timed interleaved with this one for --gate-time",
        metavar="REV|PATH",
    )
    floor: tuple[str, ...] = option(
        JUDGES,
        "absolute demand, e.g. 'tiny/copy/* accuracy>=0.98' (repeatable)",
        many=True,
        metavar="RULE",
    )
    max_loss: float = option(
        JUDGES,
        "loss in points that the fastest sampler of the headline may have, by its one-sided 95 %%"
        f" bound (default: {MAX_LOSS:g})",
        kinds.points,
        MAX_LOSS,
    )
    axis: SpeedAxis | None = option(
        JUDGES,
        "what speed is in the headline and on the plots: tokens-per-step, tokens-per-row,"
        " tokens-per-forward, calls, rows, tokens (forwarded) or seconds (by the first --price,"
        " else as measured; default: tokens-per-step)",
        kinds.axis,
    )
    price: tuple[str, ...] = option(
        JUDGES,
        "also show seconds per answer by a price list: here (pbcore price), a device such as h200"
        " or h200:graphs, or a file (repeatable)",
        kinds.price,
        many=True,
        metavar="LIST",
    )
    price_batch: int = option(
        JUDGES, "answers decoded together, for --price (default: 1)", kinds.positive, 1
    )
    update_baseline: Path | None = option(
        JUDGES,
        f"write the run's rows to FILE (default: {BASELINE}) as the new baseline",
        Path,
        metavar="FILE",
        const=BASELINE,
    )
    allow_missing: tuple[str, ...] = option(
        JUDGES,
        "a score that the new baseline may lack, such as grammar (repeatable)",
        str,
        many=True,
        metavar="SCORE",
    )
    # Options of neighbours, by field.
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, **given: Any) -> Settings:
        """The settings with these options, those of neighbours included. Raises TypeError for an
        unknown one.
        """
        added: set[str] = set()
        for group in GROUPS:
            added.update(option.field for option in options_of(group))
        own = {name: value for name, value in given.items() if name not in added}
        more = {name: value for name, value in given.items() if name in added}
        if own.get("device") in ("cpu", "cuda"):  # other names of the default and of --gpu
            own["gpu"] = own.pop("device") == "cuda" or own.get("gpu", False)
        return cls(**own, more=more)

    @property
    def gated(self) -> bool:
        """Whether the run is judged, so that every cell has to be measured whole."""
        return bool(self.gate or self.floor or self.update_baseline or self.gate_time is not None)

    @property
    def rows(self) -> int | None:
        """The rows decoded at a time, if one number was given."""
        return self.batch_size[0] if len(self.batch_size) == 1 else None

    @property
    def place(self) -> str:
        """The device, as torch names it."""
        return "cuda" if self.gpu else self.device or "cpu"

    def part(self, group: type[GroupOfOptions]) -> GroupOfOptions:
        """The options of a neighbour, by their class."""
        return group(**{f.name: self.more[f.name] for f in fields(group) if f.name in self.more})  # type: ignore[arg-type]

    @property
    def parts(self) -> list[OptionGroup]:
        """The options of each neighbour that is here."""
        return [self.part(group) for group in GROUPS]

    @property
    def load_options(self) -> OptionValues:
        """Options of `load_model` beside device and dtype, those that were given."""
        return self._given(LOADS)

    @property
    def sharing(self) -> bool:
        """Whether forwards are shared: as given, else where the profile says so and the run's times
        are not judged.
        """
        if self.share_forwards is not None:
            return self.share_forwards
        if self.factor:  # a level must not answer for another
            return False
        timed = (
            self.rounds > 1
            or len(self.batch_size) > 1
            or (self.gate_time is not None and self.against is None)
        )
        return self.profile in SHARING and not timed

    @property
    def recorded(self) -> OptionValues:
        """What a record keeps beside its own fields: options given that can change an answer, and
        how it was timed.
        """
        given = self._given(ANSWERS, LOADS)
        # Seeds, device, length, task and model are the record's own fields.
        elsewhere = {option.field for option in OPTIONS if not option.recorded}
        kept = {name: value for name, value in given.items() if name not in elsewhere}
        return {"device": self.place, "data_seed": self.data_seed, "rounds": self.rounds, **kept}

    @property
    def remembered(self) -> OptionValues:
        """The settings that run.json keeps and `--resume` compares: those that decide what is asked
        and answered.
        """
        given = self._given(ANSWERS, LOADS)
        selected: OptionValues = {"profile": self.profile, "limit": self.limit}
        if self.questions:
            selected["questions"] = self.questions
        return {**selected, **given, "seed": self.seed}

    @property
    def computing(self) -> OptionValues:
        """The settings given for speed and memory alone."""
        return self._given(COMPUTES)

    def _given(self, *roles: Role) -> OptionValues:
        """Name → value of the options of these roles that are neither off nor empty; no shots at
        all is a choice.
        """
        chosen = {}
        for declared in OPTIONS:
            if declared.role not in roles:
                continue
            name = declared.field
            value = self.more.get(name, getattr(self, name, None))
            if value or (name == "shots" and value == 0):
                chosen[name] = value
        return chosen


GROUPS = OPTION_GROUPS.all().values()
OPTIONS = (*options_of(Settings), *chain.from_iterable(map(options_of, GROUPS)))

"""One cell's record, which runs write and reports read. Plain JSON values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, get_args

from annotated_types import Interval

from pbcore.base.check import (
    FromMapping,
    LoadError,
    Packed,
    RecordedAmount,
    RecordedCount,
    checked,
    validated,
)
from pbcore.base.printable import printable, shown
from pbcore.base.registry import Registry
from pbcore.costs.calls import CallShape
from pbcore.models.info import ModelInfo
from pbcore.tasks.scoring import Details
from pbcore.theory.ceiling import Ceiling, Share

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

SCHEMA = 2

CERTAIN = 0.995  # confidences that round to 1
BlameVerdict = Literal["model", "together", "token", "undecided", "gained"]
VERDICTS: tuple[BlameVerdict, ...] = get_args(BlameVerdict)

TOLERANCE = 1e-6  # of numbers that were computed in another order, or by a first version

# Of a cell's decoding, by name: a number, one a step, or some by a word.
Statistics = dict[str, float | list[float] | dict[str, float]]
RecordedStep = Annotated[int, Interval(ge=-1, le=10**15)]


@checked
@dataclass(frozen=True, slots=True)
class Score:
    """A mean over samples with its 95 % interval: Wilson for binary scores, `stats.graded_interval`
    for graded ones.
    """

    mean: Share
    low: Share
    high: Share
    n: RecordedCount
    kind: Literal["binary", "graded"]


@checked
@dataclass(frozen=True, slots=True)
class FormerToken:
    """A token that stood at position `at` of the canvas from `step` on, until step `until` masked
    it again or replaced it; `confidence` when it was revealed. `id` is its token id, None in
    records from before ids were kept.
    """

    at: RecordedCount
    token: str
    step: RecordedStep
    until: RecordedStep
    confidence: float
    id: RecordedCount | None = None


@checked
@dataclass(frozen=True, slots=True)
class BlamedToken:
    """A token that the step to blame revealed at position `at`. `alone` says whether the answer
    still ends right where the step reveals this token alone; None: not tried, as only the least
    sure are.
    """

    at: RecordedCount
    token: str
    confidence: float
    alone: bool | None = None

    @property
    def certain(self) -> bool:
        """Whether its confidence rounds to 1."""
        return self.confidence >= CERTAIN


@checked
@dataclass(frozen=True, slots=True)
class Continued:
    """An answer that goes on one token at a time from one of its canvases: tokens as in
    `SampleRecord`, each with the step that revealed it, counted on from the answer's own.
    """

    text: str
    tokens: list[str]
    steps: list[RecordedStep]
    confidences: list[float]


@checked
@dataclass(frozen=True, slots=True)
class Blame:
    """Why an answer is wrong, by going on one token at a time from its canvases (docs/why.md).

    - `verdict`: `model`, wrong one at a time from the start, too; `together`, the tokens of one
      step break it that would each alone have ended right; `token`, one token of that step alone
      ends wrong; `undecided`, with a `reason`; `gained`, of a right answer: wrong one at a time.
    - `step`: the canvas before it ends right, and the canvas after it wrong.
    - `revealed`: what that step revealed, up to the first EOS.
    - `rest`: how the answer ends from the canvas before that step.
    - `clash`: the positions of the smallest set of these tokens from which the answer ends wrong,
      without any of which it ends right; empty where none was found, and in records from before
      it was searched for.
    """

    verdict: BlameVerdict
    reason: str = ""
    step: RecordedCount | None = None
    revealed: list[BlamedToken] = field(default_factory=list)
    rest: Continued | None = None
    clash: list[RecordedCount] = field(default_factory=list)


@checked
@dataclass(frozen=True, slots=True)
class BlameShares:
    """The verdicts of a cell's answers, as shares of all of them with their 95 % intervals.
    `score` says which answers are right; `reference` is the sampler that reveals one token at a
    time, None where its answers aren't known. `forwards` and `seconds` are those that the verdicts
    took, beside the cell's own.
    """

    score: str
    reference: str | None
    model: Score
    together: Score
    token: Score
    undecided: Score
    gained: Score
    forwards: RecordedCount
    seconds: RecordedAmount

    @property
    def net_loss(self) -> float | None:
        """What the cell loses to one token at a time, as a share of its answers."""
        if self.reference is None:
            return None
        lost = self.together.mean + self.token.mean + self.undecided.mean
        return lost - self.gained.mean


@checked
@dataclass(frozen=True, slots=True)
class _CallRow:
    """A CallShape and how often it was called, as files have them."""

    rows: RecordedCount
    tokens: RecordedCount
    context: RecordedCount
    logits: RecordedCount
    prefill: bool
    times: RecordedCount


def _by_shape(rows: Sequence[_CallRow]) -> dict[CallShape, int]:
    calls = Counter[CallShape]()
    for row in rows:
        calls[CallShape(row.rows, row.tokens, row.context, row.logits, row.prefill)] += row.times
    return dict(calls)


Calls = Annotated[dict[CallShape, int], Packed(list[_CallRow], _by_shape)]


@checked
@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One answer to one sample. `scores` and `details` as in `tasks.scoring.Scored`; `seed` the
    seed of its decoding; `official_text` the text of the whole canvas, if there is text after the
    first EOS; `served` what a server reported of it. Of a block model `prefill` and `store` count
    the forwards of these kinds (the latter also in `nfe`); `rows` are the canvases forwarded, more
    than `nfe` for samplers that ask about what-if rows. `tokens` are the canvas's as text, and
    `token_ids` their ids, without repetitions of the last one at the end; `former` those that did
    not stay. `tokens_forwarded` are the positions computed for the answer, and `tokens_prefilled`
    those of them that only stored the prompt. `blame` says why a wrong answer is wrong (`--blame`).
    None: not reported, not recorded or not such a model.
    """

    index: RecordedCount
    text: str
    scores: dict[str, Share]
    nfe: RecordedCount | None
    canvas_tokens: RecordedCount | None
    answer_tokens: RecordedCount | None
    details: Annotated[Details, Packed(dict[str, Any], Details)] = field(default_factory=Details)
    steps: list[RecordedStep] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    seed: int = 0
    official_text: str | None = None
    served: dict[str, Any] | None = None
    prefill: RecordedCount | None = None
    store: RecordedCount | None = None
    tokens: list[str] | None = None
    former: list[FormerToken] | None = None
    rows: RecordedCount | None = None
    tokens_forwarded: RecordedCount | None = None
    tokens_prefilled: RecordedCount | None = None
    token_ids: list[RecordedCount] | None = None
    blame: Blame | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Index and seed, which identify an answer within its cell and order the answers."""
        return self.index, self.seed

    def to_json(self) -> dict[str, Any]:
        """Its fields by name, with the record's own lists and mappings: `asdict` without copies of
        every token's step and confidence.
        """
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        if self.former is not None:
            values["former"] = [asdict(token) for token in self.former]
        if self.blame is not None:
            values["blame"] = asdict(self.blame)
        return values

    @classmethod
    def from_json(cls, data: Any, where: str = "sample") -> SampleRecord:
        """Reads a sample. Raises LoadError, which begins with `where`, as `check.validated`
        does.
        """
        return validated(cls, data, where)


def by_index(samples: Iterable[SampleRecord]) -> dict[int, list[SampleRecord]]:
    """Index → its answers by seed, both in ascending order."""
    ordered = sorted(samples, key=lambda sample: sample.place)
    return {index: list(same) for index, same in groupby(ordered, key=lambda sample: sample.index)}


def question_scores(samples: Iterable[SampleRecord], name: str) -> dict[int, float]:
    """Question → its score, a mean over its seeds, of the answers that have it."""
    scored = [sample for sample in samples if name in sample.scores]
    means = {}
    for index, same in by_index(scored).items():
        means[index] = fmean(answer.scores[name] for answer in same)
    return means


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions of a cell's measurement. None means unknown, e.g. the dtype of a model that
    failed to load.

    `options` are the requested settings; `versions` those of packages that affect results; `worker`
    the xdist worker, empty without one; `shared_device` whether other workers used the same device,
    which makes timings inexact; `peak_memory_is` how peak memory was measured; `dummy` whether the
    weights are random; `key` a digest of everything that determines the outcome; `wait_policy`
    OpenMP's OMP_WAIT_POLICY in lower case, `default` if it isn't set; `level` the level of each
    factor that the run varied (`--factor`); `at_once` how many rows or requests at a time the
    sampler asks for (`+x4`); `model_identity` what `models.identity` says of the model (None in
    records from before it did).
    """

    options: dict[str, Any]
    versions: dict[str, str]
    seeds: list[int]
    data_source: str | None
    data_hash: str | None
    device: str | None
    dtype: str | None
    batch_size: int | None
    threads: int | None
    worker: str | None
    shared_device: bool | None
    dummy: bool | None
    peak_memory_is: str | None
    model_info: Annotated[ModelInfo, Packed(dict[str, Any], ModelInfo)] | None
    key: str | None
    wait_policy: str | None = None
    level: dict[str, Any] | None = None
    at_once: RecordedCount | None = None
    model_identity: dict[str, str] | None = None

    @property
    def level_text(self) -> str:
        """The level as a cell's id ends with it: `shots:0+dtype:bfloat16`; empty without one."""
        return "+".join(f"{name}:{value}" for name, value in (self.level or {}).items())

    @classmethod
    def unknown(cls, **known: Any) -> Conditions:
        """Conditions with these values; all others are unknown."""
        values: dict[str, Any] = dict.fromkeys(column.name for column in fields(cls))
        values |= {"options": {}, "versions": {}, "seeds": []}
        values |= known
        return cls(**values)


class RecordPart(Protocol):
    """What a neighbour keeps of a cell whose model answers elsewhere: a frozen dataclass of
    plain values. Where the neighbour isn't here, it is read as it is.
    """

    COLUMNS: ClassVar[tuple[str, ...]]

    def columns(self) -> tuple[float | None, ...]:
        """The values of COLUMNS, of a table with a row per cell."""


PARTS: Registry[type[Any]] = Registry("part of a record", "pbcore.record_parts")


def part_class() -> type[Any] | None:
    """The class of a record's part `served`; None without a neighbour that has one."""
    return next(iter(PARTS.all().values()), None)


class _AddedPart:
    """Annotates `served`, whose class is a neighbour's; without one it is read as it is."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        part: Any = part_class()
        kind = dict[str, Any] if part is None else Annotated[part, FromMapping()]
        return handler.generate_schema(kind | None)


@checked
@dataclass(frozen=True, slots=True)
class CellRecord:
    """One cell = task × model × sampler. Seconds are wall-clock time of decoding alone.
    `tokens_per_step` is the mean over samples of canvas tokens / NFE, `tokens_per_row` the same
    with the canvases forwarded, `rows`, in place of NFE (None in records from before they were
    counted: then they equal NFE); `tokens_per_forward` is answer tokens before the first EOS / NFE,
    both summed over samples first. `tokens_forwarded` is the mean over answers of the positions
    computed for one, with every cache, window and what-if row; `tokens_prefilled` are those of them
    that only stored the prompt, and `tokens_padded` further ones that filled the batch. `calls`
    sums up the sizes of all answers' calls, at most 64, and `answers_per_call` says how many
    answers of a batch took part in one, in the mean (None of all five: not counted, as in records
    from before there was such a count).

    Numbers that were not measured are None, and `absent` says why (`nfe` for all that counts
    forwards, `seconds` for all that counts time). With several seeds, scores are means over samples
    of a sample's mean over seeds, and rates count every answer. Where forwards were shared between
    cells, `forwards_shared` of the cell's NFE were answered by other cells' and `forwards_computed`
    by the model (elsewhere both are None); `seconds_estimated` is what all of them would take at
    the seconds per forward of this model and task. `text_after_eos` counts the answers with text
    after the first EOS token, `unclosed_think` those that end within a `<think>` (None: recorded
    before there was such a count). `ceiling` is the ideal model's expected accuracy on these
    samples under this sampler, and `bits_lost` the mean over answers of L_T of the partition that
    the decoding took (docs/theory.md). `blame` sums up why answers are wrong (`--blame`).
    `n_available` is None where questions are drawn without a known end, and in older records.
    """

    id: str  # "tiny/shuffle/confidence-k2", unique in a run
    model: str
    task: str  # full name, e.g. "waiting_line/shuffle"
    sampler: str  # canonical name
    conditions: Conditions
    status: Literal["ok", "error"] = "ok"
    error: str | None = None
    n_samples: RecordedCount = 0
    n_available: RecordedCount | None = None  # questions that the task's data has
    length: str = ""  # the values of n among the samples, e.g. "3-6" or "15"
    scores: dict[str, Score] = field(default_factory=dict)
    headline: str = ""
    absent: dict[str, str] = field(default_factory=dict)
    nfe_mean: RecordedAmount | None = None
    nfe_median: RecordedAmount | None = None
    nfe_max: RecordedCount | None = None
    rows_mean: RecordedAmount | None = None
    tokens_forwarded: RecordedAmount | None = None
    tokens_prefilled: RecordedAmount | None = None
    tokens_padded: RecordedAmount | None = None
    calls: Calls | None = None
    answers_per_call: RecordedAmount | None = None
    # Of a block model: forwards that ran the prompt, not in NFE.
    prefill_mean: RecordedAmount | None = None
    # Of a block model: forwards that stored finished blocks, part of NFE.
    store_mean: RecordedAmount | None = None
    tokens_per_step: RecordedAmount | None = None
    tokens_per_row: RecordedAmount | None = None
    tokens_per_forward: RecordedAmount | None = None
    seconds: RecordedAmount | None = None
    rounds: list[RecordedAmount] = field(default_factory=list)
    samples_per_second: RecordedAmount | None = None
    tokens_per_second: RecordedAmount | None = None
    peak_memory_bytes: RecordedCount | None = None
    seconds_estimated: RecordedAmount | None = None
    forwards_shared: RecordedCount | None = None
    forwards_computed: RecordedCount | None = None
    # Order statistics: AR-ness, tokens per step …
    decoding: Annotated[Statistics, Packed(dict[str, Any], dict)] = field(default_factory=dict)
    failures: dict[str, RecordedCount] = field(default_factory=dict)  # failure kind → samples
    text_after_eos: RecordedCount | None = None
    unclosed_think: RecordedCount | None = None
    # Of a model that answers elsewhere, behind a server.
    served: Annotated[RecordPart | dict[str, Any] | None, _AddedPart()] = None
    ceiling: Annotated[Ceiling, FromMapping()] | None = None
    bits_lost: RecordedAmount | None = None
    blame: BlameShares | None = None

    @property
    def model_at(self) -> str:
        """The model, with the level of the run's factors if it has them: `tiny at batch-size:8`."""
        level = self.conditions.level_text
        return f"{self.model} at {level}" if level else self.model

    @property
    def data_hash(self) -> str | None:
        """The digest of its questions; None where unknown."""
        return self.conditions.data_hash

    def to_json(self) -> dict[str, Any]:
        """Exact builtins, as pytest reports and JSON need them."""
        data = asdict(replace(self, calls=None))
        if self.calls is not None:
            data["calls"] = [
                {**asdict(shape), "times": times} for shape, times in self.calls.items()
            ]
        return data

    @classmethod
    def from_json(cls, data: Any, where: str = "record") -> CellRecord:
        """Reads a record. Raises what `check.validated` does, naming the cell; LoadError for a mean
        outside its interval and a headline that was neither measured nor declared absent.
        """
        if not isinstance(data, dict):
            raise LoadError(f"{where}: it is {shown(data)}; it should be a record with an id")
        if "id" in data:
            where = f"{where}: cell {printable(str(data['id']))}"
        cell = validated(cls, data, where)
        for name, score in cell.scores.items():
            if not score.low - TOLERANCE <= score.mean <= score.high + TOLERANCE:
                raise LoadError(
                    f"{where}: field scores.{printable(name, 40)}.mean is {score.mean:g}, outside"
                    f" its interval [{score.low:g}, {score.high:g}]: edited or damaged"
                )
        evaluated = cell.status == "ok" and cell.headline and cell.scores
        if evaluated and cell.headline not in {*cell.scores, *cell.absent}:
            names = ", ".join(printable(name, 40) for name in list(cell.scores)[:8])
            raise LoadError(
                f"{where}: field headline is {printable(cell.headline, 40)!r}, which is neither"
                f" among scores ({names}) nor absent: edited or damaged"
            )
        return cell


CONDITIONS = tuple(f.name for f in fields(Conditions))


def id_order(cell_id: str) -> list[str]:
    """A sort key of ids, part by part: the cells of `tiny` before those of `tiny-sedd`."""
    return cell_id.split("/")


def absent_reasons(absent: object) -> dict[str, str]:
    """Each reason once, by the metrics that it keeps from being measured: a composite stands beside
    the score that it lacks (`bertscore, v1`). `absent` is a record's; anything else holds no
    reasons.
    """
    metrics: dict[str, list[str]] = {}
    reasons: Mapping[str, str] = absent if isinstance(absent, Mapping) else {}
    for name, why in reasons.items():
        lacked, _, cause = why.partition(": ")
        is_composite = reasons.get(lacked) == cause
        metrics.setdefault(cause if is_composite else why, []).append(name)
    return {", ".join(names): why for why, names in metrics.items()}

"""One cell's record, which runs write and reports read. Plain JSON values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pbcore.errors import InputError

SCHEMA = 2
READABLE = (1, 2)  # schema 1 had the conditions on the top level, with defaults for unknown ones


@dataclass(frozen=True, slots=True)
class Score:
    """A mean over samples with its 95 % interval: Wilson for binary scores, bootstrap for graded ones."""

    mean: float
    low: float
    high: float
    n: int
    kind: str  # "binary" | "graded"


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One answer to one sample. `scores` and `details` as in `tasks.scoring.Scored`; `seed` the seed of its decoding;
    `official_text` the text of the whole canvas, if there is text after the first EOS, else None."""

    index: int
    text: str
    scores: dict[str, float]
    nfe: int
    canvas_tokens: int
    answer_tokens: int
    details: dict[str, Any] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    seed: int = 0
    official_text: str | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Index and seed, which identify an answer within its cell and order the answers."""
        return self.index, self.seed


def by_index(samples: Iterable[SampleRecord]) -> dict[int, list[SampleRecord]]:
    """Index → its answers by seed, both in ascending order."""
    groups: dict[int, list[SampleRecord]] = {}
    for sample in sorted(samples, key=lambda sample: sample.place):
        groups.setdefault(sample.index, []).append(sample)
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions of a cell's measurement. None means unknown, e.g. the dtype of a model that failed to load.

    `options` are the requested settings; `versions` those of packages that affect results; `worker` the xdist worker, empty without one;
    `shared_device` whether other workers used the same device, which makes timings inexact; `peak_memory_is` how peak memory was
    measured; `dummy` whether the weights are random; `key` a digest of everything that determines the outcome.
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
    model_info: dict[str, Any] | None
    key: str | None

    @classmethod
    def unknown(cls, **known: Any) -> Conditions:
        """Conditions with these values; all others are unknown."""
        empty: dict[str, Any] = {"options": {}, "versions": {}, "seeds": []}
        return cls(**{**dict.fromkeys(f.name for f in fields(cls)), **empty, **known})


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One cell = task × model × sampler. Seconds are wall-clock time of decoding alone. `tokens_per_step` is the mean over samples of
    canvas tokens / NFE; `tokens_per_forward` is answer tokens before the first EOS / NFE, both summed over samples first.

    `status` is `ok` or `error`; `absent` maps a metric to the reason why it was not measured. Each of the `n_samples` samples was
    answered once per seed; with several seeds, scores are means over samples of a sample's mean over seeds, and rates count every
    answer. `text_after_eos` counts the answers with text after the first EOS token.
    """

    id: str  # "tiny/shuffle/confidence-k2", unique in a run
    model: str
    task: str  # full name, e.g. "waiting_line/shuffle"
    sampler: str  # canonical name
    conditions: Conditions
    status: str = "ok"
    error: str | None = None
    n_samples: int = 0
    length: str = ""  # the values of n among the samples, e.g. "3-6" or "15"
    scores: dict[str, Score] = field(default_factory=dict)
    headline: str = ""
    absent: dict[str, str] = field(default_factory=dict)
    nfe_mean: float = 0.0
    nfe_median: float = 0.0
    nfe_max: int = 0
    tokens_per_step: float = 0.0
    tokens_per_forward: float = 0.0
    seconds: float = 0.0
    rounds: list[float] = field(default_factory=list)
    samples_per_second: float = 0.0
    tokens_per_second: float = 0.0
    peak_memory_bytes: int = 0
    decoding: dict[str, Any] = field(default_factory=dict)  # order statistics: AR-ness, tokens per step …
    failures: dict[str, int] = field(default_factory=dict)  # failure kind → samples
    text_after_eos: int = 0

    def to_json(self) -> dict[str, Any]:
        """Exact builtins, as pytest reports and JSON need them."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CellRecord:
        """Reads a record. Raises InputError for unknown fields, which a newer schema may have written."""
        if "conditions" not in data:
            data = _from_schema_1(data)
        unknown = (set(data) - {f.name for f in fields(cls)}) | (set(data["conditions"]) - set(CONDITIONS))
        if unknown:
            raise InputError(
                f"cell record has unknown fields {sorted(unknown)}: written by a newer version (this one reads schema {SCHEMA})"
            )
        scores = {name: Score(**value) for name, value in data.get("scores", {}).items()}
        return cls(**{**data, "scores": scores, "conditions": Conditions(**data["conditions"])})


CONDITIONS = tuple(f.name for f in fields(Conditions))


def _from_schema_1(data: dict[str, Any]) -> dict[str, Any]:
    """Converts a record of schema 1 to schema 2. Its failed cells had defaults for unknown conditions; these become None."""
    settings = dict(data.get("settings", {}))
    measured = {name: settings.pop(name, None) for name in ("threads", "peak_memory_is")}
    known = {name: data[name] for name in CONDITIONS if name in data and name != "settings"}
    if data.get("status") == "error":
        known = {name: value for name, value in known.items() if name == "seeds"}
    versions = settings.pop("versions", {})
    conditions = Conditions.unknown(**{**known, **measured, "versions": versions, "options": settings})
    rest = {name: value for name, value in data.items() if name not in CONDITIONS and name != "settings"}
    return {**rest, "conditions": asdict(conditions)}

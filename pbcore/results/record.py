"""One cell's record: what every run writes, every report reads. Plain JSON values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

SCHEMA = 1


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
    """One answer to one sample. `scores` as the task gives them; `details` as in `tasks.scoring.Scored`; `seed` that it was decoded by."""

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

    @property
    def place(self) -> tuple[int, int]:
        """What tells answers of one cell apart, and their order: index, seed."""
        return self.index, self.seed


def by_index(samples: Iterable[SampleRecord]) -> dict[int, list[SampleRecord]]:
    """Index → its answers by seed, both in rising order."""
    found: dict[int, list[SampleRecord]] = {}
    for sample in sorted(samples, key=lambda sample: sample.place):
        found.setdefault(sample.index, []).append(sample)
    return found


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One cell = task × model × sampler. Seconds are wall-clock of decoding alone; rates are defined in DESIGN.md (two rates).

    `status` is `ok` or `error`; `absent` maps a metric to the reason why it was not measured; `shared_device` marks timings taken
    while other workers used the same device. Each of the `n_samples` samples was answered once for each of `seeds`; with several, scores
    are means over samples of a sample's mean over seeds, and rates count every answer.
    """

    id: str  # "tiny/shuffle/confidence-k2", unique in a run
    model: str
    task: str  # full name, e.g. "waiting_line/shuffle"
    sampler: str  # canonical name
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
    batch_size: int = 0
    seeds: list[int] = field(default_factory=lambda: [0])
    data_source: str = "own"
    data_hash: str = ""
    device: str = "cpu"
    dtype: str = "float32"
    worker: str = ""
    shared_device: bool = False
    dummy: bool = False
    key: str = ""  # digest of everything that decides the outcome; resume and gates compare it
    model_info: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    decoding: dict[str, Any] = field(default_factory=dict)  # order statistics: AR-ness, tokens per step …
    failures: dict[str, int] = field(default_factory=dict)  # failure kind → samples

    def to_json(self) -> dict[str, Any]:
        """Exact builtins, as pytest reports and JSON need them."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CellRecord:
        """Reads a record; unknown fields are refused so that a newer schema is noticed."""
        unknown = set(data) - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(
                f"cell record has unknown fields {sorted(unknown)}: written by a newer version (this one reads schema {SCHEMA})"
            )
        scores = {name: Score(**value) for name, value in data.get("scores", {}).items()}
        return cls(**{**data, "scores": scores})

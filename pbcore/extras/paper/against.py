"""A run's scores beside published figures of the same model, task and sampler, and what differs
between the two.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import pandas as pd

from pbcore.analysis.order import TASKS, natural
from pbcore.base.errors import InputError
from pbcore.tasks.naming import REWRITE, category

PAPER = "as-published"  # the sampler of the paper's tables, which have one setting per model
# The paper's names → sources of checkpoints. It doesn't say which DiffuCoder it is; the makers'
# Mercury and Claude of then are no longer what their names stand for, so these match nothing by
# themselves.
PAPER_MODELS: Mapping[str, tuple[str, ...]] = {
    "LLaDA": ("GSAI-ML/LLaDA-8B-Instruct",),
    "LLaDA 1.5": ("GSAI-ML/LLaDA-1.5",),
    "Dream 7B": ("Dream-org/Dream-v0-Instruct-7B",),
    "DiffuCoder": ("apple/DiffuCoder-7B-Instruct", "apple/DiffuCoder-7B-cpGRPO"),
    "Qwen2.5 3B": ("Qwen/Qwen2.5-3B-Instruct",),
    "Qwen2.5 7B": ("Qwen/Qwen2.5-7B-Instruct",),
    "Qwen3 4B": ("Qwen/Qwen3-4B",),
    "Llama 3.1 8B": ("meta-llama/Llama-3.1-8B-Instruct",),
    "Llama 3.2 3B": ("meta-llama/Llama-3.2-3B-Instruct",),
}
DIFFUSION = ("LLaDA", "LLaDA 1.5", "Dream 7B", "DiffuCoder")
SAMPLERS = {"Mercury": "server"}  # of the paper's other models; the rest are autoregressive
METRICS = (
    "accuracy",
    "accuracy_strict",
    "grammar",
    "inclusion",
    "rouge_l",
    "bertscore",
    "inv_bleu",
)
CACHES = ("dual", "prefix")
FrameRow = Mapping[Any, Any]  # of a frame


@dataclass(frozen=True, slots=True)
class BesidePublished:
    """One score of one cell beside a published figure. Scores in [0, 1]; `low` to `high` is the 95
    % interval of ours alone, since published figures have none; NaN where unknown. Rates are None
    where unknown, `n` 0.
    """

    source: str
    model: str
    published_model: str
    task: str
    sampler: str
    metric: str
    ours: float
    low: float
    high: float
    n: int
    theirs: float
    tokens_per_step: float | None = None
    their_tokens_per_step: float | None = None
    differs: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        return self.ours - self.theirs

    @property
    def outside(self) -> bool:
        """Whether the published figure lies outside our interval."""
        return self.theirs < self.low or self.theirs > self.high


def against(
    cells: Sequence[FrameRow],
    published: pd.DataFrame,
    sources: Mapping[str, str],
    same: Mapping[str, str] | None = None,
) -> list[BesidePublished]:
    """Each score that has a published figure, by source, model, sampler and task.

    Samplers match by policy and parameters; a cache doesn't prevent a match, blocks do. The paper's
    tables match confidence-k2 for diffusion models, `server` for Mercury and `ar` for the others.

    Args:
        cells: their rows, as `results.table_row.cell_row` has them.
        published: a frame of `published.figures` or `read_published`.
        sources: model → hub id, by which it matches as well as by its name.
        same: our name of a model → the published one, where these don't match.

    Raises:
        InputError: for a name in `same` that is on neither side.
    """
    same = same or {}
    for ours, theirs in same.items():
        for name, known, where in (
            (ours, [cell["model"] for cell in cells], "these runs"),
            (theirs, published["model"], "the published figures"),
        ):
            models = list(dict.fromkeys(known))
            if name not in models:
                raise InputError(
                    f"no model {name!r} in {where}; they have {', '.join(map(str, models))}"
                )
    beside: list[BesidePublished] = []
    figures = {task: rows.to_dict("records") for task, rows in published.groupby("task")}
    for cell in cells:
        if cell["status"] != "ok":
            continue
        joined = same.get(cell["model"])
        names = {cell["model"], sources.get(cell["model"]), joined} - {None}
        for figure in figures.get(cell["task"], []):
            if _matches(names, cell["sampler"], figure):
                note = (
                    [f"model: ours is {cell['model']}, by --as"]
                    if figure["model"] == joined
                    else []
                )
                beside += _besides(cell, figure, (*note, *_differs(cell, figure)))
    return sorted(beside, key=_order)


def same_models(given: Sequence[str], published: Sequence[str] = ()) -> dict[str, str]:
    """Our name of a model → the published one, of texts OURS=PUBLISHED. Raises InputError for one
    without `=`.

    Args:
        given: the texts.
        published: the names that may follow `=`, where they are known.
    """
    same = {}
    for text in given:
        ours, _, theirs = text.partition("=")
        if not ours or not theirs:
            example = "e.g. my-checkpoint='LLaDA 1.5'"
            if published:
                example = f"where PUBLISHED is one of {', '.join(published)}"
            raise InputError(f"--as {text}: give OURS=PUBLISHED, {example}")
        same[ours] = theirs
    return same


def _matches(names: set[Any], sampler: str, theirs: FrameRow) -> bool:
    model = theirs["model"]
    wanted = theirs["sampler"]
    if wanted == PAPER:
        wanted = "confidence-k2" if model in DIFFUSION else SAMPLERS.get(model, "ar")
    same_model = not names.isdisjoint((model, *PAPER_MODELS.get(model, ())))
    return same_model and _numbers(_parts(sampler)[0]) == _numbers(wanted)


def _parts(sampler: str) -> tuple[str, list[str]]:
    """A sampler without its cache, and the cache."""
    parts = sampler.split("+")
    return "+".join(part for part in parts if part not in CACHES), [
        part for part in parts if part in CACHES
    ]


def _numbers(sampler: str) -> tuple[str | float, ...]:
    """The parts of a name with its numbers as numbers, so that threshold-1.0 is threshold-1."""
    return tuple(
        float(part) if part.replace(".", "", 1).isdecimal() else part for part in sampler.split("-")
    )


def _besides(
    ours: FrameRow, theirs: FrameRow, differs: tuple[str, ...]
) -> Iterator[BesidePublished]:
    rewrite = theirs["prompts"] == REWRITE
    table = _known(theirs, "table")
    publisher = theirs.get("published_by")
    if isinstance(publisher, str):
        source = publisher
    elif rewrite:
        source = "2026 rewrite"
    elif table is None:
        source = "published"
    else:
        source = f"paper, Table {int(table)}"
    names = (ours["model"], theirs["model"], ours["task"], ours["sampler"])
    n = int(_known(ours, "n") or 0)
    rates = [_known(row, "tokens_per_step") for row in (ours, theirs)]
    for metric in METRICS:
        mine = "rouge_l_unstemmed" if metric == "rouge_l" and rewrite else metric
        score, *ends = (_known(ours, f"{mine}{end}") for end in ("", "_low", "_high"))
        figure = _known(theirs, metric)
        if score is not None and figure is not None:
            low, high = (nan if end is None else end for end in ends)
            yield BesidePublished(
                source, *names, mine, score, low, high, n, figure, rates[0], rates[1], differs
            )


def _differs(ours: FrameRow, theirs: FrameRow) -> Iterator[str]:
    """What is known to differ, or can't be known, between a cell and a published figure."""
    rewrite = theirs["prompts"] == REWRITE
    if (ours["prompts"] == REWRITE) != rewrite:
        yield f"prompts: ours {ours['prompts']}, theirs {theirs['prompts']}"
    wanted = REWRITE if rewrite else "official"
    if ours.get("data_source") != wanted:
        yield f"data: ours {ours.get('data_source') or 'unknown'}, theirs {wanted}"
    lengths = "3-6" if rewrite else "15"
    if category(ours["task"]) == "waiting_line" and str(ours.get("length")) != lengths:
        yield f"length: ours n = {ours.get('length') or 'unknown'}, theirs n = {lengths}"
    n = _known(ours, "n")
    wanted_n = 108 if ours["task"] == "puzzle/sudoku" and not rewrite else 100
    if n != wanted_n:
        yield f"samples: ours {'unknown' if n is None else int(n)}, theirs {wanted_n}"
    cache = _parts(ours["sampler"])[1]
    if theirs["sampler"] != PAPER or theirs["model"] in DIFFUSION:
        yield f"cache: ours {', '.join(cache) or 'none'}, theirs not published"
    options = ours.get("options")
    official = isinstance(options, dict) and options.get("official_text")
    if category(ours["task"]) == "text_writing" and not rewrite and not official:
        yield "text: ours up to the first EOS, theirs the whole canvas (--official-text)"
    if rewrite:
        yield "NFE and tokens per step: theirs per batch"
    if theirs["model"] == "DiffuCoder":
        yield "checkpoint: the paper doesn't say which DiffuCoder"


def _known(row: FrameRow, name: str) -> float | None:
    """A number of a row, None where it is missing."""
    value = row.get(name)
    if value is None or isinstance(value, str | bool) or pd.isna(value):
        return None
    return float(value)


def _order(row: BesidePublished) -> tuple[Any, ...]:
    place = TASKS.index(row.task) if row.task in TASKS else len(TASKS)
    metric = METRICS.index(row.metric.removesuffix("_unstemmed"))
    return row.source, row.model, natural(row.sampler), place, row.task, metric


def shared_differences(rows: Sequence[BesidePublished]) -> dict[str, dict[str, int]]:
    """Source → what differs → in how many of its rows, the most frequent first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row.source].update(row.differs)
    return {source: dict(of.most_common()) for source, of in counts.items()}

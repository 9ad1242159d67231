"""Every number that is measured of a cell, declared once: tables, plots, comparisons, trackers and
`results.load` read here what it is called, how it is shown and where.
"""

from dataclasses import dataclass
from typing import Literal

from pbcore.costs.kinds import SpeedAxis

# More is better of a `rate` and a `time` (a speed), less of a `cost`: tables mark the best.
Kind = Literal["theory", "rate", "cost", "time", "other"]
# Where a number is shown: `scores`, tables of scores by task; `page`, the page's tables of means
# and of a task; `category`, those of a category; `means` and `speed`, report.md's tables of these
# names; `differences`, the data of a comparison, and `comparison`, its tables; `trackers`, what is
# sent to them.
ShownIn = Literal[
    "scores", "page", "category", "means", "speed", "differences", "comparison", "trackers"
]

ROWS_NOTE = (
    "rows are all canvases forwarded, what-if rows too, and calls (NFE) the forwards in sequence:"
    " neither is seconds, which depend on the machine, on the tokens of a row and on caches: add"
    " --price"
)
_SILENT = "not reported by the model's server, or the cell has no forwards"
_UNLISTED = "the task's right answers can't be listed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number of a cell: `key` is its column in `results.load`. Of several tasks tables show the
    plain mean, but of seconds and what comes in one.
    """

    key: str
    kind: Kind = "other"
    head: str = ""  # of its column
    short: str = ""  # the head in a terminal's table; by default the same
    decimals: int = 1
    percent: bool = False  # a share here, in % in tables
    shown: tuple[ShownIn, ...] = ()
    about: str = ""  # tooltip of the head
    none: str = "not measured"  # why a cell may not have it
    note: str = ""  # under tables that show it
    optional: bool = False  # the page leaves it out where no cell has it
    late: bool = False  # not in old records: other tables leave it out where no cell has it
    of_rows: bool = False  # shown only where a cell's rows aren't its calls
    axis: SpeedAxis | None = None  # of plots
    axis_label: str = ""
    in_a_line: str = ""  # with its value, where a cell's figures stand in one line
    field: str = ""  # of `CellRecord`; by default the key
    answers: tuple[str, ...] = ()  # fields of `SampleRecord` that count it, which exports have
    before: str = ""  # what it equals in records from before it was counted


MEASURES = (
    Measure(
        key="nfe",
        kind="cost",
        head="NFE",
        shown=("page", "speed", "differences", "comparison", "trackers"),
        about="forwards (network function evaluations) per sample",
        none=_SILENT,
        axis="calls",
        axis_label="forwards per answer",
        in_a_line="NFE {:.4g}",
        field="nfe_mean",
        answers=("nfe", "prefill", "store"),
    ),
    Measure(key="nfe_median"),
    Measure(key="nfe_max"),
    Measure(
        key="rows",
        kind="cost",
        head="rows",
        shown=("page", "speed", "differences", "comparison"),
        about=f"canvases forwarded per sample; {ROWS_NOTE}",
        note=ROWS_NOTE,
        optional=True,
        of_rows=True,
        axis="rows",
        axis_label="rows per answer",
        field="rows_mean",
        before="nfe",
    ),
    Measure(
        key="tokens_forwarded",
        kind="cost",
        head="tokens forwarded",
        short="forwarded",
        shown=("page", "speed", "differences", "comparison", "trackers"),
        about=(
            "positions that the network computed for an answer, with every cache, window and"
            " what-if row and prefill, without padding"
        ),
        none="not reported, or not counted when the run was measured",
        note=(
            "tokens forwarded are the positions that the network computed for an answer, with"
            " caches, what-if rows and prefill, without padding; –: not reported, or not counted"
            " when the run was measured"
        ),
        late=True,
        axis="tokens",
        axis_label="tokens forwarded per answer",
        in_a_line="{:.6g} tokens forwarded",
        answers=("tokens_forwarded",),
    ),
    Measure(key="tokens_prefilled", answers=("tokens_prefilled",)),
    Measure(key="tokens_padded"),
    Measure(
        key="tokens_per_step",
        kind="rate",
        head="tokens/step",
        short="tok/step",
        decimals=2,
        shown=(
            "scores",
            "page",
            "category",
            "means",
            "differences",
            "comparison",
            "trackers",
        ),
        about=(
            "mean over samples of canvas tokens / forwards, the paper's axis; of several tasks the"
            " plain mean"
        ),
        none=_SILENT,
        axis="tokens-per-step",
        axis_label="tokens per step",
        in_a_line="{:.3g} tokens per step",
    ),
    Measure(
        key="tokens_per_forward",
        kind="rate",
        head="TPF",
        decimals=2,
        shown=("scores", "page", "category", "means", "differences", "trackers"),
        about=(
            "tokens per forward, as leaderboards print it: answer tokens before the first EOS /"
            " forwards, both summed over answers; of several tasks the plain mean"
        ),
        none=_SILENT,
        optional=True,
        axis="tokens-per-forward",
        axis_label="answer tokens per forward",
    ),
    Measure(
        key="tokens_per_row",
        kind="rate",
        head="tokens/row",
        short="tok/row",
        decimals=2,
        shown=("scores", "page", "category", "differences", "comparison"),
        about=f"mean over samples of canvas tokens / rows; {ROWS_NOTE}",
        optional=True,
        of_rows=True,
        axis="tokens-per-row",
        axis_label="tokens per row",
        before="tokens_per_step",
    ),
    Measure(key="seconds", kind="time", head="seconds", shown=("trackers",)),
    Measure(
        key="samples_per_second",
        kind="time",
        head="samples/s",
        shown=("page", "differences", "comparison", "trackers"),
        none="the cells have no time of their own, or were not all run",
        in_a_line="{:.3g} samples/s",
    ),
    Measure(key="tokens_per_second", kind="time", shown=("differences", "trackers")),
    Measure(key="peak_memory_bytes"),
    Measure(key="seconds_estimated"),
    Measure(key="forwards_shared"),
    Measure(key="forwards_computed"),
    Measure(
        key="ceiling",
        kind="theory",
        head="ceiling %",
        percent=True,
        shown=("page", "category", "trackers"),
        about=(
            "the ideal model's expected accuracy under the same sampler: what it lacks to 100 is"
            " lost by parallel decoding"
        ),
        none=f"{_UNLISTED}, or the sampler has no ceiling",
        optional=True,
    ),
    Measure(key="gap", kind="theory", shown=("trackers",)),
    Measure(
        key="bits_lost",
        kind="theory",
        head="bits lost",
        decimals=2,
        shown=("page", "category", "trackers"),
        about=(
            "what drawing tokens together loses, in bits: the total correlation between the tokens"
            " that one step reveals, summed over steps, mean over answers; 0 is lossless"
        ),
        none=_UNLISTED,
        optional=True,
    ),
)
BY_KEY = {measure.key: measure for measure in MEASURES}
_COLUMNS: tuple[Kind, ...] = ("theory", "rate", "cost", "time", "other")


def shown_in(place: ShownIn) -> list[Measure]:
    """The numbers that are shown in a place."""
    return [measure for measure in MEASURES if place in measure.shown]


def page_columns(place: ShownIn, *kinds: Kind) -> list[Measure]:
    """The numbers that the page shows in a place, by kind: what theory says, then rates, costs and
    times; only some kinds, where they are given.
    """
    columns = [measure for measure in shown_in(place) if measure.kind in (kinds or _COLUMNS)]
    return sorted(columns, key=lambda measure: _COLUMNS.index(measure.kind))

"""The curves of a scope: each policy family's means over tokens per step with intervals and ceilings, in one look. The
page draws them as SVG (`page.svg`), matplotlib as PNG (`plots`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pbcore.analysis.order import family
from pbcore.analysis.tradeoff import Point, beside_ceilings, curves, leading, level_lines, pareto
from pbcore.printable import fixed
from pbcore.report.cells import elsewhere
from pbcore.report.looks import Look, looks
from pbcore.report.scopes import Row, Scope, average, by_sampler, number

Looks = Mapping[tuple[str, str], Look]  # (model, policy family) → its look in all plots of a run
ANY_SPEED = Look(6, 6, 1)


@dataclass(frozen=True, slots=True)
class Dot:
    """A point: `x` tokens per step, `y` score in % with its interval, what its tooltip says, the cell that it is of,
    its sampler, and the ceiling in %."""

    x: float
    y: float
    low: float | None
    high: float | None
    text: str
    cell: str = ""
    sampler: str = ""
    ceiling: float | None = None

    @property
    def lid(self) -> float | None:
        """Its ceiling, if that is below 100."""
        return self.ceiling if self.ceiling is not None and self.ceiling < 99.95 else None


@dataclass(frozen=True, slots=True)
class Series:
    """A curve, or with `level` (score, low, high) the score of a model that reports no tokens per step. One that
    doesn't lead is shown on demand."""

    name: str
    model: str
    look: Look
    dots: tuple[Dot, ...] = ()
    level: tuple[float, float | None, float | None] | None = None
    leads: bool = True


def series(scope: Scope, known: Looks, most: int) -> list[Series]:
    """The curves of a scope's means, of which the `most` leading ones are to be seen, and the levels of models that
    report no tokens per step."""
    by_row = _by_row(scope.records)
    ids = {(one["model"], one["sampler"]): one["id"] for one in scope.records} if len(scope.tasks) == 1 else {}
    table = beside_ceilings(curves(scope.cells), scope.cells)
    leaders = leading(table, most)
    found = []
    for names, group in table.groupby(["model", "family"], sort=False):
        model, kind = str(names[0]), str(names[1])
        dots = []
        for row in group.to_dict("records"):
            rate, score, low, high, ceiling = (
                number(row[key]) for key in ("tokens_per_step", "score", "low", "high", "ceiling")
            )
            assert rate is not None
            assert score is not None
            interval = "" if low is None or high is None else f" [{fixed(low, 0)}–{fixed(high, 0)}]"
            pair = model, row["sampler"]
            told = f"{model} {row['sampler']}: {fixed(score)} %{interval} at {fixed(rate, 2)} tokens per step"
            told += by_row.get(pair, "") + ("" if ceiling is None else f", ceiling {fixed(ceiling)} %")
            dots.append(Dot(rate, score, low, high, told, ids.get(pair, ""), row["sampler"], ceiling))
        leads = (model, kind) in leaders
        found.append(Series(f"{model} · {kind}", model, known[model, kind], tuple(dots), leads=leads))
    return found + [
        Series(f"{name} (any speed)", model, known.get((model, family(sampler)), ANY_SPEED), level=level)
        for name, level in any_speed(scope.cells).items()
        for model, _, sampler in [name.rpartition(" · ")]
    ]


def any_speed(cells: pd.DataFrame) -> dict[str, tuple[float, float | None, float | None]]:
    """Model and sampler → mean score with its interval, of models elsewhere that report no tokens per step."""
    scored = cells[(cells["status"] == "ok") & cells["score"].notna()]
    found = level_lines(scored[elsewhere(scored) & scored["tokens_per_step"].isna()])
    return {name: (score, number(low), number(high)) for name, (score, low, high) in found.items()}


def fronts(lines: Iterable[Series]) -> list[tuple[str, list[Point]]]:
    """Each model's Pareto front, a broad band behind the curves."""
    dots: dict[str, list[Point]] = {}
    for one in lines:
        dots.setdefault(one.model, []).extend((dot.x, dot.y) for dot in one.dots)
    return [(model, pareto(points)) for model, points in dots.items()]


def look_of_all(cells: pd.DataFrame) -> Looks:
    """The looks of every curve of a run."""
    return looks((str(row.model), family(str(row.sampler))) for row in cells.itertuples())


def _by_row(records: Sequence[Row]) -> dict[tuple[str, str], str]:
    """(model, sampler) → its mean tokens per row in words, of those whose rows and calls differ."""
    return {
        (model, sampler): f", {fixed(mean, 2)} per row"
        for model, sampler, group in by_sampler(records)
        if any(None not in (one["rows"], one["nfe"]) and one["rows"] != one["nfe"] for one in group)
        and (mean := average([one["tokens_per_row"] for one in group], len(group))) is not None
    }

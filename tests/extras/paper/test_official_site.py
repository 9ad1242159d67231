"""The points of the benchmark's own site and our names for them."""

from __future__ import annotations

import gzip
import io

import pandas as pd
import pytest

from pbcore.extras.paper.official_site import named_points, site_points, site_task, strategy_of
from pbcore.extras.paper.published import figures, read_published
from pbcore.tasks.naming import PAPER_TASKS, REWRITE
from tests.reference import bundled

COLUMNS = ["model", "strategy", "task", "tokens_per_step", "score_percent"]


def exported() -> pd.DataFrame:
    """The site's own export."""
    text = gzip.decompress(bundled("site_2026.csv.gz").read_bytes()).decode()
    table = pd.read_csv(io.StringIO(text), dtype=str)
    numbers = {name: [float(value) for value in table[name]] for name in COLUMNS[3:]}
    return table.assign(**numbers)


def test_the_points_are_those_of_the_site() -> None:
    """Each of the 3,420, in the site's order, to the last digit."""
    points = site_points()
    pd.testing.assert_frame_equal(points[COLUMNS], exported()[COLUMNS], check_exact=True)
    assert len(points) == 3420


def test_names_agree_with_the_runs_that_tell_their_parameters() -> None:
    """Where a point of the site is also one of the rewrite's runs, which name their parameters,
    score and speed are equal.
    """
    site = named_points(site_points())
    names = {site_task(task): task for task in PAPER_TASKS}
    site = site.assign(task=site["task"].map(names)).set_index(["model", "sampler", "task"])
    everything = figures()
    of_rewrite = everything[everything["prompts"] == REWRITE]
    assert not of_rewrite.duplicated(["model", "task", "sampler"]).any()  # shown once
    runs = everything[(everything["prompts"] == REWRITE) & everything["published_by"].isna()]
    runs = runs.set_index(["model", "sampler", "task"])
    both = runs.index.intersection(site.index)
    assert len(both) == len(runs) == 714
    scores = site.loc[both, "score_percent"] - 100 * runs.loc[both, "score"]
    assert scores.abs().max() < 1e-9
    speeds = site.loc[both, "tokens_per_step"] - runs.loc[both, "tokens_per_step"]
    assert speeds.abs().max() < 1e-4


def test_each_parameter_has_its_own_points() -> None:
    """The site gives each parameter's means over all tasks: those of the points that got its name
    equal them, in speed and in score.
    """
    points = site_points()
    named = named_points(points)
    own = named.groupby(["model", "strategy", "sampler"])[["tokens_per_step", "score_percent"]]
    own_means = own.mean().round(9).reset_index().drop(columns="sampler")
    known = points[points["strategy"].isin(set(named["strategy"]))]
    theirs = known[known["task"] == "avg"].round(9)[list(own_means.columns)]
    both = own_means.merge(theirs)
    assert len(own_means) == len(theirs) == len(both)


def test_a_point_in_another_order() -> None:
    """LLaDA 1.5 is faster on reverse with a threshold of .8 than with .7."""
    named = named_points(site_points())
    chosen = (named["model"] == "GSAI-ML/LLaDA-1.5") & (named["task"] == "waitingline-reverse")
    by_sampler = named[chosen].set_index("sampler")["point"]
    assert list(by_sampler[["threshold-0.9", "threshold-0.8", "threshold-0.7"]]) == [2, 4, 3]


def test_a_file_of_the_sites_form(tmp_path_factory: pytest.TempPathFactory) -> None:
    """`--published FILE` reads the site's export as the package has it."""
    file = tmp_path_factory.mktemp("site") / "site.csv"
    exported().to_csv(file, index=False)
    read = read_published(file)
    assert read is not None
    own = figures()
    known = own[own["prompts"] == REWRITE].set_index("id")["score"]
    assert (known[read["id"]].to_numpy() == read["score"].to_numpy()).all()


@pytest.mark.parametrize(
    ("sampler", "strategy"),
    [
        ("random-k4", "random"),
        ("left_to_right-k2", "l2r"),
        ("confidence-k1", "confidence-topk"),
        ("margin-k8", "topk-margin"),
        ("entropy-k8", "entropy-topk"),
        ("entropy_threshold-0.3", None),
        ("threshold-0.9", "confidence-threshold"),
        ("factor-1.0-ref", "confidence-factor"),
        ("factor-1.0", None),
        ("threshold-0.9+t1.0", None),
        ("eb-0.1", None),
        ("klass-0.9", "klass"),
        ("dus-2", "dus"),
        ("slowfast-0.9", "slowfast"),
        ("wino-0.6", "wino"),
    ],
)
def test_strategies(sampler: str, strategy: str | None) -> None:
    assert strategy_of(sampler) == strategy

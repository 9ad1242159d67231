"""pbcore.extras.paper.overlay: the official site's points, and a run's over them."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from pbcore.base.errors import InputError
from pbcore.cli import main
from pbcore.extras.paper.official_site import MEAN, MODELS, TASKS, named_points, site_points
from pbcore.extras.paper.overlay import MOST_STRATEGIES, published_figure
from pbcore.results import create
from pbcore.results.rundir import StoredCell
from pbcore.tasks.naming import PAPER_TASKS
from tests.results import factory

LLADA = "GSAI-ML/LLaDA-8B-Instruct"


def cells(*tasks: str, model: str = "tiny") -> list[StoredCell]:
    made = []
    for task in tasks:
        for sampler, forwards in (("confidence-k1", 32), ("confidence-k2", 16)):
            cell = factory.cell(model, task=task, sampler=sampler, nfe=forwards, right=0.5)
            made.append(StoredCell(*cell))
    return made


def test_one_model() -> None:
    """What parallel decoding does to LLaDA: margin falls from 86 to 13 %."""
    drawing = published_figure("LLaDA-8B-Instruct")
    assert drawing.name == "published_LLaDA-8B-Instruct"
    margin = [row["score_percent"] for row in drawing.rows if row["policy"] == "margin"]
    assert (round(margin[0]), round(margin[-1])) == (86, 13)
    (axis,) = drawing.figure.axes
    names = [text.get_text() for text in axis.texts]
    assert {"margin", "threshold", "left_to_right"} <= set(names)
    assert any(name.startswith("threshold-0.9\n") for name in names)  # the ring's
    colours = [line.get_color() for line in axis.lines if len(line.get_xdata()) > 1]  # type: ignore[arg-type]
    assert len(set(colours)) == len(colours) <= MOST_STRATEGIES


def test_at_most_eight_policies() -> None:
    """Those with a ring are among them; the others are named and in the CSV."""
    drawing = published_figure()
    for axis in drawing.figure.axes:
        assert len([line for line in axis.lines if len(line.get_xdata()) > 1]) <= MOST_STRATEGIES  # type: ignore[arg-type]
    assert "in the CSV alone: klass, dus, slowfast" in drawing.said
    assert {"klass", "wino"} <= {row["policy"] for row in drawing.rows}


def test_own_points_lie_over_the_same_tasks() -> None:
    """Published means are those of the run's tasks, and all 17 where it has all."""
    drawing = published_figure(
        cells=cells("waiting_line/copy", "waiting_line/shuffle"), same={"tiny": LLADA}
    )
    assert drawing.name == "published_tiny"
    own = [row for row in drawing.rows if row["model"] == "tiny"]
    assert [(row["sampler"], row["tokens_per_step"], row["score_percent"]) for row in own] == [
        ("confidence-k1", 1, 50),
        ("confidence-k2", 2, 50),
    ]
    points = named_points(site_points())
    points = points[(points["model"] == LLADA) & (points["sampler"] == "margin-k2")]
    tasks = points["task"].map(TASKS).isin(["waiting_line/copy", "waiting_line/shuffle"])
    (margin,) = (
        row["score_percent"]
        for row in drawing.rows
        if (row["model"], row["sampler"]) == (LLADA, "margin-k2")
    )
    assert margin == pytest.approx(points[tasks]["score_percent"].mean())
    everything = published_figure(cells=cells(*PAPER_TASKS, model=LLADA))  # by its own name
    site = site_points()
    means = site[(site["model"] == LLADA) & (site["task"] == MEAN)]
    theirs = [row for row in everything.rows if row["sampler"] == "wino"] + [
        row for row in everything.rows if row["policy"] == "margin"
    ]
    assert theirs[0]["score_percent"] in set(means["score_percent"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "gpt"}, r"'gpt' isn't published; the site has apple/DiffuCoder"),
        ({"cells": cells("waiting_line/copy")}, r"--as tiny=NAME, where NAME is one of GSAI-ML/"),
        ({"cells": cells("list_ops/copy")}, "no cell of the paper's 17 tasks"),
        (
            {"cells": cells("waiting_line/copy"), "same": {"big": LLADA}},
            "no model 'big' in the run; it has tiny",
        ),
        (
            {"cells": cells("waiting_line/copy"), "same": {"tiny": "big"}},
            "'big' isn't published; the site has",
        ),
    ],
)
def test_unusable(given: dict[str, object], said: str) -> None:
    """What was given, and what may be."""
    with pytest.raises(InputError, match=said):
        published_figure(**given)  # type: ignore[arg-type]


class TestOnThePage:
    """The run's points over the published ones, on report.html."""

    def pages(self, tmp_path: Path, model: str, *words: str) -> str:
        """The page that `pbcore report` writes of a run of a model."""
        entries = [
            factory.cell(model, task, f"confidence-k{k}", right=right, nfe=32 // k)
            for task in PAPER_TASKS[:2]
            for k, right in ((1, 1.0), (2, 0.5))
        ]
        made = factory.write(create(tmp_path, "run"), entries).path
        assert main(["report", str(made), "-o", str(tmp_path / "out"), *words]) == 0
        return (tmp_path / "out" / "report.html").read_text(encoding="utf-8")

    def test_a_model_that_is_declared(self, tmp_path: Path) -> None:
        """The curve says which model it is."""
        words = ("--against-published", "--as", "tiny=GSAI-ML/LLaDA-1.5")
        page = self.pages(tmp_path, "tiny", *words)
        [drawn] = re.findall(r'<img class="picture" alt="[^"]*" src="data:([^"]*)"', page)
        kind, _, packed = drawn.partition(";base64,")
        svg = base64.b64decode(packed).decode()
        assert kind == "image/svg+xml"
        assert "LLaDA-1.5" in svg
        assert "tiny · confidence" in svg

    def test_a_model_by_its_own_name(self, tmp_path: Path) -> None:
        """Nothing has to be declared."""
        assert '<img class="picture"' in self.pages(tmp_path, LLADA)

    def test_no_model_that_is_published(self, tmp_path: Path) -> None:
        """There is nothing to set it beside; other tables may have the name."""
        assert '<img class="picture"' not in self.pages(tmp_path / "a", "tiny")
        words = ("--against-published", "--as", "tiny=LLaDA 1.5")
        assert '<img class="picture"' not in self.pages(tmp_path / "b", "tiny", *words)


@pytest.mark.parametrize("text", ["tiny", "tiny=", "=x"])
def test_all_names_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Those that may follow `=`."""
    made = factory.write(create(tmp_path, "run"), [factory.cell(task=PAPER_TASKS[0])]).path
    assert main(["figures", "published", str(made), "--as", text, "-o", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert all(name in told for name in MODELS)

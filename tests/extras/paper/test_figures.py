import numpy as np
import pytest

from pbcore.base.errors import InputError
from pbcore.extras.paper.curves import FIGURE_7, figure3, figure7, oracle_mean
from pbcore.extras.paper.sweeps import by_length, figure4, figure5, figure6
from pbcore.results import CellRecord, SampleRecord
from pbcore.results.rundir import StoredCell
from pbcore.tasks import load_task
from tests.results import factory

Entry = tuple[CellRecord, list[SampleRecord]]


def stored(*entries: tuple[object, object]) -> list[StoredCell]:
    return [StoredCell(cell, tuple(samples)) for cell, samples in entries]  # type: ignore[arg-type]


def cells(task: str, scores: dict[str, float], model: str = "tiny") -> list[StoredCell]:
    return stored(*(factory.cell(model, task, sampler, right) for sampler, right in scores.items()))


class TestFigure3:
    def test_a_figure_per_model_and_a_panel_per_task(self) -> None:
        """Only the paper's ten tasks; rows are the points of the curves."""
        found = [
            one
            for model in ("ideal", "tiny")
            for task in ("waiting_line/copy", "waiting_line/sort", "puzzle/sudoku")
            for one in cells(task, {"random-k1": 1.0, "random-k2": 0.5}, model)
        ]
        drawings = figure3(found)
        assert [drawing.name for drawing in drawings] == ["figure3_ideal", "figure3_tiny"]
        assert [(row["task"], row["sampler"], row["score"]) for row in drawings[1].rows] == [
            (task, f"random-k{k}", score)
            for task in ("waiting_line/copy", "puzzle/sudoku")
            for k, score in ((1, 100), (2, 50))
        ]


class TestFigure4:
    def test_cells_with_several_n_are_divided(self) -> None:
        """Each n has its own score, from the samples of that n."""
        task = load_task("waiting_line/copy", n=[5, 10], limit=8)
        right = [float(sample.length == 5) for sample in task.samples]
        [one] = stored(
            factory.cell(
                task="waiting_line/copy", right=right, data_hash=task.data_hash, length="5,10"
            )
        )
        assert [(n, score.mean, score.n) for n, score in by_length(one)] == [(5, 1, 4), (10, 0, 4)]
        drawing = figure4([one])
        assert [(row["n"], row["score"]) for row in drawing.rows] == [(5, 100), (10, 0)]
        assert list(drawing.figure.axes[0].get_xticks()) == [5, 10]
        assert drawing.figure.axes[0].get_title() == "Figure 4: waiting_line/copy"

    def test_many_samplers_look_different(self) -> None:
        """Eleven curves differ in colour, marker, dashes or fill, each policy in its own colour."""
        names = [f"{policy}-k{k}" for policy in ("confidence", "random") for k in range(1, 6)] + [
            "threshold-0.9"
        ]
        drawing = figure4(
            [
                *stored(
                    *(
                        factory.cell(task="waiting_line/copy", sampler=name, length=n)
                        for name in names
                        for n in "59"
                    )
                )
            ]
        )
        handles, labels = drawing.figure.axes[0].get_legend_handles_labels()
        lines = [handle.lines[0] for handle in handles]
        looks = {
            (o.get_color(), o.get_marker(), o.get_linestyle(), o.get_markerfacecolor())
            for o in lines
        }
        assert len(looks) == len(labels) == 11


class TestFigure5:
    def test_scores_over_block_length(self) -> None:
        """Of random top-2 alone; one block is as long as the canvas."""
        found = cells(
            "waiting_line/copy",
            {"random-k2": 1.0, "random-k2+b4": 0.5, "random-k1+b4": 0.1, "random-k2+b4+t1.0": 0.2},
        )
        drawing = figure5(found)
        assert sorted((row["block length"], row["score"]) for row in drawing.rows) == [
            (4, 50),
            (32, 100),
        ]
        sudoku = stored(factory.cell(task="puzzle/sudoku", sampler="random-k2", canvas=160))
        with pytest.raises(InputError, match="two block lengths"):
            figure5([*found[:1], *sudoku])  # canvases of different lengths are no blocks


class TestFigure6:
    def test_the_map(self) -> None:
        """x is Σ k·score / Σ score in one block, y the gain per halved block; means over
        policies.
        """
        scores = {
            "random-k1": 1.0,
            "random-k2": 0.5,
            "random-k2+b8": 0.7,
            "confidence-k1": 1.0,
            "confidence-k2": 1.0,
            "confidence-k2+b8": 1.0,
        }
        others = {"threshold-0.9": 0.1, "random-k2+t1.0": 0.2}  # no plain top-k
        [row] = figure6(cells("waiting_line/copy", scores | others)).rows
        assert row["parallelizability"] == pytest.approx(((1 + 1) / 1.5 + 3 / 2) / 2)
        assert row["gain per halved block"] == pytest.approx((20 / 2 + 0) / 2)
        assert row["curves"] == 2
        with pytest.raises(InputError, match="top-k over k"):
            figure6(cells("waiting_line/copy", {"random-k1": 1.0, "random-k2": 0.5}))

    def test_tasks_at_one_place_share_a_name(self) -> None:
        """Names that would cover each other stand in one label; a task further along either axis
        has its own.
        """
        right = {"random-k1": 1.0, "random-k2": 1.0, "random-k2+b8": 1.0}
        found = [
            *(one for task in ("copy", "sort") for one in cells(f"waiting_line/{task}", right)),
            *cells("waiting_line/shuffle", {**right, "random-k2": 0.1, "random-k2+b8": 0.1}),
            *cells("waiting_line/reverse", {**right, "random-k2+b8": 0.9}),
        ]
        labels = {
            text.get_text(): getattr(text, "xy", None)
            for text in figure6(found).figure.axes[0].texts
        }
        assert labels == {
            "copy, sort": (1.5, 0),
            "shuffle": (pytest.approx(1.2 / 1.1), 0),
            "reverse": (1.5, -5),
        }


class TestFigure7:
    def test_the_oracle_is_the_best_of_the_thresholds(self) -> None:
        """Per sample the fewest steps among those with its best score; then means over samples and
        tasks.
        """
        fast = [
            factory.cell(task=task, sampler="threshold-0.5", right=[1.0, 0.0], nfe=[4, 4])
            for task in FIGURE_7
        ]
        slow = [
            factory.cell(task=task, sampler="threshold-0.9", right=[1.0, 1.0], nfe=[8, 16])
            for task in FIGURE_7
        ]
        other = [
            factory.cell(task=task, sampler="threshold-0.9+b4", right=[1.0, 1.0], nfe=[1, 1])
            for task in FIGURE_7
        ]
        found = stored(*fast, *slow, *other)
        star = oracle_mean(found)
        assert star is not None
        assert star["score"] == 100
        assert star["steps"] == 10
        assert star["tokens_per_step"] == pytest.approx(np.mean([32 / 4, 32 / 16]))
        [drawing] = figure7(found)
        assert "mean of 12 of the 12 tasks" in drawing.said
        assert drawing.rows[-1]["family"] == "oracle"

    def test_one_threshold_is_no_choice(self) -> None:
        """No star then; tasks outside the 12 don't count."""
        found = cells("waiting_line/copy", {"threshold-0.9": 1.0, "random-k1": 1.0})
        assert oracle_mean(found) is None
        assert [row["family"] for row in figure7(found)[0].rows] == ["random", "threshold"]

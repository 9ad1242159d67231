from math import inf, log2

import pytest

from pbcore import load_model
from pbcore.analysis.frontier_gap import kind
from pbcore.decoding.samplers import resolve
from pbcore.report.frontier_figure import (
    SAMPLERS,
    above,
    frontier_drawing,
    frontier_rows,
    frontier_text,
    regret,
    regret_text,
    regrets,
    room_text,
    tasks,
)
from pbcore.report.measured import MeasuredAccuracy, measure_accuracy, question_set, within
from pbcore.report.style import CsvRow
from pbcore.theory import accuracy
from pbcore.theory.frontier import accuracy_hull, value_at


def one(
    accuracy: float = 0.5,
    sampler: str = "random-k2+t1.0",
    order: float = 0.75,
    seen: float = 1.0,
    spread: float = 0.1,
) -> CsvRow:
    measured = MeasuredAccuracy(accuracy, accuracy - spread, accuracy + spread, 100, 2.0)
    return regret("shuffle", 4, sampler, measured, order, seen, 1.5)


class TestMeasured:
    def test_decoding_agrees_with_the_closed_form(self) -> None:
        """300 answers of `ideal`: the predicted accuracy lies in the interval, and steps are
        counted.
        """
        found = measure_accuracy(
            load_model("ideal"), question_set("shuffle", 4, 300), "random-k2+t1.0"
        )
        assert found.holds(accuracy("shuffle", 4, "random-k2+t1.0"))
        assert not found.holds(0.9)
        assert (found.steps, found.count) == (2, 300)

    def test_points_within(self) -> None:
        """Both ends count."""
        point = MeasuredAccuracy(0.5, 0.4, 0.6, 100, 2.0)
        assert within([(0.4, point), (0.6, point), (0.61, point)]).startswith("2 of 3 points")

    def test_a_point_is_drawn_in_percent(self) -> None:
        """Steps or another x as they are; accuracy and both ends of its interval in %."""
        assert MeasuredAccuracy(0.5, 0.25, 0.75, 100, 2.0).at(3) == (3, 50, 25, 75)


class TestRegret:
    def test_the_samplers_of_the_figure(self) -> None:
        """Every default is a known sampler, once."""
        assert len({str(resolve(name)) for name in SAMPLERS}) == len(SAMPLERS) >= 26

    def test_points_and_bits(self) -> None:
        """What is missing to the frontier at the same number of steps; greedy decoding has no
        bits.
        """
        assert one()["regret in points"] == pytest.approx(25)
        assert one()["regret in bits"] == pytest.approx(log2(1.5))
        assert one(0.0)["regret in bits"] == inf
        assert one(sampler="random-k2")["regret in bits"] is None

    def test_fewest_steps(self) -> None:
        """One token a step is right on replace_random; the frontier needs two greedy steps for
        that.
        """
        [found] = regrets(load_model("ideal"), 10, [("replace_random", 5)], ["random-k1"], (0.0,))
        assert (found["accuracy"], found["steps"], found["fewest steps"]) == (1, 5, 2)

    def test_kinds(self) -> None:
        """By what a policy knows when it chooses."""
        assert [
            kind(name)
            for name in ("random-k2", "eb-0.1", "confidence-k2", "wino-0.6", "confidence-k1+rcr")
        ] == [
            "order",
            "order",
            "seen",
            "back",
            "back",
        ]

    def test_above(self) -> None:
        """A sampler that chooses positions first can't be above their frontier; one that sees
        tokens first can.
        """
        assert above([one(0.9)]) == [one(0.9)]
        assert (
            above(
                [
                    one(0.8, spread=0.1),
                    one(0.9, "confidence-k2+t1.0"),
                    one(0.9, "wino-0.6", seen=0.5),
                ]
            )
            == []
        )

    @pytest.mark.slow
    def test_ideal_stays_below_its_frontier(self) -> None:
        """Samplers with and without sight of the tokens, on small lists; none is above, one by one
        has no regret.
        """
        found = regrets(
            load_model("ideal"),
            200,
            [("shuffle", 4), ("replace_random", 4), ("insert_random", 3)],
            ["random-k1", "random-k2", "confidence-k2", "threshold-0.9", "eb-0.1"],
        )
        assert above(found) == []
        # Some know the tokens before they choose: their frontier lies above the others'.
        assert any(row["frontier, tokens first"] > row["frontier"] + 0.01 for row in found)
        assert all(row["frontier, tokens first"] > row["frontier"] - 1e-9 for row in found)
        alone = [row for row in found if row["sampler"].startswith("random-k1")]
        assert [row["regret in points"] for row in alone] == pytest.approx([0] * 6, abs=1e-9)
        assert {row["steps"] for row in alone} == {4.0}


class TestTables:
    def test_frontier(self) -> None:
        """A row per number of steps until nothing is lost; every list operation and the Latin
        square are there.
        """
        rows = frontier_rows(3)
        assert [(row["operation"], row["T"]) for row in rows if row["operation"] == "shuffle"] == [
            ("shuffle", T) for T in (1, 2, 3)
        ]
        assert list(dict.fromkeys(row["operation"] for row in rows)) == [op for op, _ in tasks(3)]
        assert "latin_square" in frontier_text(rows)

    def test_regrets(self) -> None:
        """The smallest regret first; those above the frontier are named."""
        text = regret_text(
            [one(0.5), one(0.7, "entropy-k2+t1.0"), one(1.0, "eb-0.1+t1.0", spread=0.05)]
        )
        names = [
            line.split()[0]
            for line in text.splitlines()
            if line.startswith(("eb", "entropy", "random"))
        ]
        assert names == ["eb-0.1+t1.0", "entropy-k2+t1.0", "random-k2+t1.0"]
        assert "2 of 3 intervals" in text
        assert "above: shuffle eb-0.1+t1.0" in text

    def test_room(self) -> None:
        """The fastest sampler without an error beside the frontier; a dash where all err."""
        certain = [one(1.0, "random-k1+t1.0"), one(1.0, "random-k3+t1.0"), one(0.9, "random-k4")]
        lines = room_text([certain[0] | {"steps": 4.0}, *certain[1:]]).splitlines()
        assert lines[2].split()[-4:] == ["4.00", "2.08", "random-k3+t1.0", "2.00"]
        assert lines[3].split()[-2:] == ["–", "–"]

    def test_drawing(self) -> None:
        """Greedy above τ = 1, a column per task, a row of the CSV per point."""
        found = [one(), one(sampler="random-k2")]
        drawing = frontier_drawing(found)
        assert [axis.get_title() for axis in drawing.figure.axes] == [
            "shuffle, n = 4, τ = 1",
            "shuffle, n = 4, greedy",
        ]
        assert [row["regret in points"] for row in drawing.rows] == pytest.approx([25, 25])

    def test_the_lines_of_a_drawing_are_the_two_frontiers(self) -> None:
        """From one step to the slowest sampler's: solid where positions are chosen first, dashed
        where tokens are.
        """
        found = [one(), one(sampler="random-k1+t1.0") | {"steps": 3.0}]
        [axis] = frontier_drawing(found).figure.axes
        for seen, dashes, name in (
            (False, "-", "frontier, positions first"),
            (True, "--", "frontier, tokens first"),
        ):
            [line] = [line for line in axis.lines if line.get_label() == name]
            steps = line.get_xdata()
            hull = accuracy_hull("shuffle", 4, greedy=False, seen=seen)
            assert (line.get_linestyle(), steps[0], steps[-1]) == (dashes, 1, 3)
            assert list(line.get_ydata()) == [100 * value_at(hull, step) for step in steps]

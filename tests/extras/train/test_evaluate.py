"""The table of scores."""

from __future__ import annotations

from pbcore.base.tabular import markdown
from pbcore.extras.train.evaluate import TaskResult, scores_table
from tests.markdown_tables import unpadded


class TestTable:
    def test_shows_percent_a_dash_for_what_is_missing_and_the_mean_of_accuracies(self) -> None:
        results = [
            TaskResult("a/b", "accuracy", {"confidence-k1": 1.0, "confidence-k2": 0.5}),
            TaskResult("a/c", "accuracy", {"confidence-k1": 0.5, "confidence-k2": 0.0}),
            TaskResult("a/d", "grammar", {"confidence-k1": None, "confidence-k2": 0.125}),
        ]
        assert unpadded(markdown(scores_table(results))).splitlines() == [
            "| task | score | confidence-k1 | confidence-k2 |",
            "|---|---|---:|---:|",
            "| a/b | accuracy | 100.0 | 50.0 |",
            "| a/c | accuracy | 50.0 | 0.0 |",
            "| a/d | grammar | – | 12.5 |",
            "| mean of lists and puzzles | accuracy | 75.0 | 25.0 |",
        ]

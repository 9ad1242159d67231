"""Task.score: what it takes, and what it says of what it can't take."""

from __future__ import annotations

from typing import Any

import pytest

from pbcore.tasks import load_task


class TestScore:
    def test_metrics_limit_what_is_computed(self) -> None:
        """Only the metrics asked for come back; none at all is an empty result."""
        task = load_task("waiting_line/sort", limit=1)
        answer = task.samples[0].answer or ""
        assert task.score(answer, task.samples[0], ["accuracy"]) == {"accuracy": 1.0}
        assert task.score(answer, task.samples[0], []) == {}
        assert set(task.score(answer, task.samples[0])) == {
            "accuracy",
            "accuracy_strict",
            "accuracy_any_layout",
            "accuracy_as_asked",
        }

    @pytest.mark.parametrize("prediction", [None, 5, ["a"]])
    def test_a_prediction_is_a_text(self, prediction: Any) -> None:
        """Anything else is refused by name."""
        task = load_task("waiting_line/copy", limit=1)
        with pytest.raises(ValueError, match="predictions must be texts"):
            task.score(prediction, task.samples[0])

    def test_one_text_for_many(self) -> None:
        """A single text in place of a list is no list of its letters."""
        task = load_task("waiting_line/copy", limit=2)
        with pytest.raises(ValueError, match="predictions must be texts"):
            task.score_many("ab", task.samples)

    def test_a_sample_is_a_sample(self) -> None:
        """A missing sample is refused before any scorer sees it."""
        with pytest.raises(ValueError, match="samples must be Samples"):
            load_task("waiting_line/copy", limit=1).score("a", None)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("metrics", "said"),
        [
            ("accuracy", "give a list"),
            (["acuracy"], "has no metric"),
            (["grammar"], "has no metric"),
        ],
    )
    def test_wrong_metrics(self, metrics: Any, said: str) -> None:
        """A name in place of a list of names, and names that the task does not have."""
        task = load_task("waiting_line/copy", limit=1)
        with pytest.raises(ValueError, match=said):
            task.score("a", task.samples[0], metrics)

"""ROUGE and BLEU against hand counts and published values."""

from __future__ import annotations

import json
import subprocess
import sys
from math import exp

import pytest

from pbcore.metrics.text import bleu, inv_bleu, rouge
from tests.reference import reference


class TestRouge:
    def test_counts_by_hand(self) -> None:
        """Prediction and reference share 3 of 4 and 6 words, 2 of 3 and 5 pairs; the longest common
        subsequence has 3 words.
        """
        scores = rouge("the cat sat down", "the cat sat on the mat")
        assert scores == pytest.approx({"rouge_1": 6 / 10, "rouge_2": 4 / 8, "rouge_l": 6 / 10})

    def test_stemming_joins_forms_of_a_word(self) -> None:
        """The first benchmark version takes `dogs` for `dog`, the rewrite does not."""
        assert rouge("dogs walked", "dog walks")["rouge_l"] == 1.0
        assert rouge("dogs walked", "dog walks", stemmed=False)["rouge_l"] == 0.0

    def test_an_empty_text_scores_nothing(self) -> None:
        """Nothing written is nothing found."""
        assert set(rouge("  ", "the cat").values()) == {0.0}

    def test_equals_the_published_values(self) -> None:
        """Unstemmed ROUGE-L of real answers, to 1e-6."""
        rows = [
            json.loads(line)
            for line in reference("golden", "real_outputs.jsonl").read_text().splitlines()
        ]
        rows = [row for row in rows if row["rougeL"] is not None]
        ours = [
            rouge(row["response"], row["label"]["summary"], stemmed=False)["rouge_l"]
            for row in rows
        ]
        assert len(rows) == 12
        assert ours == pytest.approx([row["rougeL"] for row in rows], abs=1e-6)


class TestBleu:
    def test_counts_by_hand(self) -> None:
        """Five tokens of six that agree but for the last: precisions 4/5, 3/4, 2/3, 1/2 and the
        brevity penalty e^(1 - 6/5).
        """
        expected = exp(1 - 6 / 5) * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
        assert bleu("a b c d x", "a b c d e f") == pytest.approx(expected, abs=1e-12)

    def test_no_four_tokens_in_a_row_is_zero(self) -> None:
        """There is no smoothing: three tokens in a row count nothing."""
        assert bleu("a b c x y", "a b c d e") == 0.0

    def test_punctuation_is_a_token(self) -> None:
        """13a splits a full stop off its word, so this copy without it still shares four tokens."""
        assert bleu("one two three four", "one two three four.") == pytest.approx(exp(1 - 5 / 4))

    def test_letter_case_counts(self) -> None:
        """`The` is not `the`."""
        assert bleu("The cat sat on mats", "the cat sat on mats") < 1.0

    def test_equals_the_published_values(self) -> None:
        """1 − BLEU of real paraphrases against the sentence that was to be paraphrased, to 1e-6."""
        rows = [
            json.loads(line)
            for line in reference("golden", "real_outputs.jsonl").read_text().splitlines()
        ]
        rows = [row for row in rows if row["inv_bleu"] is not None]
        assert len(rows) == 8
        ours = [inv_bleu(row["response"], row["label"]["text"]) for row in rows]
        assert ours == pytest.approx([row["inv_bleu"] for row in rows], abs=1e-6)


class TestInvBleu:
    def test_a_copy_scores_zero(self) -> None:
        """Repeating the sentence is no paraphrase; blanks around it don't help."""
        assert inv_bleu(" one two three four five ", "one two three four five") == pytest.approx(
            0.0, abs=1e-12
        )

    def test_an_empty_text_scores_zero(self) -> None:
        """Writing nothing is not the best paraphrase, though its BLEU is 0."""
        assert inv_bleu(" \n", "one two three four five") == 0.0


def test_metrics_import_no_heavy_library() -> None:
    """Importing the scorers loads neither ROUGE's nor BLEU's library, nor torch: they come at the
    first score that needs them.
    """
    heavy = {"nltk", "rouge_score", "sacrebleu", "requests", "tqdm", "torch", "scipy"}
    code = f"import pbcore.metrics, sys; print(*{heavy} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == ""
    )

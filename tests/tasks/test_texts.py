"""Text tasks: the scene grammar's items in the official layout."""

from __future__ import annotations

import ast
from itertools import islice

import pytest

from pbcore.tasks import generate, load_task
from pbcore.tasks.scenes import word_list


class TestListed:
    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (["dog"], "dog"),
            (["dog", "park"], "dog and park"),
            (["dog", "park", "ball", "throw"], "dog, park, ball, and throw"),
        ],
    )
    def test_form(self, words: list[str], text: str) -> None:
        """Words are named as the official prompts name them."""
        assert word_list(words) == text


class TestWordsToSentence:
    @pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
    def test_layout(self, difficulty: str) -> None:
        """100 zero-shot questions of four words; the example holds each."""
        task = load_task(f"text_writing/w2s_{difficulty}")
        assert len(task.samples) == 100
        for sample in task.samples:
            assert len(sample.messages) == 1
            assert sample.length == len(set(sample.label["words"])) == 4
            assert sample.input["words"] == word_list(sample.label["words"])
            assert all(word in sample.label["example"] for word in sample.label["words"])
            assert sample.max_new_tokens == 64

    def test_one_word_has_a_prompt_of_its_own(self) -> None:
        """ "the word" for one, "the words" for more; lengths take turns."""
        one, three = load_task("text_writing/w2s_easy", n=[1, 3], limit=2).samples
        assert (
            one.prompt
            == f"Construct a single, coherent sentence using the word {one.input['words']}."
        )
        assert (
            three.prompt
            == f"Construct a single, coherent sentence using the words {three.input['words']}."
        )


class TestDialoguesAndParaphrases:
    def test_summarization_layout(self) -> None:
        """Text and summary, as in the official rows; the summary is the answer."""
        for sample in load_task("text_writing/summarization", limit=10).samples:
            assert sample.label["text"] == sample.input["text"]
            assert sample.answer == sample.label["summary"]

    def test_paraphrasing_layout(self) -> None:
        """Text, and examples as one printed list of other sentences, as in the official rows."""
        for sample in load_task("text_writing/paraphrasing", limit=10).samples:
            examples = ast.literal_eval(sample.label["examples"])
            assert len(examples) >= 2
            assert sample.input["text"] not in examples


class TestStream:
    def test_goes_on_without_repeats(self) -> None:
        """An endless stream begins with what a request for so many gives."""
        streamed = list(islice(generate("text_writing/paraphrasing"), 300))
        assert len({sample.prompt for sample in streamed}) == 300
        assert (
            tuple(streamed)
            == load_task("text_writing/paraphrasing", split="train", limit=300).samples
        )

    def test_more_than_there_are(self) -> None:
        """The error says how many exist."""
        with pytest.raises(ValueError, match="exist in the test split: request fewer"):
            load_task("text_writing/w2s_easy", n=1, limit=10_000)

"""The word sets: official files of 1, 3, 4, 5, 6 and 7 words, and own data of 1 to 7."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from pbcore.tasks import load_task
from tests.reference import reference

LEVELS = ("easy", "medium", "hard")
OFFICIAL = (None, 1, 3, 4, 5, 6, 7)


def lines(level: str, n: int | None) -> list[dict[str, dict[str, object]]]:
    file = reference(
        "official-v1-words", "words_to_sentence", f"{level}{'' if n is None else f'_n{n}'}.jsonl"
    )
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def folder() -> Path:
    return reference("official-v1-words")


class TestOfficial:
    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize("n", OFFICIAL)
    def test_all_files_load(self, folder: Path, level: str, n: int | None) -> None:
        """100 zero-shot questions of n words on 64 tokens, with the labels of the file, numbered as
        its rows.
        """
        samples = load_task(f"text_writing/w2s_{level}", data_dir=folder, n=n).samples
        assert [sample.label for sample in samples] == [row["answer"] for row in lines(level, n)]
        assert [sample.index for sample in samples] == list(range(100))
        assert (
            {sample.length for sample in samples}
            == {n or 4}
            == {len(sample.label["words"]) for sample in samples}
        )
        assert {len(sample.messages) for sample in samples} == {1}
        assert {sample.max_new_tokens for sample in samples} == {64}

    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize("n", OFFICIAL)
    def test_prompts_are_the_official_ones(self, folder: Path, level: str, n: int | None) -> None:
        """Word for word what task_config.yaml says for that file; one word has a prompt of its
        own.
        """
        config = yaml.safe_load((folder / "words_to_sentence/task_config.yaml").read_text())
        prompt = config[f"words_to_sentence/{level}{'' if n is None else f'_n{n}'}"]["prompt"]
        assert ("the word " in prompt) == (n == 1)
        asked = [
            sample.prompt
            for sample in load_task(f"text_writing/w2s_{level}", data_dir=folder, n=n).samples
        ]
        assert asked == [prompt.format(**row["input"]) for row in lines(level, n)]

    @pytest.mark.parametrize("level", LEVELS)
    def test_four_is_not_the_usual_file(self, folder: Path, level: str) -> None:
        """n = 4 asks other sets than no n."""
        usual, four = (
            load_task(f"text_writing/w2s_{level}", data_dir=folder, n=n) for n in (None, 4)
        )
        assert usual.data_hash != four.data_hash
        assert {sample.prompt for sample in usual.samples} != {
            sample.prompt for sample in four.samples
        }

    def test_several_n_take_turns(self, folder: Path) -> None:
        """1, 3, 7, 1, 3, 7 …: 300 samples with numbers of their own; every limit takes a balanced
        prefix.
        """
        task = load_task("text_writing/w2s_hard", data_dir=folder, n=(7, 1, 3))
        assert [sample.length for sample in task.samples] == [1, 3, 7] * 100
        assert [sample.index for sample in task.samples] == list(range(300))
        alone = load_task("text_writing/w2s_hard", data_dir=folder, n=3).samples
        assert [sample.prompt for sample in task.samples[1::3]] == [
            sample.prompt for sample in alone
        ]
        few = load_task("text_writing/w2s_hard", data_dir=folder, n=(7, 1, 3), limit=7)
        assert few.samples == task.samples[:7]
        assert few.options["lengths"] == [1, 3, 7]

    def test_two_words_have_no_file(self, folder: Path) -> None:
        """The error names the files that are there."""
        with pytest.raises(FileNotFoundError, match=r"no file .*easy_n2.jsonl; .*easy_n7.jsonl"):
            load_task("text_writing/w2s_easy", data_dir=folder, n=2)


class TestOwn:
    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize("n", range(1, 8))
    def test_every_n_has_its_hundred(self, level: str, n: int) -> None:
        """100 different sets of n words in the right prompt; the example holds each word and scores
        so.
        """
        task = load_task(f"text_writing/w2s_{level}", n=n)
        sets = {frozenset(sample.label["words"]) for sample in task.samples}
        assert len(sets) == len(task.samples) == 100
        assert {len(words) for words in sets} == {n}
        start = f"Construct a single, coherent sentence using the {'word' if n == 1 else 'words'} "
        assert all(sample.prompt == f"{start}{sample.input['words']}." for sample in task.samples)
        answers = [str(sample.answer) for sample in task.samples]
        assert all(
            one.scores["inclusion"] == 1
            for one in task.score_many(answers, task.samples, {"inclusion"})
        )
        wrong = ["Nothing of it." for _ in answers]
        assert all(
            one.scores["inclusion"] == 0
            for one in task.score_many(wrong, task.samples, {"inclusion"})
        )

    @pytest.mark.parametrize("n", range(1, 8))
    def test_a_seed_gives_the_same_sets(self, n: int) -> None:
        """The same seed the same samples, a prefix of them for a limit; another seed others."""
        first, again, few = (
            load_task("text_writing/w2s_medium", n=n, limit=limit) for limit in (30, 30, 8)
        )
        assert first.data_hash == again.data_hash
        assert few.samples == first.samples[:8]
        assert (
            load_task("text_writing/w2s_medium", n=n, limit=30, seed=1).data_hash != first.data_hash
        )

    def test_four_is_the_usual_number(self) -> None:
        """Own data has one kind of four words."""
        assert (
            load_task("text_writing/w2s_easy", n=4).data_hash
            == load_task("text_writing/w2s_easy").data_hash
        )

    @pytest.mark.parametrize("n", [0, 8, True])
    def test_no_more_than_seven(self, n: int) -> None:
        """The error says what there is."""
        with pytest.raises(
            ValueError, match=r"w2s_easy: n = .*; give an integer from 1 to 7 \(words\)"
        ):
            load_task("text_writing/w2s_easy", n=n)

"""The scene grammar: distinct, seeded, split without overlap, and correct where a rule can say
so.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, partial
from itertools import islice, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.tasks.generators import TEST_SHARE, split_of
from pbcore.tasks.scenes import Written, collect, data, dialogues, paraphrases, shuffled, word_sets

TOKEN = re.compile(r"\w+|[^\w\s]")
DIFFICULTIES = ["easy", "medium", "hard"]
MANY = {"train": 2000, "test": 500}
REPORTING = set(
    TOKEN.findall(
        """will and her has so s his for because to they him cannot lend bring is wants needs not instead
    want asks work the he looking with she do something else found left about on a an"""
    )
)
SPLITS = {"train": ["apple", "river", "moon"], "test": ["lamp"]}


@cache
def sets(difficulty: str, split: str, words: int = 4) -> list[dict[str, Any]]:
    return list(islice(word_sets(difficulty, split=split, seed=0, words=words), MANY[split]))


@cache
def talks(split: str) -> list[dict[str, Any]]:
    return list(islice(dialogues(split=split, seed=0), MANY[split]))


@cache
def rewordings(split: str) -> list[dict[str, Any]]:
    return list(islice(paraphrases(split=split, seed=0), MANY[split]))


def references(split: str) -> list[str]:
    """Every sentence, summary and paraphrase that a prediction can be compared with."""
    examples = [item["example"] for difficulty in DIFFICULTIES for item in sets(difficulty, split)]
    summaries = [item["summary"] for item in talks(split)]
    return (
        examples
        + summaries
        + [text for item in rewordings(split) for text in (item["text"], *item["examples"])]
    )


class TestWordSets:
    @pytest.mark.parametrize("difficulty", DIFFICULTIES)
    @pytest.mark.parametrize("words", range(1, 8))
    def test_example_holds_every_word_verbatim(self, difficulty: str, words: int) -> None:
        """As many different lower-case words as asked for, each a word of the example."""
        for item in islice(word_sets(difficulty, split="train", seed=3, words=words), 40):
            assert len(set(item["words"])) == len(item["words"]) == words
            assert set(item["words"]) <= set(TOKEN.findall(item["example"]))
            assert all(word.islower() for word in item["words"])

    @pytest.mark.parametrize("difficulty", DIFFICULTIES)
    def test_no_word_set_or_sentence_in_both_splits(self, difficulty: str) -> None:
        """Neither the words in any order nor the sentence of a test item is in the train split,
        whatever the number of words.
        """
        train = sets(difficulty, "train") + sets(difficulty, "train", 3)
        test = sets(difficulty, "test") + sets(difficulty, "test", 3)
        assert not {frozenset(item["words"]) for item in train} & {
            frozenset(item["words"]) for item in test
        }
        assert not {item["example"] for item in train} & {item["example"] for item in test}

    @pytest.mark.parametrize("difficulty", DIFFICULTIES)
    def test_sets_are_distinct(self, difficulty: str) -> None:
        """No set comes twice in a call, not even in another order."""
        assert (
            len({frozenset(item["words"]) for item in sets(difficulty, "train")}) == MANY["train"]
        )

    def test_medium_words_are_harder(self) -> None:
        """Words of the medium sets are longer on average, and most of them never occur in easy
        sets.
        """
        words = {
            level: Counter(word for item in sets(level, "train") for word in item["words"])
            for level in DIFFICULTIES
        }
        mean = {
            level: sum(len(word) * n for word, n in found.items()) / found.total()
            for level, found in words.items()
        }
        assert mean["medium"] > mean["easy"] + 1.5
        assert len(words["medium"].keys() & words["easy"].keys()) < 0.1 * len(words["medium"])

    def test_hard_words_come_from_several_scenes(self) -> None:
        """The things of a hard set hardly ever belong to one act of the lexicon."""
        acts = [
            set(act["objects"]) for level in ("easy", "medium") for act in data()["acts"][level]
        ]
        things = set().union(*acts)
        together = several = 0
        for item in sets("hard", "train"):
            found = things & set(item["words"])
            several += len(found) > 1
            together += len(found) > 1 and any(found <= act for act in acts)
        assert several > 500
        assert together < 0.1 * several

    @pytest.mark.parametrize("difficulty", DIFFICULTIES)
    def test_many_frames(self, difficulty: str) -> None:
        """At least ten sentence templates stand behind the sets of four words."""
        content = {word for item in sets(difficulty, "train") for word in item["words"]} | {
            "an",
            "some",
        }
        frames = Counter(
            " ".join("_" if token in content else token for token in TOKEN.findall(item["example"]))
            for item in sets(difficulty, "train")
        )
        assert len([frame for frame, count in frames.items() if count >= 10]) >= 10

    def test_rejects_unknown_difficulty_and_number_of_words(self) -> None:
        """The error names what was given and what is allowed."""
        with pytest.raises(ValueError, match="'simple': give one of easy, medium, hard"):
            word_sets("simple", split="train", seed=0)
        for words in (0, 8):
            with pytest.raises(ValueError, match=f"words {words}: give 1 to 7"):
                word_sets("easy", split="train", seed=0, words=words)

    def test_says_how_many_there_are(self) -> None:
        """A request beyond the grammar names the number that exists, here single words of the test
        split.
        """
        with pytest.raises(
            ValueError, match=r"only [0-9]{2,3} items of words/medium/1 exist in the test split"
        ):
            list(word_sets("medium", split="test", seed=0, words=1))


class TestDialogues:
    def test_two_speakers_take_three_to_six_turns(self) -> None:
        """Lines alternate between two of the listed names."""
        names = set(data()["names"]["female"] + data()["names"]["male"])
        assert len(names) == 24
        for item in talks("train"):
            speakers = [line.split(": ", 1)[0] for line in item["text"].split("\n")]
            assert 3 <= len(speakers) <= 6
            assert speakers == [speakers[0], speakers[1]] * (len(speakers) // 2) + [speakers[0]] * (
                len(speakers) % 2
            )
            assert set(speakers) <= names
            assert speakers[0] != speakers[1]

    def test_summary_says_nothing_new(self) -> None:
        """Days, places, things and amounts of a summary stand in its dialogue: only words of
        reporting are added.
        """
        for item in talks("train"):
            said = set(TOKEN.findall(item["text"].lower())) | set(".,'")
            new = [
                token
                for token in TOKEN.findall(item["summary"].lower())
                if token not in said | REPORTING
            ]
            assert not new, (new, item)

    def test_pronouns_fit_the_speakers(self) -> None:
        """A summary about women alone holds no masculine pronoun, and the other way round."""
        women = set(data()["names"]["female"])
        men = set(data()["names"]["male"])
        for item in talks("train"):
            tokens = set(TOKEN.findall(item["summary"]))
            speakers = {line.split(":")[0] for line in item["text"].split("\n")}
            if speakers <= women:
                assert not tokens & {"he", "He", "his", "him"}
            if speakers <= men:
                assert not tokens & {"she", "She", "her"}

    def test_no_text_or_summary_in_both_splits(self) -> None:
        """Test dialogues and test summaries are new to whoever saw the train split."""
        for key in ("text", "summary"):
            assert not {item[key] for item in talks("train")} & {
                item[key] for item in talks("test")
            }

    def test_texts_are_distinct(self) -> None:
        """No dialogue comes twice in a call."""
        assert len({item["text"] for item in talks("train")}) == MANY["train"]


class TestParaphrases:
    def test_two_to_five_other_wordings(self) -> None:
        """All wordings of an item differ, and none is the text itself."""
        for item in rewordings("train"):
            assert 2 <= len(item["examples"]) <= 5
            assert len({item["text"], *item["examples"]}) == 1 + len(item["examples"])

    def test_wordings_truly_differ(self) -> None:
        """On average less than two thirds of the text's word pairs are found in a paraphrase."""
        shares = []
        for item in rewordings("train"):
            text = TOKEN.findall(item["text"].lower())
            pairs = set(pairwise(text))
            for example in item["examples"]:
                tokens = TOKEN.findall(example.lower())
                shares.append(len(pairs & set(pairwise(tokens))) / len(pairs))
        assert sum(shares) / len(shares) < 0.67

    def test_no_sentence_in_both_splits(self) -> None:
        """Neither a text nor a paraphrase of the test split occurs in the train split."""
        train, test = (
            {text for item in rewordings(split) for text in (item["text"], *item["examples"])}
            for split in MANY
        )
        assert not train & test

    def test_a_wording_has_one_meaning(self) -> None:
        """No sentence belongs to two items: they would be paraphrases of each other."""
        counts = Counter(
            text for item in rewordings("train") for text in (item["text"], *item["examples"])
        )
        assert max(counts.values()) == 1


class TestAllKinds:
    @given(
        seed=st.integers(0, 10**6),
        split=st.sampled_from(["train", "test"]),
        count=st.integers(0, 8),
    )
    def test_a_seed_fixes_the_items(self, seed: int, split: str, count: int) -> None:
        """A second call gives the same items in the same order."""
        for draw in (dialogues, paraphrases, partial(word_sets, "hard")):
            assert list(islice(draw(split=split, seed=seed), count)) == list(
                islice(draw(split=split, seed=seed), count)
            )

    def test_seeds_differ(self) -> None:
        """Another seed gives other items."""
        assert next(dialogues(split="test", seed=0)) != next(dialogues(split="test", seed=1))

    def test_rejects_unknown_split(self) -> None:
        """The error names what was given and what is allowed."""
        with pytest.raises(ValueError, match="split 'dev': give one of train, test"):
            next(dialogues(split="dev", seed=0))

    def test_vocabulary_is_small(self) -> None:
        """All texts together use at most 900 word types, punctuation included, so that a small
        model can learn them.
        """
        texts = [
            *references("train"),
            *references("test"),
            *(item["text"] for split in MANY for item in talks(split)),
        ]
        types = {token for text in texts for token in TOKEN.findall(text)}
        assert 600 < len(types) <= 900

    def test_references_are_short_and_well_formed(self) -> None:
        """At most 40 tokens, a capital first, a full stop or question mark last, no leftover of a
        template, no doubled word.
        """
        for text in references("train"):
            tokens = TOKEN.findall(text)
            assert len(tokens) <= 40
            assert text[0].isupper()
            assert text[-1] in ".?!"
            assert not re.search(r"[{}\[\]|_/]|  | [.,?!]", text), text
            assert all(one != two for one, two in pairwise(tokens)), text

    def test_a_and_an(self) -> None:
        """`an` stands before vowels only, `a` before consonants only."""
        for text in references("train"):
            for found, letter in re.findall(r"\b(an?|An?) (\w)", text):
                assert (found.lower() == "an") == (letter in "aeiou"), text

    @pytest.mark.nightly
    def test_enough_training_items(self) -> None:
        """At least 20,000 distinct items of each kind can be drawn for training."""
        for draw in (
            dialogues,
            paraphrases,
            *(partial(word_sets, difficulty) for difficulty in DIFFICULTIES),
        ):
            assert len(list(islice(draw(split="train", seed=0), 20_000))) == 20_000


class TestSampling:
    @given(size=st.integers(0, 60), seed=st.integers())
    def test_shuffled_is_a_permutation(self, size: int, seed: int) -> None:
        """Every number comes exactly once."""
        assert sorted(shuffled(size, Random(seed))) == list(range(size))

    @given(scenes=st.integers(0, 80), seed=st.integers(0, 99), kinds=st.integers(1, 40))
    def test_collect_finds_all_there_are(self, scenes: int, seed: int, kinds: int) -> None:
        """The two splits share out all distinct keys; one item more is an error that says how many
        exist.
        """

        def write(number: int) -> Written:
            return (f"key {number % kinds}",), {"number": number}

        found = 0
        for split in MANY:
            exist = sum(split_of(f"key {key}") == split for key in range(min(scenes, kinds)))
            rows = collect(write, scenes, "toy", split, seed)
            found += len(list(islice(rows, exist)))
            with pytest.raises(
                ValueError, match=f"only {exist} items of toy exist in the {split} split"
            ):
                next(rows)
        assert found == min(scenes, kinds)

    def test_split_is_stable_and_near_its_share(self) -> None:
        """The split of a key is fixed for ever, and a fifth of many keys is for testing."""
        found = {
            split: [key for key in ("apple", "river", "lamp", "moon") if split_of(key) == split]
            for split in MANY
        }
        assert found == SPLITS
        share = sum(split_of(str(number)) == "test" for number in range(5000)) / 5000
        assert abs(share - TEST_SHARE) < 0.03

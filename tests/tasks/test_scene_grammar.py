"""Words and sentences of the scene grammar: inflection, articles, templates."""

from __future__ import annotations

from random import Random

import pytest

from pbcore.tasks.scenes import article, inflect, realise, word_scenes


class TestLexicon:
    @pytest.mark.parametrize(
        ("verb", "past", "ing"),
        [
            ("bake", "baked", "baking"),
            ("carry", "carried", "carrying"),
            ("shut", "shut", "shutting"),
            ("feed the dog", "fed the dog", "feeding the dog"),
        ],
    )
    def test_verb_forms(self, verb: str, past: str, ing: str) -> None:
        """Regular and listed verbs inflect; of a phrase the first word does."""
        assert (inflect(verb, "past"), inflect(verb, "ing")) == (past, ing)

    def test_participle(self) -> None:
        """The participle may differ from the past."""
        assert (inflect("write", "past"), inflect("write", "pp")) == ("wrote", "written")

    def test_unknown_forms(self) -> None:
        """An unknown form is an error that lists the known ones."""
        with pytest.raises(
            ValueError, match="'future'; choose from past, pp, ing, det, it, he, him, his"
        ):
            inflect("bake", "future")

    def test_nouns_and_persons(self) -> None:
        """Number decides pronoun and determiner; gender decides the pronoun of a person."""
        assert [inflect(noun, "it") for noun in ("keys", "phone")] == ["them", "it"]
        assert [inflect(noun, "det") for noun in ("keys", "milk", "phone")] == [
            "some",
            "some",
            "a/an",
        ]
        assert [article(word) for word in ("orange", "university", "lamp")] == ["an", "a", "a"]
        assert [inflect(name, "his") for name in ("Anna", "Tom", "aunt")] == ["her", "his", "her"]


class TestRealise:
    def test_fills_chooses_and_capitalises(self) -> None:
        """Slots, forms, free choices, articles and capital letters come out as one sentence."""
        values = {"t": "after lunch", "s": "girl", "v": "buy", "o": "orange"}
        found = {
            realise(
                "{t}, the {s} {v.past} {o.det} [old|ripe] {o}. it was good.", values, Random(seed)
            )
            for seed in range(20)
        }
        assert found == {
            f"After lunch, the girl bought {ripe} orange. It was good."
            for ripe in ("an old", "a ripe")
        }


def test_few_words_go_through_fewer_scenes() -> None:
    """There are few sets of one or two words; the numbers decide which sets the own data hold."""
    assert [word_scenes(words) for words in (1, 2, 3, 7)] == [20_000, 50_000, 100_000, 100_000]

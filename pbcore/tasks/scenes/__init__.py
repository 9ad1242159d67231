"""Own text data: a small seeded scene grammar that generates word sets, dialogues and paraphrases in plain English.

The lexicon and all templates are data (`data/scenes.yaml`). Every function depends on its arguments only. The first k
items of a call don't depend on `count`, and no text, word set or summary occurs in both splits.
"""

from typing import Any

from pbcore.tasks.scenes import dialogues as _dialogues
from pbcore.tasks.scenes import paraphrases as _paraphrases
from pbcore.tasks.scenes import words as _words
from pbcore.tasks.scenes.sampling import collect

__all__ = ["dialogues", "paraphrases", "word_sets"]


def word_sets(difficulty: str, *, split: str, seed: int, count: int, words: int = 4) -> list[dict[str, Any]]:
    """Items `{"words": [...], "example": sentence}`; the sentence contains every word verbatim, in lower case.

    `easy`: simple words of one scene; `medium`: harder words of one scene; `hard`: words of unrelated scenes. Raises
    ValueError for an unknown difficulty or split, `words` outside 1..7, and more items than exist.
    """
    if difficulty not in _words.DIFFICULTIES:
        raise ValueError(f"difficulty {difficulty!r}: give one of {', '.join(_words.DIFFICULTIES)}")
    if words not in _words.WORD_COUNTS:
        raise ValueError(f"words {words}: give 1 to {_words.WORD_COUNTS[-1]}")
    return collect(
        lambda number: _words.write(number, difficulty, words),
        scenes=_words.scene_count(words),
        split=split,
        seed=seed,
        count=count,
        kind=f"words/{difficulty}/{words}",
        split_key=_words.split_of_key,
    )


def dialogues(*, split: str, seed: int, count: int) -> list[dict[str, Any]]:
    """Items `{"text": "Anna: ...\\nTom: ...", "summary": ...}`: 3 to 6 turns, a summary of one or two sentences.

    Raises ValueError for an unknown split and for more items than exist.
    """
    return collect(_dialogues.write, scenes=_dialogues.SCENES, split=split, seed=seed, count=count, kind="dialogue")


def paraphrases(*, split: str, seed: int, count: int) -> list[dict[str, Any]]:
    """Items `{"text": sentence, "examples": [...]}`: 2 to 5 other wordings of the same meaning.

    Raises ValueError for an unknown split and for more items than exist.
    """
    return collect(
        _paraphrases.write, scenes=_paraphrases.SCENES, split=split, seed=seed, count=count, kind="paraphrase"
    )

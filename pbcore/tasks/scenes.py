"""Own text data: a small seeded scene grammar that generates word sets, dialogues and paraphrases
in plain English.

The lexicon and all templates are data (`data/scenes.yaml`); a template is plain text with `{slot}`,
`{slot.form}` and `[one|other]` (a random choice). Every scene has a number, from which alone its
text follows. The seed orders the scenes, a stable hash of their text splits them, and no text, word
set or summary occurs in both splits.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import cycle
from random import Random
from typing import Any

from pbcore.base.package_data import package_yaml
from pbcore.tasks.generators import (
    SPLITS,
    TEST_SHARE,
    Generator,
    Order,
    Question,
    ShotQuestion,
    split_of,
)

DIFFICULTIES = ("easy", "medium", "hard")
WORD_COUNTS = range(1, 8)
SINGLE_TEST_SHARE = (
    0.6  # of single words: with about 200 a difficulty, the test split has at least 100
)
SPARE_WORDS = 2  # content words that a sentence may have beyond the requested ones
DIALOGUES, PARAPHRASES = 100_000, 150_000  # scenes
MOST_EXAMPLES = 5

_SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?\}")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_ARTICLE = re.compile(r"\ba/an (\w+)")
_START = re.compile(r"(^|[.?!] )([a-z])")
_FEMALE = {"he": "she", "him": "her", "his": "her"}
FORMS = ("past", "pp", "ing", "det", "it", *_FEMALE)

SceneRow = dict[str, Any]
# What a scene's number gives: the keys that decide the split, and the row. None: the scene is
# unusable.
Written = tuple[Sequence[str], SceneRow] | None


@cache
def data() -> Mapping[str, Any]:
    """The content of scenes.yaml, read once; its lists of words with a property are sets."""
    words: dict[str, Any] = package_yaml("pbcore.tasks", "scenes.yaml")
    words |= {key: frozenset(words[key]) for key in ("mass", "plural", "doubled")}
    words["female"] = frozenset(words["names"]["female"] + words["relatives"]["female"])
    return words


def article(following: str) -> str:
    """`a` or `an`, by the first letter of the next word; words such as `university` are listed in
    the lexicon.
    """
    return "an" if (following[0] in "aeiou") != (following in data()["article_exceptions"]) else "a"


def inflect(value: str, form: str | None) -> str:
    """A slot's value in a form; unchanged if `form` is None. Of a verb: `past`, `pp` (participle),
    `ing`. Of a noun: `det`, its indefinite determiner (`some`, or `a/an` until the next word is
    known), or `it`, its pronoun. Of a name or a relative: `he`, `him` or `his`, or the feminine
    form. Raises ValueError for other forms.
    """
    if form is None:
        return value
    # The last word of a noun phrase decides number, mass and gender.
    head = value.rsplit(" ", 1)[-1]
    if form in ("past", "pp", "ing"):
        return _verb(value, form)
    if form in _FEMALE:
        return _FEMALE[form] if head in data()["female"] else form
    if form == "det":
        return "some" if any(head in data()[kind] for kind in ("plural", "mass")) else "a/an"
    if form == "it":
        return "them" if head in data()["plural"] else "it"
    raise ValueError(f"unknown form {form!r}; choose from {', '.join(FORMS)}")


def _verb(phrase: str, form: str) -> str:
    verb, space, rest = phrase.partition(" ")
    stem = verb + verb[-1] if verb in data()["doubled"] else verb
    if form == "ing":
        inflected = (verb[:-1] if re.search(r"[^e]e$", verb) else stem) + "ing"
    elif verb in data()["irregular"]:
        inflected = data()["irregular"][verb][form == "pp"]
    elif verb.endswith("e"):
        inflected = verb + "d"
    else:
        inflected = verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else stem + "ed"
    return inflected + space + rest


def realise(template: str, values: Mapping[str, str], rng: Random) -> str:
    """The finished text: choices made, slots filled, `a` or `an` chosen, sentences capitalised.

    Args:
        template: the text with choices and slots.
        values: what fills the slots.
        rng: makes the choices.
    """
    chosen = _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), template)
    chosen = _SLOT.sub(lambda match: inflect(values[match[1]], match[2]), chosen)
    chosen = _ARTICLE.sub(lambda match: f"{article(match[1])} {match[1]}", chosen)
    return _START.sub(lambda match: match[1] + match[2].upper(), chosen)


def word_sets(difficulty: str, *, split: str, seed: int, words: int = 4) -> Iterator[SceneRow]:
    """Rows `{"words": [...], "example": sentence}`; the sentence contains every word verbatim, in
    lower case.

    Args:
        difficulty: `easy`: simple words of one scene; `medium`: harder words of one scene; `hard`:
            words of unrelated scenes.
        split: `train` or `test`.
        seed: decides their order.
        words: how many words a row has, 1 to 7.

    Raises:
        ValueError: for an unknown difficulty or split, another number of words, and after the last
            row.
    """
    if difficulty not in DIFFICULTIES:
        raise ValueError(f"difficulty {difficulty!r}: give one of {', '.join(DIFFICULTIES)}")
    if words not in WORD_COUNTS:
        raise ValueError(f"words {words}: give 1 to {WORD_COUNTS[-1]}")
    write = partial(_words, difficulty=difficulty, words=words)
    return collect(
        write, word_scenes(words), f"words/{difficulty}/{words}", split, seed, SINGLE_TEST_SHARE
    )


def dialogues(*, split: str, seed: int) -> Iterator[SceneRow]:
    """Rows `{"text": "Anna: ...\\nTom: ...", "summary": ...}`: 3 to 6 turns, a summary of one or
    two sentences. Raises ValueError for an unknown split, and after the last row.
    """
    return collect(_dialogue, DIALOGUES, "dialogue", split, seed)


def paraphrases(*, split: str, seed: int) -> Iterator[SceneRow]:
    """Rows `{"text": sentence, "examples": [...]}`: 2 to 5 other wordings of the same meaning.
    Raises ValueError for an unknown split, and after the last row.
    """
    return collect(_paraphrase, PARAPHRASES, "paraphrase", split, seed)


def collect(
    write: Callable[[int], Written],
    scenes: int,
    kind: str,
    split: str,
    seed: int,
    single_share: float = TEST_SHARE,
) -> Iterator[SceneRow]:
    """The distinct rows of a split, in the seed's order.

    A row belongs to a split if all its keys do; it is distinct if its first key is new.

    Args:
        write: what a scene's number gives.
        scenes: how many scenes there are.
        kind: what rows are called in errors.
        split: `train` or `test`.
        seed: decides their order.
        single_share: the share of the keys of one word that is in the test split.

    Raises:
        ValueError: for an unknown split, and after the last row.
    """
    if split not in SPLITS:
        raise ValueError(f"split {split!r}: give one of {', '.join(SPLITS)}")
    seen: set[str] = set()
    for number in shuffled(scenes, Random(f"{seed}/{split}/{kind}")):
        keys, row = write(number) or ((), {})
        splits = {split_of(key, TEST_SHARE if " " in key else single_share) for key in keys}
        if splits == {split} and keys[0] not in seen:
            seen.add(keys[0])
            yield row
    raise ValueError(f"only {len(seen)} items of {kind} exist in the {split} split: request fewer")


def shuffled(size: int, rng: Random) -> Iterator[int]:
    """The numbers below `size` in random order, drawn one by one (Fisher–Yates), so taking a few of
    them is cheap.
    """
    moved: dict[int, int] = {}
    for place in range(size):
        other = rng.randrange(place, size)
        yield moved.get(other, other)
        moved[other] = moved.get(place, place)


def word_scenes(words: int) -> int:
    """The number of scenes: fewer for small word sets, of which there are few, so that going
    through all is quick.
    """
    return {1: 20_000, 2: 50_000}.get(words, 100_000)


def _words(number: int, difficulty: str, words: int) -> Written:
    """A word set and a sentence; None if two of the sentence's words are equal."""
    rng = Random(f"words/{difficulty}/{words}/{number}")
    values = _odd_scene(rng) if difficulty == "hard" else _scene(difficulty, rng)
    template, content = rng.choice(_templates(difficulty, words))
    used = [values[name].rsplit(" ", 1)[-1] for name in content]
    if len(set(used)) < len(used):
        return None
    chosen = rng.sample(used, words)
    sentence = realise(template, values, rng)
    return (" ".join(sorted(chosen)), sentence), {"words": chosen, "example": sentence}


@cache
def _templates(difficulty: str, words: int) -> list[tuple[str, list[str]]]:
    """Templates and their content slots for a number of words: at least as many slots, and few
    more.
    """
    kind = "hard" if difficulty == "hard" else "scene"
    pairs = [
        (template, sorted(set(re.findall(r"\{(\w+)\}", template))))
        for template in data()["word_templates"][kind]
    ]
    shortest = max(words, min(len(content) for _, content in pairs))
    return [pair for pair in pairs if words <= len(pair[1]) <= shortest + SPARE_WORDS]


def _scene(difficulty: str, rng: Random) -> dict[str, str]:
    """Values for every slot from one act: who does what to what, where and when."""
    act = rng.choice(data()["acts"][difficulty])
    who, other = rng.sample(data()["people"][act["who"]], 2)
    return {
        "A": rng.choice(data()["person_adjectives"][difficulty]),
        "S": who,
        "R": other,
        "V": rng.choice(act["verbs"]),
        "B": rng.choice(act["adjectives"]),
        "O": rng.choice(act["objects"]),
        "P": rng.choice(act["where"]),
        "T": rng.choice(data()["times"][difficulty]),
    }


def _odd_scene(rng: Random) -> dict[str, str]:
    acts = [*data()["acts"]["easy"], *data()["acts"]["medium"]]
    acts = [act for act in acts if not act.get("abstract")]
    first, second, third, fourth, fifth = rng.sample(acts, 5)
    level = rng.choice(("easy", "medium"))
    return {
        "A": rng.choice(data()["person_adjectives"][level]),
        "S": rng.choice(data()["people"][fifth["who"]]),
        "V": rng.choice(first["verbs"]),
        "B": rng.choice(first["adjectives"]),
        "O": rng.choice(first["objects"]),
        "X": rng.choice(second["objects"]),
        "Y": rng.choice(third["objects"]),
        "Z": rng.choice(fourth["objects"]),
        "P": rng.choice(data()["odd_places"]),
    }


def _dialogue(number: int) -> Written:
    rng = Random(f"dialogue/{number}")
    frame = data()["dialogues"][rng.choice(sorted(data()["dialogues"]))]
    names = data()["names"]["female"] + data()["names"]["male"]
    first, second = rng.sample(names, 2)
    values = {"a": first, "b": second}
    case = rng.choice(frame.get("cases", [{}]))
    for slot, options in {**frame.get("slots", {}), **case}.items():
        pool = data()["dialogue_slots"][options] if isinstance(options, str) else options
        values[slot] = rng.choice([option for option in pool if option not in values.values()])
    closing = frame.get("closing", [])
    turns = [*frame["turns"], *closing[: rng.randrange(len(closing) + 1)]]
    lines = []
    for place, turn in enumerate(turns):
        speaker = second if place % 2 else first
        lines.append(f"{speaker}: {realise(turn, values, rng)}")
    text = "\n".join(lines)
    summary = realise(rng.choice(frame["summaries"]), values, rng)
    return (text, summary), {"text": text, "summary": summary}


def _paraphrase(number: int) -> Written:
    """A sentence in several frames and with synonyms; None unless all wordings, at least three,
    differ.
    """
    rng = Random(f"paraphrase/{number}")
    name = rng.choice(sorted(data()["paraphrases"]))
    frame = data()["paraphrases"][name]
    meaning: dict[str, list[str]] = {}  # slot → synonyms, often only one
    for slot, options in {**frame.get("slots", {}), **rng.choice(frame["cases"])}.items():
        pool = data()["synonyms"][options] if isinstance(options, str) else options
        taken = [words[0] for words in meaning.values()]
        free = [option if isinstance(option, list) else [option] for option in pool]
        meaning[slot] = rng.choice([option for option in free if option[0] not in taken])
    variants = list(frame["variants"])
    rng.shuffle(variants)
    sentences = []
    for index, variant in enumerate(variants[: MOST_EXAMPLES + 1]):
        values = {slot: words[(index + number) % len(words)] for slot, words in meaning.items()}
        sentences.append(realise(variant, values, rng))
    if len(set(sentences)) < max(3, len(sentences)):
        return None
    key = name + "/" + "/".join(f"{slot}={words[0]}" for slot, words in sorted(meaning.items()))
    return (key,), {"text": sentences[0], "examples": sentences[1:]}


def word_list(words: Sequence[str]) -> str:
    """Words as listed in the prompt: `dog, park, ball, and throw`."""
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])}, and {words[-1]}"


def _word_items(order: Order, n: int) -> Iterator[Question]:
    for row in word_sets(order.settings["difficulty"], split=order.split, seed=order.seed, words=n):
        yield Question({"words": word_list(row["words"])}, row, word_list(row["words"]), n)


def _text_items(
    rows: Callable[..., Iterator[SceneRow]], order: Order, n: int
) -> Iterator[Question]:
    """`examples` is a printed list in one string, as in the official rows."""
    for row in rows(split=order.split, seed=order.seed):
        label = row | {"examples": str(row["examples"])} if "examples" in row else row
        yield Question({"text": row["text"]}, label, row["text"], n)


def _in_turn(
    items: Callable[[Order, int], Iterator[Question]], order: Order
) -> Iterator[ShotQuestion]:
    """Questions of each length in turn, each with the items before it as shots."""
    streams = [items(order, n) for n in order.lengths or (1,)]
    for stream in cycle(streams):
        shots = tuple(next(stream) for _ in range(order.shots))
        yield ShotQuestion(next(stream), shots)


TEXT_GENERATORS = {
    "words_to_sentence": Generator(
        partial(_in_turn, _word_items),
        {"difficulty": "easy"},
        WORD_COUNTS,
        "words",
        allowed={"difficulty": DIFFICULTIES},
    ),
    "summarization": Generator(partial(_in_turn, partial(_text_items, dialogues)), {}),
    "paraphrasing": Generator(partial(_in_turn, partial(_text_items, paraphrases)), {}),
}

"""Question generators: the types shared by lists, puzzles and texts, and the seeded stream of drawn
items.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from pbcore.base.errors import InputError
from pbcore.tasks.files import check_value

SPLITS = ("train", "test")
TEST_SHARE = 0.2
MOST_DRAWS = 2_000  # failed draws for one question after which the questions count as exhausted

GeneratorSettings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """One question: the values that fill the prompt, the official `answer` value, and the canvas
    for infilling. `key` decides the split: items with equal keys are in the same split.
    """

    input: Mapping[str, Any]
    label: Any
    key: str
    length: int | None = None
    canvas: str | None = None


@dataclass(frozen=True, slots=True)
class ShotQuestion:
    """A question with its shots, the solved examples shown before it."""

    item: Question
    shots: tuple[Question, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """A request to a generator. `name` is the task's; it enters the seed, so different tasks get
    different data. `count` is the number of questions, all different; None: any number, with
    possible repeats.
    """

    name: str
    settings: GeneratorSettings
    lengths: tuple[int, ...] | None
    shots: int
    split: str
    seed: int
    count: int | None

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError(f"split {self.split!r}: give one of {', '.join(SPLITS)}")


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator of questions.

    `stream(order)` yields questions without end, or until they are exhausted. The lengths
    alternate, so every prefix is balanced, and the first k questions don't depend on how many are
    taken. `settings` maps the settings to their defaults; `lengths` holds the allowed values of `n`
    (None: no length); `what` names what `n` counts; `room(n)` is the canvas length in tokens.
    `allowed` maps settings to what `files.check_value` allows them; `further` checks others, and
    what they have to do with each other.
    """

    stream: Callable[[Order], Iterator[ShotQuestion]]
    settings: GeneratorSettings
    lengths: range | None = None
    what: str = "items"
    room: Callable[[int], int] = lambda n: 0
    allowed: Mapping[str, Any] = field(default_factory=dict)
    further: Callable[[GeneratorSettings], None] = lambda settings: None

    def check(self, settings: GeneratorSettings) -> None:
        """Raises InputError for invalid settings."""
        for name, allowed in self.allowed.items():
            check_value(f"settings.{name}", settings[name], allowed)
        self.further(settings)


DrawQuestion = Callable[[Random, int, GeneratorSettings], Question]


def power_of_two(least: int) -> int:
    """The smallest power of two that is at least `least`."""
    return 1 << (least - 1).bit_length()


def split_of(key: str, test_share: float = TEST_SHARE) -> str:
    """`train` or `test`, from the key's hash alone: equal on every machine and in every version of
    Python.
    """
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return "test" if int.from_bytes(digest, "big") < test_share * 2**64 else "train"


def drawn(draw: DrawQuestion) -> Callable[[Order], Iterator[ShotQuestion]]:
    """An endless stream from a function that draws one item; question number i has its own random
    generator.
    """

    def stream(order: Order) -> Iterator[ShotQuestion]:
        lengths = order.lengths or (0,)
        seen: set[str] = set()
        for number in count():
            rng = Random(f"{order.name}/{order.split}/{order.seed}/{number}")
            item = _new_item(draw, rng, lengths[number % len(lengths)], order, seen)
            if order.count is not None:
                seen.add(str(item.input))
            yield ShotQuestion(
                item,
                tuple(
                    _new_item(draw, rng, rng.choice(lengths), order, ()) for _ in range(order.shots)
                ),
            )

    return stream


def _new_item(
    draw: DrawQuestion, rng: Random, length: int, order: Order, seen: Collection[str]
) -> Question:
    """The first drawn item that is in the split and not in `seen`."""
    for _ in range(MOST_DRAWS):
        item = draw(rng, length, order.settings)
        if split_of(f"{order.name}/{item.key}") == order.split and str(item.input) not in seen:
            return item
    raise InputError(
        f"{order.name}: the {order.split} split has only {len(seen)} different questions (length"
        f" {length} is used up): request fewer or other lengths, or give more items"
    )

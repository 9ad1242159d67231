"""Samples scenes: a seeded random order of the numbered scenes, split into train and test by a stable hash of their
text.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

SPLITS = ("train", "test")
TEST_SHARE = 0.2

# A generator's result for a scene number: the keys that decide the split, and the item. None: the scene is unusable.
Written = tuple[Sequence[str], dict[str, Any]] | None


def split_of(key: str, test_share: float = TEST_SHARE) -> str:
    """`train` or `test`, from the key's hash alone: equal on every machine and in every version of Python."""
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return "test" if int.from_bytes(digest, "big") < test_share * 2**64 else "train"


def shuffled(size: int, rng: Random) -> Iterator[int]:
    """The numbers below `size` in random order, drawn one by one (Fisher–Yates), so taking a few of them is cheap."""
    moved: dict[int, int] = {}
    for place in range(size):
        other = rng.randrange(place, size)
        yield moved.get(other, other)
        moved[other] = moved.get(place, place)


def collect(
    write: Callable[[int], Written],
    *,
    scenes: int,
    split: str,
    seed: int,
    count: int,
    kind: str,
    split_key: Callable[[str], str] = split_of,
) -> list[dict[str, Any]]:
    """The first `count` distinct items of a split, in the seed's order.

    An item belongs to a split if all its keys do; it is distinct if its first key is new. Raises ValueError for an
    unknown split, a negative count, and more items than exist.
    """
    if split not in SPLITS:
        raise ValueError(f"split {split!r}: give one of {', '.join(SPLITS)}")
    if count < 0:
        raise ValueError(f"count {count}: give 0 or more")
    items: list[dict[str, Any]] = []
    seen: set[str] = set()
    numbers = shuffled(scenes, Random(f"{seed}/{split}/{kind}"))
    while len(items) < count:
        number = next(numbers, None)
        if number is None:
            raise ValueError(
                f"{count} items of {kind} requested, {len(items)} exist in the {split} split: request fewer"
            )
        written = write(number)
        if written is None:
            continue
        keys, item = written
        if keys[0] not in seen and all(split_key(key) == split for key in keys):
            seen.add(keys[0])
            items.append(item)
    return items

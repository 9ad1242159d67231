"""One colour and one marker per policy, in every plot of every run; lines of the same policy differ
in their dashes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict
from zlib import crc32

from pbcore.analysis.order import natural
from pbcore.decoding.policies.registry import declared_looks

Dash = Literal["-", "--", ":", "-."]
Fill = Literal["full", "left", "bottom", "right", "top", "none"]
# Contrast of at least 4.5:1 on white and on the page's dark ground; colour-blind readers have
# markers besides.
COLOURS = ("#0072B2", "#C04A00", "#007A5A", "#A8508B", "#8A6100", "#4B5FBF", "#333333", "#7A4A1E")
DARK = ("#56B4E9", "#FF8C42", "#2FC99A", "#E79FC9", "#F0B93A", "#A9B6FF", "#E0E0E0", "#D7A574")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")
FILLS: tuple[Fill, ...] = (
    "full",
    "none",
    "left",
    "right",
    "top",
    "bottom",
)  # of the markers of a policy's samplers
OWN = {"ar": 8}  # samplers that only models with their own loop have, and their numbers
_ALL = len(COLOURS) * len(MARKERS)
# A ceiling from here on rounds to 100.0 %: nothing is lost, and plots don't point it out.
FULL = 99.95


@dataclass(frozen=True, slots=True)
class Look:
    """Numbers of a colour, a marker and a pattern of dashes; `hollow` markers, and those with a
    dot, tell further series apart.
    """

    colour: int
    marker: int
    dash: int = 0
    hollow: bool = False
    dotted: bool = False


class LineStyle(TypedDict, total=False):
    """Matplotlib's options of a line and its markers."""

    color: str
    marker: str
    linestyle: Dash
    linewidth: float
    markersize: float
    mfc: str
    fillstyle: Fill
    mfcalt: str


def policy_of(method: str) -> str:
    """`threshold` of `threshold-0.9+b8`."""
    return method.split("+", 1)[0].split("-", 1)[0]


def policy_number(name: str) -> int:
    """A policy's number below 64, whatever else a run holds: the one that it declares; one without
    has a number that is drawn from its name.
    """
    known = {**OWN, **declared_looks()}
    if name in known:
        return known[name]
    free = _ALL - len(known)
    return len(known) + crc32(name.encode("utf-8", "replace")) % free


def looks(lines: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Look]:
    """(model, method) → its look among these: models differ in dashes and in filled and
    hollow markers, so that single points tell them apart, a policy's methods in a dot within the
    marker; methods of a single model differ in dashes, then in hollow markers.
    """
    names = list(dict.fromkeys(lines))
    models = list(dict.fromkeys(model for model, _ in names))
    methods: dict[tuple[int, int], list[str]] = {}  # by the numbers of model and policy
    for model, method in names:
        numbers = models.index(model), policy_number(policy_of(method))
        methods.setdefault(numbers, []).append(method)
    found = {}
    for place, number in sorted(methods):
        for rank, method in enumerate(sorted(methods[place, number], key=natural)):
            if len(models) > 1:
                dash = place
                hollow = place % 2 == 1
                dotted = rank % 2 == 1
            else:
                dash = rank
                hollow = rank // len(DASHES) % 2 == 1
                dotted = False
            colour = number % len(COLOURS)
            look = Look(colour, _marker(number), dash % len(DASHES), hollow, dotted)
            found[models[place], method] = look
    return found


def _marker(number: int) -> int:
    """That of each colour's first series is its own, later ones have the next."""
    return (number + number // len(COLOURS)) % len(MARKERS)


def number_look(number: int) -> LineStyle:
    """A series' colour and marker as matplotlib's options."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[_marker(number)]}


def own_colours(policies: Sequence[str]) -> dict[str, LineStyle]:
    """Policy → colour and marker as matplotlib's options, no colour twice among the first eight:
    its usual one, or a free one where that is taken.
    """
    taken: set[int] = set()
    drawn: dict[str, LineStyle] = {}
    for policy in policies:
        number = policy_number(policy)
        usual = number % len(COLOURS)
        free = [colour for colour in range(len(COLOURS)) if colour not in taken]
        colour = usual if usual in free or not free else free[0]
        taken.add(colour)
        drawn[policy] = {"color": COLOURS[colour], "marker": MARKERS[_marker(number)]}
    return drawn


def marker_looks(names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], LineStyle]:
    """(model, sampler) → matplotlib's options of its colour and marker, where lines have another
    meaning; those of one policy differ in how their markers are filled.
    """
    drawn: dict[tuple[str, str], LineStyle] = {}
    counts: Counter[str] = Counter()  # of the names of each policy
    for model, sampler in dict.fromkeys(names):
        policy = policy_of(sampler)
        fill = FILLS[counts[policy] % len(FILLS)]
        look = number_look(policy_number(policy)) | {"fillstyle": fill, "mfcalt": "white"}
        drawn[model, sampler] = look
        counts[policy] += 1
    return drawn

"""A run in which a sampler or model has another name than in its baseline, as with a new setting:
which names belong together, and the command that judges one by the other.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from pbcore.analysis.pairs import Pair
from pbcore.analysis.verdict import Verdict
from pbcore.base.printable import command_line
from pbcore.names import recorded

Rest = tuple[str, str, str]  # what two cells of other names have in common


def compare_command(verdict: Verdict, run: Path, baseline: str) -> str:
    """`pbcore compare RUN baseline.json --sampler NEW=OLD`, where the run lacks names of the
    baseline and has others in their place; empty where it doesn't.

    Args:
        verdict: on the run.
        run: its directory.
        baseline: the file or directory that it was judged against.
    """
    pairs = [judgement.pair for judgement in verdict.of("missing", "new") if judgement.pair]
    judged = [judgement.pair for judgement in verdict.judged if judgement.pair]
    words: list[str] = []
    for option, names in (("--model", _models), ("--sampler", _samplers)):
        for new, old in _joined(pairs, judged, names).items():
            words += [option, f"{new}={old}"]
    return command_line(["pbcore", "compare", str(run), baseline, *words]) if words else ""


def _samplers(pair: Pair) -> tuple[str, Rest]:
    return pair.sampler[0], (pair.model[0], pair.task, pair.level)


def _models(pair: Pair) -> tuple[str, Rest]:
    return pair.model[0], (pair.sampler[0], pair.task, pair.level)


def _joined(
    pairs: Sequence[Pair], judged: Iterable[Pair], names: Callable[[Pair], tuple[str, Rest]]
) -> dict[str, str]:
    """New name → the old one that it is most like, of those with a cell in common."""
    kept = {names(pair)[0] for pair in judged}
    new: dict[str, set[Rest]] = {}
    old: dict[str, set[Rest]] = {}
    for pair in pairs:
        name, cell = names(pair)
        side = old if pair.head is None else new
        side.setdefault(name, set()).add(cell)
    came = [name for name in new if name not in kept and name not in old]
    gone = [name for name in old if name not in kept and name not in new]
    chosen: dict[str, str] = {}
    for name in came:
        alike = [other for other in gone if new[name] & old[other]]
        if alike:
            chosen[name] = max(alike, key=_likeness(name, set(chosen.values())))
    return chosen


def _likeness(name: str, taken: Collection[str]) -> Callable[[str], tuple[bool, bool, float]]:
    """How well an old name fits a new one: of the same policy, not taken, spelled alike."""

    def fit(other: str) -> tuple[bool, bool, float]:
        ours = recorded(name)
        theirs = recorded(other)
        same = ours is not None and theirs is not None and ours.policy == theirs.policy
        return same, other not in taken, SequenceMatcher(None, name, other).ratio()

    return fit

"""How many kernels a sampler's own work runs in a call, and how often it waits: data/own_work.yaml,
counted by `python -m benches.device_waits --write`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pbcore.base.package_data import package_yaml
from pbcore.names import SamplerName, parse

BASE = "confidence-k2"  # the sampler on which modifiers were counted
_FREE = re.compile(r"b\d+|x\d+|s[\d_]+|linear\d+|cosine\d+")  # modifiers that run no kernels


@dataclass(frozen=True, slots=True)
class OwnWork:
    """Of one call: kernels beside the network's, and waits of the host for the device."""

    kernels: float
    waits: float

    def plus(self, other: "OwnWork", minus: "OwnWork") -> "OwnWork":
        """This work and what `other` has more than `minus`."""
        kernels = self.kernels + max(0.0, other.kernels - minus.kernels)
        waits = self.waits + max(0.0, other.waits - minus.waits)
        return OwnWork(kernels, waits)


@cache
def counted_work() -> Mapping[str, OwnWork]:
    """What was counted, by sampler name."""
    rows = package_yaml("pbcore.costs", "own_work.yaml")["samplers"]
    return {name: OwnWork(**values) for name, values in rows.items()}


def own_work(sampler: SamplerName) -> OwnWork:
    """The work of a sampler: as counted for its name; else its policy's, counted with other
    parameters, and what each of its modifiers added to `confidence-k2`.
    """
    name = sampler.alone
    table = counted_work()
    if str(name) in table:
        return table[str(name)]
    work = _of_policy(name)
    for modifier in _modifiers(name):
        with_it = _nearest(modifier)
        if with_it is not None:
            work = work.plus(with_it, table[BASE])
    return work


def _of_policy(name: SamplerName) -> OwnWork:
    """The work of the policy alone: of the same policy with any parameters, else of `BASE`."""
    for text, work in counted_work().items():
        if parse(text).policy == name.policy and not _modifiers(parse(text)):
            return work
    return counted_work()[BASE]


def stand_in(sampler: SamplerName) -> str:
    """`BASE` for a sampler of whose policy nothing was counted; else empty."""
    counted = {parse(text).policy for text in counted_work()}
    return "" if sampler.policy in counted else BASE


def _modifiers(name: SamplerName) -> list[str]:
    """The modifiers of a name that change its work, as they are written."""
    return [part for part in str(name).split("+")[1:] if not _FREE.fullmatch(part)]


def _nearest(modifier: str) -> OwnWork | None:
    """`BASE` with this modifier, or with the same one of the nearest number; None if none was
    counted. Of rows with further modifiers the one with the fewest counts.
    """
    word, number = _split(modifier)
    near: list[tuple[int, float, OwnWork]] = []
    for text, work in counted_work().items():
        modifiers = _modifiers(parse(text))
        if not text.startswith(BASE):
            continue
        for other, its_number in map(_split, modifiers):
            if other == word:
                near.append((len(modifiers), abs(its_number - number), work))
    return min(near, key=lambda entry: entry[:2])[2] if near else None


def _split(modifier: str) -> tuple[str, float]:
    """A modifier's word and its number, 0 without one."""
    match = re.fullmatch(r"([a-z_]+?)([0-9.]*)", modifier)
    if match is None or not match[2]:
        return modifier, 0.0
    return match[1], float(match[2])

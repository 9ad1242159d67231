"""Which settings and properties a family is checked with. Doesn't import torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from pbcore.extras.check.engine.published import PUBLISHED

GEN = 16  # tokens of an answer
# Prompts that a property needs, and how many are decoded at once.
NEEDED = {
    "single": 3,
    "short": 2,
    "border": 3,
    "batch": 6,
    "eos-early": 2,
    "eos-within": 2,
    "eos-border": 2,
    "mask": 2,
    "telling": 3,
}
MAIN = (*(name for name in NEEDED if name != "telling"), "full", "twice", "forwards")
FIRST = (*MAIN, "telling")
FEW = ("single", "batch")
TOLD = (*FEW, "telling")
AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class SamplerChecks:
    """A sampler and the properties that are checked with it. `block` is the block length of a model
    whose blocks are its own; None: the sampler's.
    """

    family: str
    sampler: str
    properties: Sequence[str]
    block: int | None = None

    @property
    def name(self) -> str:
        """The sampler's name with its blocks."""
        return self.sampler if self.block is None else f"{self.sampler}+b{self.block}"


def parts(family: str) -> list[SamplerChecks]:
    """What a family is checked with."""
    block = PUBLISHED[family].block
    if block is not None:
        most = block // 2
        samplers = {f"confidence-k{most}": FIRST, "threshold-0.9": MAIN}
        samplers |= {"confidence-k3": FEW} if block == 8 else {}
        return [SamplerChecks(family, name, which, block) for name, which in samplers.items()]
    samplers = {"confidence-k4+b8": FIRST, "threshold-0.9+b8": MAIN}
    samplers |= {"confidence-k3+b8": FEW, "confidence-k8": FEW}
    if PUBLISHED[family].caches:
        samplers |= {"confidence-k4+b8+prefix": FEW, "confidence-k4+b8+dual": TOLD}
    if PUBLISHED[family].entropy:
        samplers["entropy-k8"] = TOLD
    return [SamplerChecks(family, name, which) for name, which in samplers.items()]

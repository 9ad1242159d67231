"""Random numbers that depend on (seed, row, forward, position) alone: the same on every device, in
every batch.
"""

from typing import Protocol

from pbcore.base.lazy_torch import Tensor, torch

# splitmix64's constants as signed 64-bit numbers.
_MIX = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15, -0x61C8864680B583EB)


class RandomSource(Protocol):
    """The source of random numbers: `uniform`, or numbers chosen to enumerate all outcomes."""

    def __call__(
        self, seed: int, key: Tensor, nfe: Tensor, position: Tensor, salt: int = 0
    ) -> Tensor: ...


def uniform(seed: int, key: Tensor, nfe: Tensor, position: Tensor, salt: int = 0) -> Tensor:
    """Uniform numbers (R, C) in (0, 1), float64, by splitmix64 as a hash: there is no generator
    whose
    state could depend on the batch.

    Args:
        seed: of the run.
        key: the rows' keys (R,).
        nfe: the rows' forwards so far (R,).
        position: (R, C).
        salt: separates several draws of one step.
    """
    x = mixed(torch.full_like(key, seed) * 0x9E3779B1 + salt + 1)
    x = mixed(mixed(x ^ key) ^ nfe)
    return high_bits(mixed(x[:, None] ^ position)) / (1 << 53)  # (R, C)


def categorical(logits: Tensor, uniforms: Tensor) -> Tensor:
    """One draw (M,) per row from softmax(logits) (M, V): the distribution function inverted at
    uniforms (M,).
    """
    cdf = torch.softmax(logits.double(), dim=-1).cumsum(dim=-1)  # (M, V)
    target = uniforms[:, None] * cdf[:, -1:]
    return torch.searchsorted(cdf, target, right=True).squeeze(-1).clamp_(max=logits.shape[-1] - 1)


def bernoulli(chances: Tensor, uniforms: Tensor) -> Tensor:
    """Whether something of probability `chances` (1 and above: always) happens, by uniforms in (0,
    1) of that shape.
    """
    return uniforms < chances


def mixed(x: Tensor) -> Tensor:
    """The finaliser of splitmix64 on int64; products wrap around."""
    x = x + _MIX[2]
    x = (x ^ _shift(x, 30)) * _MIX[0]
    x = (x ^ _shift(x, 27)) * _MIX[1]
    return x ^ _shift(x, 31)


def high_bits(x: Tensor) -> Tensor:
    """The upper 53 bits as numbers of float64, plus a half: in (0, 2⁵³)."""
    return _shift(x, 11).double() + 0.5


def _shift(x: Tensor, by: int) -> Tensor:
    """Logical right shift; torch's `>>` keeps the sign."""
    return (x >> by) & ((1 << (64 - by)) - 1)

"""Counter-based random draws."""

from __future__ import annotations

import torch
from scipy import stats

from pbcore.models.counter_rng import categorical, mixed, uniform


def draw(seed: int, keys: int, positions: int, nfe: int = 0, salt: int = 0) -> torch.Tensor:
    key = torch.arange(keys)
    return uniform(
        seed, key, torch.full_like(key, nfe), torch.arange(positions).expand(keys, positions), salt
    )


def test_splitmix64() -> None:
    """The first numbers of the published generator from state 0, whose states are multiples of one
    odd number: so draws and noise are the same in every version.
    """
    states = [(0x9E3779B97F4A7C15 * i) % (1 << 64) for i in range(3)]
    known = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    signed = torch.tensor([state - (1 << 64) if state >> 63 else state for state in states])
    assert [number % (1 << 64) for number in mixed(signed).tolist()] == known


class TestUniform:
    def test_is_uniform(self) -> None:
        """100,000 numbers over keys and positions pass a Kolmogorov–Smirnov test, and lie strictly
        inside (0, 1).
        """
        values = draw(7, 500, 200).flatten()
        assert stats.kstest(values.numpy(), "uniform").pvalue > 0.01
        assert 0 < values.min() < values.max() < 1

    def test_neighbours_are_independent(self) -> None:
        """Neighbouring keys, positions, forwards, seeds and salts don't correlate."""
        base = draw(7, 300, 300)
        others = [
            base.roll(1, 0),
            base.roll(1, 1),
            draw(8, 300, 300),
            draw(7, 300, 300, nfe=1),
            draw(7, 300, 300, salt=1),
        ]
        for other in others:
            assert abs(torch.corrcoef(torch.stack([base.flatten(), other.flatten()]))[0, 1]) < 0.015

    def test_row_alone_draws_the_same(self) -> None:
        """A row's numbers don't depend on which rows are beside it."""
        assert torch.equal(
            draw(3, 10, 5)[4:5],
            uniform(3, torch.tensor([4]), torch.tensor([0]), torch.arange(5)[None]),
        )


class TestCategorical:
    def test_frequencies(self) -> None:
        """Draws follow softmax(logits) (chi-square), and tokens of −inf never come."""
        logits = torch.tensor([0.0, 1.0, -torch.inf, 2.0]).expand(40_000, 4)
        counts = torch.bincount(categorical(logits, draw(1, 1, 40_000)[0]), minlength=4).double()
        assert counts[2] == 0
        expected = torch.softmax(logits[0].double(), -1) * 40_000
        kept = [0, 1, 3]
        assert (
            stats.chisquare(
                counts[kept].numpy(),
                expected[kept].numpy() * counts.sum().item() / expected.sum().item(),
            ).pvalue
            > 0.01
        )

    def test_ends(self) -> None:
        """The extreme uniforms give the first and the last possible token."""
        logits = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]] * 2)
        assert categorical(
            logits, torch.tensor([1e-17, 1 - 1e-16], dtype=torch.float64)
        ).tolist() == [1, 2]

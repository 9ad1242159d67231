"""Random draws by question: what identifies a row, and that every kind of model and sampler that
draws goes by it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pbcore import decode, load_model, load_task
from pbcore.models.base import Generation
from pbcore.models.counter_rng import uniform
from pbcore.tasks.base import Sample

DRAWING = [
    ("ideal", "random-k2"),
    ("ideal", "confidence-k4"),  # its noise breaks ties
    ("ideal", "confidence-k2+t1.0"),
    ("ideal", "random-k2+remdm1"),
    ("tiny", "random-k2"),
    ("tiny", "confidence-k2+t1.0"),
    ("tiny-block", "confidence-k1+t1.0"),
    ("tiny-ar", "ar+t1.0"),
    ("tiny-sedd", "analytic-s8"),
    ("tiny-sedd-uniform", "euler-s8"),
]


class TestKey:
    def test_known_value(self) -> None:
        """The same in every process and on every machine."""
        sample = Sample("waiting_line/copy", 7, (), {}, "x", 8, seed=3)
        assert sample.key == 2707512548497971

    def test_all_differ(self) -> None:
        """Task, seed and index tell rows apart, also where their digits run together."""
        keys = set()
        for task in ("a/b", "a/b1", "a/b\0"):
            for seed in range(12):
                for index in range(12):
                    keys.add(Sample(task, index, (), {}, "x", 8, seed=seed).key)
        assert len(keys) == 3 * 12 * 12

    def test_range(self) -> None:
        """A whole number that int64 holds without a sign, as on every device."""
        keys = [Sample("a/b", index, (), {}, "x", 8).key for index in range(2000)]
        assert 0 <= min(keys) < 1 << 56
        assert 1 << 62 < max(keys) < 1 << 63
        assert torch.tensor(keys).dtype == torch.long

    def test_tasks_draw_independently(self) -> None:
        """Question i of one task says nothing of question i of another."""
        draws = []
        for task in ("waiting_line/copy", "waiting_line/sort"):
            keys = [Sample(task, index, (), {}, "x", 8).key for index in range(4000)]
            key = torch.tensor(keys)
            zero = torch.zeros_like(key)
            draws.append(uniform(0, key, zero, zero[:, None])[:, 0])
        assert abs(float(torch.corrcoef(torch.stack(draws))[0, 1])) < 0.05

    @pytest.mark.parametrize("limit", [2, 40])
    def test_of_a_task(self, limit: int) -> None:
        """The generated question's number and the data's seed, for every limit."""
        sample = load_task("waiting_line/shuffle", seed=5, limit=limit).samples[1]
        assert (sample.index, sample.seed) == (1, 5)
        assert sample.key == Sample("waiting_line/shuffle", 1, (), {}, "x", 8, seed=5).key

    def test_of_prompts(self) -> None:
        """A prompt that is no Sample goes by its place in the list."""
        model = load_model("tiny")
        ids = model.encode(load_task("waiting_line/copy", limit=1).samples[0], 32, 0).prompt_ids
        both = decode(model, [ids, ids], "random-k2", 32)
        assert both[0].token_ids == decode(model, [ids], "random-k2", 32)[0].token_ids
        assert both[0].steps != both[1].steps


@pytest.mark.parametrize(("model", "sampler"), DRAWING)
def test_draws_go_by_the_question(model: str, sampler: str) -> None:
    """The same question of data of another seed is drawn anew; order and what else is decoded
    change nothing.
    """
    loaded = load_model(model)
    task = "list_ops/shuffle" if "sedd" in model else "waiting_line/shuffle"
    samples = load_task(task, n=5, limit=2).samples
    others = [replace(sample, seed=1) for sample in samples]
    alone = decode(loaded, samples, sampler, batch_size=1)
    together = decode(loaded, [*others, *samples[::-1]], sampler)
    assert [decoded(one) for one in together[2:]] == [decoded(one) for one in alone[::-1]]
    assert [decoded(one) for one in together[:2]] != [decoded(one) for one in alone]


def decoded(generation: Generation) -> tuple[object, ...]:
    return generation.token_ids, generation.steps

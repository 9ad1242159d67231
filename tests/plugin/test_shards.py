"""Shards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pbcore.decoding.samplers import sampler_of
from pbcore.grid.cellid import CellName
from pbcore.plugin.collection import shard_of

cells = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 30)), unique=True, max_size=60
).map(
    lambda pairs: [
        CellName(model, "waiting_line/copy", sampler_of(f"random-k{k}")) for model, k in pairs
    ]
)


class TestShardOf:
    @given(cells, st.integers(1, 9))
    def test_every_cell_is_in_exactly_one_shard(self, names: list[CellName], shards: int) -> None:
        """Shards are disjoint and together give all cells."""
        parts = [shard_of(names, number, shards) for number in range(1, shards + 1)]
        assert sum(map(len, parts)) == len(names)
        assert set().union(*parts) == set(names)

    @given(cells, st.integers(1, 9))
    def test_models_stay_whole_while_there_are_enough(
        self, names: list[CellName], shards: int
    ) -> None:
        """With as many models as shards no model is loaded by two; with fewer, no shard loads two
        models.
        """
        models = {name.model for name in names}
        parts = [
            {name.model for name in shard_of(names, number, shards)}
            for number in range(1, shards + 1)
        ]
        if len(models) >= shards:
            assert sum(map(len, parts)) == len(models)
        else:
            assert all(len(part) <= 1 for part in parts)

    @given(cells, st.integers(1, 9))
    def test_the_order_of_collection_decides_nothing_between_models(
        self, names: list[CellName], shards: int
    ) -> None:
        """Two machines that collect the models in another order agree on every shard."""
        by_model = sorted(names, key=lambda name: name.model)
        other = sorted(names, key=lambda name: name.model, reverse=True)
        for number in range(1, shards + 1):
            assert shard_of(by_model, number, shards) == shard_of(other, number, shards)

    def test_the_cells_of_one_model_are_shared_out_evenly(self) -> None:
        """One model of ten cells over three shards: four, three and three."""
        names = [CellName("a", "waiting_line/copy", sampler_of(f"random-k{k}")) for k in range(10)]
        assert [len(shard_of(names, number, 3)) for number in (1, 2, 3)] == [4, 3, 3]

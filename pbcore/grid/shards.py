"""The parts of a run's cells for several machines, `--shard I/N`."""

from collections.abc import Sequence

from pbcore.grid.cellid import CellName


def shard_of(cells: Sequence[CellName], number: int, shards: int) -> set[CellName]:
    """The cells of shard `number` (1-based) of `shards`.

    While there are models enough, each model goes whole to the shard with the fewest cells so far, biggest model first;
    with fewer models than shards, every model gets a fair number of shards of its own, which take its cells in turns.
    """
    by_model: dict[str, list[CellName]] = {}
    for cell in cells:
        by_model.setdefault(cell.model, []).append(cell)
    models = sorted(by_model, key=lambda model: (-len(by_model[model]), model))
    if not models:
        return set()
    if len(models) >= shards:
        loads: list[list[CellName]] = [[] for _ in range(shards)]
        for model in models:
            min(loads, key=len).extend(by_model[model])
        return set(loads[number - 1])
    parts = dict.fromkeys(models, 1)
    for _ in range(shards - len(models)):
        parts[max(models, key=lambda model: len(by_model[model]) / parts[model])] += 1
    places = [(model, part) for model in models for part in range(parts[model])]
    model, part = places[number - 1]
    return set(by_model[model][part :: parts[model]])

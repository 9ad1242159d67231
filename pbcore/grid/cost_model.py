"""A cell's relative cost, estimated from its name and samples alone."""

from __future__ import annotations

import re
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING

from pbcore.grid.cellid import CellName
from pbcore.grid.cost import Forwards, forwards
from pbcore.grid.plan import Plan, masked_tokens

if TYPE_CHECKING:
    from collections.abc import Callable

SPEED = 7e10  # floating-point operations a second: only the ratio between models matters
LEAST = 2e-4  # seconds of a forward whatever the model, about
TOKEN = re.compile(r"[^\W\d_]+|\d|_|[^\w\s]+|\n")  # words, digits, runs of signs, line ends: about a tokenizer's tokens
SEEN = 20  # samples of a task that are looked at


def weights(plan: Plan, number: Callable[[Forwards], float] = attrgetter("guess")) -> Callable[[CellName], float]:
    """Cell → samples × forwards × what a forward of its model costs over prompt and answer.

    `number` says which number of forwards is meant where the sampler decides it itself.
    """

    def weight(cell: CellName) -> float:
        from pbcore.names import parse

        samples = plan.task(cell.task, cell.model).samples
        if cell.sample is not None or not samples:
            return 1.0
        name, total = parse(cell.sampler), 0.0
        for sample, columns in zip(samples, prompts(cell.task, cell.model), strict=False):
            tokens = max(1, masked_tokens(sample))
            total += number(forwards(name, tokens)) * seconds(cell.model, columns + tokens)
        return total * len(samples) / len(samples[:SEEN]) * len(plan.settings.seed)

    @cache
    def prompts(task: str, model: str) -> list[int]:
        seen = plan.task(task, model).samples[:SEEN]
        return [sum(len(TOKEN.findall(message["content"])) for message in sample.messages) for sample in seen]

    return weight


def seconds(model: str, columns: int) -> float:
    """A forward of one row of so many columns: two operations a parameter and column. The rest, such as attention over
    a few hundred columns, is small beside it.
    """
    return LEAST + 2 * size(model) * columns / SPEED


@cache
def size(model: str) -> float:
    """The number of parameters, about; 0 for a model without weights, or whose size isn't known before it is loaded."""
    from pbcore.models import resolve_model

    entry = resolve_model(model)
    if entry.folder is None:
        return 0.0
    stored = sum(file.stat().st_size for file in entry.folder.glob("*.safetensors"))
    return stored / 2  # in 16 bits, mostly

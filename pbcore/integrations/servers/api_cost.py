"""What a run will ask of servers, and what that can cost, known without asking them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pbcore.errors import InputError
from pbcore.grid.cellid import CellName
from pbcore.grid.plan import Plan
from pbcore.integrations.servers.options import ServerOptions
from pbcore.integrations.servers.spec import server_specs

if TYPE_CHECKING:
    from pbcore.integrations.servers.money import Estimate
    from pbcore.integrations.servers.reply import Ask
    from pbcore.integrations.servers.spec import ServerSpec

Kept = Callable[[CellName], Iterable[str]]


def server_models(names: Iterable[CellName]) -> dict[str, ServerSpec]:
    """The models behind servers among these cells, by name."""
    specs = server_specs()
    return {model: specs[model] for model in dict.fromkeys(name.model for name in names) if model in specs}


def requests(plan: Plan, name: CellName, spec: ServerSpec) -> Iterator[Ask]:
    """What a cell, or a sample in the drill-down, asks."""
    from pbcore.integrations.servers.reply import ask_of
    from pbcore.names import parse

    numbers = plan.settings.sample if name.sample is None else (name.sample,)
    sampler = parse(name.sampler)
    for seed in plan.settings.seed:
        for sample in plan.task(name.task, name.model).samples:
            if not numbers or sample.index in numbers:
                yield ask_of(spec, sample.messages, sample, sampler, None, seed, sample.index)


def estimates(plan: Plan, names: Iterable[CellName], kept: Kept = lambda name: ()) -> dict[str, Estimate]:
    """Model → what its cells will take, without the answers whose digests `kept` gives. Asks nothing of the network."""
    from pbcore.integrations.servers.money import estimate

    cells = list(names)
    found = {}
    for model, spec in server_models(cells).items():
        mine = [(name, set(kept(name))) for name in cells if name.model == model]
        found[model] = estimate(
            spec, (ask for name, known in mine for ask in requests(plan, name, spec) if ask.digest(spec) not in known)
        )
    return found


def estimate_lines(plan: Plan, names: Iterable[CellName], kept: Kept = lambda name: ()) -> list[str]:
    """`estimates` in words, a line per model; none without models behind servers."""
    from pbcore.integrations.servers.money import usd_text

    found = estimates(plan, names, kept)
    lines = [f"{model}: {estimate}" for model, estimate in found.items()]
    known = [one.usd for one in found.values() if one.usd is not None]
    if len(found) > 1 and known:
        lines.append(f"in all, as far as prices are declared: at most about {usd_text(sum(known))}")
    return lines


def check_limit(plan: Plan, names: Iterable[CellName]) -> None:
    """Raises InputError if --max-cost is to limit what has no price."""
    if plan.settings.part(ServerOptions).max_cost is None:
        return
    for model, spec in server_models(names).items():
        if spec.prices is None and spec.key is not None:
            raise InputError(
                f"--max-cost: {model} has no prices, so its cost can't be limited; declare them in a file of --models, "
                f"`{model}: {{prices: {{input: …, output: …}}}}` in USD per million tokens"
            )

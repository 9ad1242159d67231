"""What a run will ask of servers, and what that can cost, known without asking them."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from pbcore.errors import InputError
from pbcore.grid.cellid import CellName
from pbcore.grid.plan import Plan
from pbcore.integrations.servers.options import ServerOptions
from pbcore.integrations.servers.reply import Ask, ask_of
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.names import parse
from pbcore.printable import counted

CHARACTERS_PER_TOKEN = 4  # of an English prompt


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a model's requests will take: about `tokens_in`, at most `tokens_out`, at most `usd` (None: no prices)."""

    requests: int
    tokens_in: int
    tokens_out: int
    usd: float | None

    def __str__(self) -> str:
        money = "price unknown" if self.usd is None else f"at most about {usd_text(self.usd)}"
        return (
            f"{counted(self.requests, 'request')}, about {counted(self.tokens_in, 'prompt token')}, at most "
            f"{self.tokens_out:,} answer tokens: {money}"
        )


def usd_text(usd: float) -> str:
    """An amount with two decimals, or below a cent with as many as its first two digits need: 1.50 USD, 0.00012 USD."""
    return f"{usd:.2f} USD" if usd >= 0.01 or usd == 0 else f"{usd:.{1 - math.floor(math.log10(usd))}f} USD"


def estimate(spec: ServerSpec, asks: Iterable[Ask]) -> Estimate:
    """From the prompts' characters and the limit of the answers; asks nobody."""
    requests = tokens_in = tokens_out = 0
    for ask in asks:
        requests += 1
        tokens_in += sum(len(message["content"]) for message in ask.messages) // CHARACTERS_PER_TOKEN
        tokens_out += ask.max_tokens
    return Estimate(requests, tokens_in, tokens_out, spec.usd(tokens_in, tokens_out))


def estimate_lines(
    plan: Plan, names: Iterable[CellName], specs: Collection[ServerSpec], kept: Callable[[CellName], Collection[str]]
) -> list[str]:
    """A line per model on what its cells will take, without the answers whose digests `kept` gives.

    Raises InputError if --max-cost is to limit what has no price.
    """
    cells = [(name, set(kept(name))) for name in names]
    found: dict[str, Estimate] = {}
    for spec in specs:
        if spec.prices is None and spec.key is not None and plan.settings.part(ServerOptions).max_cost is not None:
            raise InputError(
                f"--max-cost: {spec.name} has no prices, so its cost can't be limited; declare them in a file of "
                f"--models, `{spec.name}: {{prices: {{input: …, output: …}}}}` in USD per million tokens"
            )
        asks = ((ask, known) for name, known in cells if name.model == spec.name for ask in _asks(plan, name, spec))
        found[spec.name] = estimate(spec, (ask for ask, known in asks if ask.digest(spec) not in known))
    lines = [f"{model}: {one}" for model, one in found.items()]
    priced = [one.usd for one in found.values() if one.usd is not None]
    if len(found) > 1 and priced:
        lines.append(f"in all, as far as prices are declared: at most about {usd_text(sum(priced))}")
    return lines


def _asks(plan: Plan, name: CellName, spec: ServerSpec) -> Iterator[Ask]:
    """What a cell, or a sample in the drill-down, asks."""
    numbers = plan.settings.sample if name.sample is None else (name.sample,)
    sampler = parse(name.sampler)
    for seed in plan.settings.seed:
        for sample in plan.task(name.task, name.model).samples:
            if not numbers or sample.index in numbers:
                yield ask_of(spec, sample, sampler, None, seed)

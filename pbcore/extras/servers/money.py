"""What answers cost: the estimate before a run, known without asking servers, and the limit that no
run exceeds.
"""

import json
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.extras.servers.options import ServerOptions
from pbcore.extras.servers.reply import Ask, ask_of
from pbcore.extras.servers.spec import ServerSpec
from pbcore.grid.cellid import CellName
from pbcore.grid.plan import Plan
from pbcore.models.errors import ModelError

CHARACTERS_PER_TOKEN = 4  # of an English prompt
PER_MESSAGE = 16  # tokens that a chat template may add to a message, at most
WAIT_SECONDS = 0.05  # between two looks at the reserves of requests under way
ROUNDING = 1e-9  # USD


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a model's requests will take: about `tokens_in`, at most `tokens_out`, at most `usd`
    (None: no prices).
    """

    requests: int
    tokens_in: int
    tokens_out: int
    usd: float | None

    def __str__(self) -> str:
        money = "price unknown" if self.usd is None else f"at most about {usd_text(self.usd)}"
        return (
            f"{counted(self.requests, 'request')}, about {counted(self.tokens_in, 'prompt token')},"
            f" at most {self.tokens_out:,} answer tokens: {money}"
        )


def usd_text(usd: float) -> str:
    """An amount with two decimals, or below a cent with as many as its first two digits need: 1.50
    USD, 0.00012 USD.
    """
    if usd >= 0.01 or usd == 0:
        return f"{usd:.2f} USD"
    decimals = 1 - math.floor(math.log10(usd))
    return f"{usd:.{decimals}f} USD"


def estimate(spec: ServerSpec, asks: Iterable[Ask]) -> Estimate:
    """From the prompts' characters and the limit of the answers; asks nobody."""
    requests = tokens_in = tokens_out = 0
    for ask in asks:
        requests += 1
        characters = sum(len(message["content"]) for message in ask.messages)
        tokens_in += characters // CHARACTERS_PER_TOKEN
        tokens_out += ask.max_tokens
    return Estimate(requests, tokens_in, tokens_out, spec.usd(tokens_in, tokens_out))


def estimate_lines(
    plan: Plan,
    names: Iterable[CellName],
    specs: Collection[ServerSpec],
    kept: Callable[[CellName], Collection[str]],
) -> list[str]:
    """A line per model on the tokens and the cost of its cells, and one on all of them.

    Args:
        plan: what is run.
        names: the cells.
        specs: the servers.
        kept: the digests of a cell's requests that are answered already; they are left out.

    Raises:
        InputError: if --max-cost is to limit a model without prices.
    """
    cells = [(name, set(kept(name))) for name in names]
    limited = plan.settings.part(ServerOptions).max_cost is not None
    estimates: dict[str, Estimate] = {}
    for spec in specs:
        if spec.prices is None and spec.key is not None and limited:
            raise InputError(
                f"--max-cost: {spec.name} has no prices, so its cost can't be limited; declare them"
                f" in a file of --models, `{spec.name}: {{prices: {{input: …, output: …}}}}` in USD"
                " per million tokens"
            )
        asks: list[Ask] = []
        for name, answered in cells:
            if name.model == spec.name:
                asks.extend(
                    ask for ask in _asks(plan, name, spec) if ask.digest(spec) not in answered
                )
        estimates[spec.name] = estimate(spec, asks)
    lines = [f"{model}: {of_model}" for model, of_model in estimates.items()]
    priced = [of_model.usd for of_model in estimates.values() if of_model.usd is not None]
    if len(estimates) > 1 and priced:
        lines.append(
            f"in all, as far as prices are declared: at most about {usd_text(sum(priced))}"
        )
    return lines


def _asks(plan: Plan, name: CellName, spec: ServerSpec) -> Iterator[Ask]:
    """What a cell, or a sample in the drill-down, asks."""
    numbers = plan.settings.sample if name.sample is None else (name.sample,)
    for seed in plan.settings.seed:
        for sample in plan.task_of(name).samples:
            if not numbers or sample.index in numbers:
                yield ask_of(spec, sample, name.sampler.name, None, seed)


class CostLimitError(ModelError):
    """The next request could exceed --max-cost."""


def most(spec: ServerSpec, ask: Ask) -> float:
    """USD that one answer can cost at most: no tokenizer makes more tokens of a text than it has
    bytes.
    """
    tokens = len(ask.ids)
    if not ask.ids:
        tokens = sum(len(message["content"].encode()) + PER_MESSAGE for message in ask.messages)
    return spec.usd(tokens, ask.max_tokens) or 0.0


@dataclass(slots=True)
class Balance:
    """USD of a run: `spent` on answers that came, and per process `reserved` for requests under
    way.
    """

    spent: float = 0.0
    reserved: dict[int, float] = field(default_factory=dict)

    @property
    def taken(self) -> float:
        return self.spent + sum(self.reserved.values())

    def reserve(self, amount: float) -> None:
        """Reserves more, or less, for this process; rounding leaves no reserve behind."""
        mine = self.reserved.pop(os.getpid(), 0.0) + amount
        if mine >= ROUNDING:
            self.reserved[os.getpid()] = mine


class Budget:
    """A limit in USD for a run, over all its processes and what earlier ones of it have spent. A
    request reserves what it can cost at most before it is sent, so that the limit holds; where only
    the reserves of requests under way are in its way, it waits for them. `ledger` is a file shared
    by workers (None: this process alone).
    """

    def __init__(self, limit: float, ledger: Path | None = None) -> None:
        from filelock import FileLock

        self.limit = limit
        self._ledger = ledger
        self._balance = Balance()
        self._threads = threading.Lock()
        self._processes: Any = nullcontext() if ledger is None else FileLock(f"{ledger}.lock")

    def begin(self, spent: float) -> None:
        """Sets what is spent, once for a run, before its first request."""
        with self._held() as balance:
            balance.spent = spent
            balance.reserved = {}

    def balance(self) -> Balance:
        """Spent and reserved by now."""
        with self._held() as balance:
            return balance

    def reserve(self, amount: float, spec: ServerSpec, stop: threading.Event | None = None) -> bool:
        """Reserves the most that a request may cost; waits while requests under way leave no room.

        Args:
            amount: USD.
            spec: the server, named in the error.
            stop: ends the waiting once it is set.

        Returns:
            Whether the amount is reserved; False only after `stop`.

        Raises:
            CostLimitError: if the amount exceeds what is left even without the requests under way.
        """
        while not (stop is not None and stop.is_set()):
            with self._held() as balance:
                if balance.taken + amount <= self.limit + ROUNDING:
                    balance.reserve(amount)
                    return True
                if not balance.reserved:
                    left = self.limit - balance.spent
                    raise CostLimitError(
                        f"--max-cost {self.limit:g}: {balance.spent:.4f} USD are spent in this run,"
                        f" no request is under way, {left:.4f} USD are left, and the next answer of"
                        f" {spec.name} may cost {amount:.4f}; raise --max-cost and use --resume"
                    )
            time.sleep(WAIT_SECONDS)
        return False

    def settle(self, reserved: float, spent: float | None) -> None:
        """Puts back what a request didn't need. Without a count of tokens the whole reserve is
        taken as spent.
        """
        with self._held() as balance:
            balance.reserve(-reserved)
            balance.spent += reserved if spent is None else spent

    @contextmanager
    def _held(self) -> Iterator[Balance]:
        """The balance, for this thread alone, and kept as it is left; reserves of processes that
        are gone are spent.
        """
        with self._threads, self._processes:
            if self._ledger is not None and self._ledger.is_file():
                kept = json.loads(self._ledger.read_text(encoding="utf-8"))
                reserved = {int(pid): usd for pid, usd in kept["reserved"].items()}
                self._balance = Balance(kept["spent"], reserved)
            balance = self._balance
            for pid in list(balance.reserved):
                if not psutil.pid_exists(pid):
                    balance.spent += balance.reserved.pop(pid)
            yield balance
            if self._ledger is not None:
                self._ledger.write_text(json.dumps(asdict(balance)), "utf-8")

"""What answers cost: each one's price, the estimate before a run, and the limit that no run exceeds."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Iterable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from pbcore.integrations.servers.reply import Ask, Reply
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from pbcore.printable import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

MILLION = 1_000_000
CHARACTERS_PER_TOKEN = 4  # of an English prompt, for estimates
PER_MESSAGE = 16  # tokens that a chat template may add to a message, at most
WAIT_SECONDS = 0.05  # between two looks at the reserves of requests under way
ROUNDING = 1e-9  # USD


class CostLimitError(ModelError):
    """The next request could exceed --max-cost."""


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
            f"{self.tokens_out:,} answer "
            f"tokens: {money}"
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
    return Estimate(requests, tokens_in, tokens_out, _usd(spec, tokens_in, tokens_out))


def cost(spec: ServerSpec, reply: Reply) -> float | None:
    """USD of one answer by the server's counts; None without prices or counts."""
    if reply.tokens_in is None or reply.tokens_out is None:
        return None
    return _usd(spec, reply.tokens_in, reply.tokens_out)


def most(spec: ServerSpec, ask: Ask) -> float:
    """USD that one answer can cost at most: no tokenizer makes more tokens of a text than it has bytes."""
    tokens = sum(len(message["content"].encode()) + PER_MESSAGE for message in ask.messages)
    return _usd(spec, tokens, ask.max_tokens) or 0.0


def _usd(spec: ServerSpec, tokens_in: int, tokens_out: int) -> float | None:
    if spec.prices is None:
        return None
    return (tokens_in * spec.prices.input + tokens_out * spec.prices.output) / MILLION


@dataclass(frozen=True, slots=True)
class Balance:
    """USD of a run: `spent` on answers that came, and per process `reserved` for requests under way."""

    spent: float
    reserved: dict[int, float]

    @property
    def taken(self) -> float:
        return self.spent + sum(self.reserved.values())


class Budget:
    """A limit in USD for a run, over all its processes and what earlier ones of it have spent.

    A request reserves what it can cost at most before it is sent, so that the limit holds; where only the reserves of
    requests under way are in its way, it waits for them. `ledger` is a file shared by workers (None: this process
    alone).
    """

    def __init__(self, limit: float, ledger: Path | None = None) -> None:
        self.limit, self._ledger = limit, ledger
        self._balance = Balance(0.0, {})
        self._lock = threading.Lock()

    def begin(self, spent: float) -> None:
        """Sets what is spent, once for a run, before its first request."""
        with self._held():
            self._write(Balance(spent, {}))

    def balance(self) -> Balance:
        """Spent and reserved by now."""
        with self._held():
            return self._read()

    def reserve(self, amount: float, spec: ServerSpec, stop: threading.Event | None = None) -> bool:
        """Whether the amount is reserved; it is not if `stop` is set while it waits for requests under way. Raises
        CostLimitError if it exceeds the limit also when these cost nothing.
        """
        while not (stop is not None and stop.is_set()):
            with self._held():
                balance = self._read()
                if balance.taken + amount <= self.limit + ROUNDING:
                    self._write(_reserving(balance, amount))
                    return True
                if not balance.reserved:
                    left = self.limit - balance.spent
                    raise CostLimitError(
                        f"--max-cost {self.limit:g}: {balance.spent:.4f} USD are spent in this run, no request is "
                        f"under way, {left:.4f} USD are left, and the next answer of {spec.name} may cost "
                        f"{amount:.4f}; raise --max-cost and use --resume"
                    )
            time.sleep(WAIT_SECONDS)
        return False

    def settle(self, reserved: float, spent: float | None) -> None:
        """Puts back what a request didn't need. Without a count of tokens the whole reserve is taken as spent."""
        with self._held():
            balance = _reserving(self._read(), -reserved)
            self._write(Balance(balance.spent + (reserved if spent is None else spent), balance.reserved))

    @contextmanager
    def _held(self) -> Iterator[None]:
        from filelock import FileLock

        between: Any = nullcontext() if self._ledger is None else FileLock(f"{self._ledger}.lock")
        with self._lock, between:
            yield

    def _read(self) -> Balance:
        """What is known, the reserves of processes that are gone taken as spent."""
        if self._ledger is not None and self._ledger.is_file():
            kept = json.loads(self._ledger.read_text(encoding="utf-8"))
            self._balance = Balance(kept["spent"], {int(pid): usd for pid, usd in kept["reserved"].items()})
        gone = [pid for pid in self._balance.reserved if not psutil.pid_exists(pid)]
        lost = sum(self._balance.reserved[pid] for pid in gone)
        left = {pid: usd for pid, usd in self._balance.reserved.items() if pid not in gone}
        return Balance(self._balance.spent + lost, left)

    def _write(self, balance: Balance) -> None:
        self._balance = balance
        if self._ledger is not None:
            self._ledger.write_text(json.dumps({"spent": balance.spent, "reserved": balance.reserved}), "utf-8")


def _reserving(balance: Balance, amount: float) -> Balance:
    """With `amount` more, or less, reserved by this process; rounding leaves no reserve behind."""
    mine = balance.reserved.get(os.getpid(), 0.0) + amount
    others = {pid: usd for pid, usd in balance.reserved.items() if pid != os.getpid()}
    return Balance(balance.spent, others if mine < ROUNDING else {**others, os.getpid(): mine})

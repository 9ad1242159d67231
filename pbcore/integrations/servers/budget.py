"""The limit in USD that no run exceeds."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from pbcore.integrations.servers.reply import Ask
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError

PER_MESSAGE = 16  # tokens that a chat template may add to a message, at most
WAIT_SECONDS = 0.05  # between two looks at the reserves of requests under way
ROUNDING = 1e-9  # USD


class CostLimitError(ModelError):
    """The next request could exceed --max-cost."""


def most(spec: ServerSpec, ask: Ask) -> float:
    """USD that one answer can cost at most: no tokenizer makes more tokens of a text than it has bytes."""
    tokens = sum(len(message["content"].encode()) + PER_MESSAGE for message in ask.messages)
    return spec.usd(tokens, ask.max_tokens) or 0.0


@dataclass(slots=True)
class Balance:
    """USD of a run: `spent` on answers that came, and per process `reserved` for requests under way."""

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
    """A limit in USD for a run, over all its processes and what earlier ones of it have spent.

    A request reserves what it can cost at most before it is sent, so that the limit holds; where only the reserves of
    requests under way are in its way, it waits for them. `ledger` is a file shared by workers (None: this process
    alone).
    """

    def __init__(self, limit: float, ledger: Path | None = None) -> None:
        from filelock import FileLock

        self.limit, self._ledger, self._balance = limit, ledger, Balance()
        self._threads = threading.Lock()
        self._processes: Any = nullcontext() if ledger is None else FileLock(f"{ledger}.lock")

    def begin(self, spent: float) -> None:
        """Sets what is spent, once for a run, before its first request."""
        with self._held() as balance:
            balance.spent, balance.reserved = spent, {}

    def balance(self) -> Balance:
        """Spent and reserved by now."""
        with self._held() as balance:
            return balance

    def reserve(self, amount: float, spec: ServerSpec, stop: threading.Event | None = None) -> bool:
        """Whether the amount is reserved; it is not if `stop` is set while it waits for requests under way. Raises
        CostLimitError if it exceeds the limit also when these cost nothing.
        """
        while not (stop is not None and stop.is_set()):
            with self._held() as balance:
                if balance.taken + amount <= self.limit + ROUNDING:
                    balance.reserve(amount)
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
        with self._held() as balance:
            balance.reserve(-reserved)
            balance.spent += reserved if spent is None else spent

    @contextmanager
    def _held(self) -> Iterator[Balance]:
        """The balance, for this thread alone, and kept as it is left; reserves of processes that are gone are spent."""
        with self._threads, self._processes:
            if self._ledger is not None and self._ledger.is_file():
                kept = json.loads(self._ledger.read_text(encoding="utf-8"))
                self._balance = Balance(kept["spent"], {int(pid): usd for pid, usd in kept["reserved"].items()})
            balance = self._balance
            for pid in [pid for pid in balance.reserved if not psutil.pid_exists(pid)]:
                balance.spent += balance.reserved.pop(pid)
            yield balance
            if self._ledger is not None:
                self._ledger.write_text(json.dumps(asdict(balance)), "utf-8")

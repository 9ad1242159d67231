"""What answers cost: each one's price, the estimate before a run, and the limit that no run exceeds."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbcore.integrations.servers.reply import Ask, Reply
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

MILLION = 1_000_000
CHARACTERS_PER_TOKEN = 4  # of an English prompt, for estimates
PER_MESSAGE = 16  # tokens that a chat template may add to a message, at most


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
        money = "price unknown" if self.usd is None else f"at most about {self.usd:.2f} USD"
        return (
            f"{self.requests:,} requests, about {self.tokens_in:,} prompt tokens, at most {self.tokens_out:,} answer "
            f"tokens: {money}"
        )


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


class Budget:
    """A limit in USD for a run, over all its processes and what earlier ones of it have spent.

    A request reserves what it can cost at most before it is sent, so that the limit holds; `ledger` is a file with the
    sum, shared by workers (None: this process alone).
    """

    def __init__(self, limit: float, ledger: Path | None = None) -> None:
        self.limit, self._ledger = limit, ledger
        self._sum = 0.0
        self._lock = threading.Lock()

    def begin(self, spent: float) -> None:
        """Sets the sum, once for a run, before its first request."""
        with self._held():
            self._write(spent)

    def reserve(self, amount: float, spec: ServerSpec) -> None:
        """Raises CostLimitError if this would exceed the limit."""
        with self._held():
            taken = self._read()
            if taken + amount > self.limit:
                raise CostLimitError(
                    f"--max-cost {self.limit:g}: {taken:.4f} USD are spent in this run, and the next answer of "
                    f"{spec.name} may cost {amount:.4f}; raise --max-cost and use --resume"
                )
            self._write(taken + amount)

    def settle(self, reserved: float, spent: float | None) -> None:
        """Puts back what a request didn't need. Without a count of tokens the whole reserve is taken as spent."""
        with self._held():
            self._write(self._read() - reserved + (reserved if spent is None else spent))

    @contextmanager
    def _held(self) -> Iterator[None]:
        from filelock import FileLock

        between: Any = nullcontext() if self._ledger is None else FileLock(f"{self._ledger}.lock")
        with self._lock, between:
            yield

    def _read(self) -> float:
        if self._ledger is None or not self._ledger.is_file():
            return self._sum
        return float(self._ledger.read_text() or 0)

    def _write(self, value: float) -> None:
        self._sum = value
        if self._ledger is not None:
            self._ledger.write_text(repr(value))

"""The answers of one cell: on disk as they come, so that none is paid for twice, and what was measured of them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbcore.integrations.servers.budget import Budget
from pbcore.integrations.servers.record import Served, served
from pbcore.integrations.servers.reply import Reply
from pbcore.integrations.servers.spec import ServerSpec

if TYPE_CHECKING:
    from pbcore.results.record import SampleRecord


class AnswerStore:
    """The answers of one cell, by the digest of what was asked; `path` None keeps them in memory only.

    The file is only ever appended to, a JSON line at a time, on disk before `add` returns. A line that a crash cut
    short is left where it is and counts as not answered.
    """

    def __init__(self, path: Path | None, write: bool = True) -> None:
        self._path, self._write, self._lock = path, write, threading.Lock()
        self.known: dict[str, Reply] = {}
        for row in [] if path is None else lines(path):
            values = {f.name: row[f.name] for f in fields(Reply) if f.name in row}
            if isinstance(values.get("text"), str) and isinstance(values.get("outcomes"), list):
                lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
                self.known[row["key"]] = Reply(**{**values, **lists})

    def add(self, digest: str, reply: Reply, facts: Mapping[str, Any]) -> None:
        """Keeps an answer; `facts` (its cost, sample and seed) stand beside it in the file."""
        with self._lock:
            self.known[digest] = reply
            if self._path is None or not self._write:
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab+") as stream:
                if stream.tell():
                    stream.seek(-1, os.SEEK_END)
                torn = stream.read(1) not in (b"", b"\n")
                line = json.dumps({"key": digest, **facts, **asdict(reply)}, ensure_ascii=True)
                stream.write((b"\n" if torn else b"") + line.encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of answers, those that a crash cut short left out."""
    rows = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("key"), str):
            rows.append(row)
    return rows


@dataclass
class Session:
    """The requests of one cell (`plugin.hookspecs.Asked`): where answers are kept, what they may cost, and what was
    measured.

    `seconds` is wall-clock time of the requests, up to `concurrency` at once; `kept` counts answers that were on disk
    before. `settings` is how the server says that it decodes, `sent` the values of the fields that said the sampler.
    """

    spec: ServerSpec
    store: AnswerStore
    concurrency: int
    budget: Budget | None = None
    asked: int = 0
    kept: int = 0
    seconds: float = 0.0
    version: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    sent: dict[str, list[Any]] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)

    def rounds(self) -> list[float]:
        """The seconds of the requests; none if some answers were not asked for now."""
        return [] if self.kept else [self.seconds]

    def rates(self) -> dict[str, Any]:
        """Forwards by the server's own counters, over all requests together; empty where it has no such counters, or
        some answers were not asked for now.
        """
        steps = self.counters.get("denoising_steps", 0.0)
        if self.kept or not self.asked or steps <= 0:
            return {}
        tokens = self.counters.get("committed_tokens")
        return {"nfe_mean": steps / self.asked, "tokens_per_forward": None if tokens is None else tokens / steps}

    def absent(self) -> dict[str, str]:
        count = f"{self.kept} of {self.kept + self.asked} answers were kept from an earlier run"
        together = {"tokens_per_step": "the server counts the forwards of all requests together"}
        return ({"seconds": count} if self.kept else {}) | (together if self.rates() else {})

    def part(self, samples: Sequence[SampleRecord]) -> Served:
        """What the server reported."""
        names = ("concurrency", "asked", "kept", "version", "settings", "sent")
        counters = {name: max(0.0, float(value)) for name, value in self.counters.items()}
        facts = {name: getattr(self, name) for name in names}
        return served(samples, provider=self.spec.provider, kind=self.spec.kind, counters=counters, **facts)

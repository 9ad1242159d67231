"""Answers on disk as they come, one JSON line each, so that none is paid for twice."""

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pbcore.integrations.servers.reply import Reply

_NAMES = frozenset(f.name for f in fields(Reply))


class AnswerStore:
    """The answers of one cell, by the digest of what was asked; `path` None keeps them in memory only.

    The file is only ever appended to, a line at a time, on disk before `add` returns. A line that a crash cut short is
    left where it is and counts as not answered.
    """

    def __init__(self, path: Path | None, write: bool = True) -> None:
        self._path = path
        self._write = write and path is not None
        self._lock = threading.Lock()
        self.known: dict[str, Reply] = {} if path is None else _read(path)

    def add(self, digest: str, reply: Reply, facts: Mapping[str, Any]) -> None:
        """Keeps an answer; `facts` (its cost, sample and seed) stand beside it in the file."""
        with self._lock:
            self.known[digest] = reply
            if self._write and self._path is not None:
                _append(self._path, json.dumps({"key": digest, **facts, **asdict(reply)}, ensure_ascii=True))


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of answers, those that a crash cut short left out."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_bytes().split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("key"), str):
            rows.append(row)
    return rows


def _read(path: Path) -> dict[str, Reply]:
    replies = {}
    for row in lines(path):
        values = {name: row[name] for name in _NAMES if name in row}
        if isinstance(values.get("text"), str) and isinstance(values.get("outcomes"), list):
            lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            replies[row["key"]] = Reply(**{**values, **lists})
    return replies


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as stream:
        torn = stream.tell() > 0 and _last(path) != b"\n"
        stream.write((b"\n" if torn else b"") + line.encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def _last(path: Path) -> bytes:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1)

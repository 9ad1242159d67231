"""Verdicts cached on disk, for later runs and for other workers of this run."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from pbcore.metrics.languagetool.client import Match

CHUNK = 500
BUSY_LIMIT = 30.0


def key(text: str, identity: str, params: Mapping[str, str]) -> str:
    """The cache key of a text, the server's identity (version and rules), the language and the enabled rules."""
    return hashlib.sha256(json.dumps([text, identity, sorted(params.items())]).encode()).hexdigest()


class VerdictCache:
    """A SQLite file that several processes may use at once.

    If the file can't be used, it warns once and caches nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._owner = 0

    def get(self, keys: Iterable[str]) -> dict[str, list[Match]]:
        """The matches of each cached key; unknown keys are left out."""
        names = list(keys)
        cached: dict[str, list[Match]] = {}
        connection = self._open()
        if connection is None:
            return cached
        for start in range(0, len(names), CHUNK):
            part = names[start : start + CHUNK]
            rows = connection.execute(
                f"SELECT key, matches FROM verdicts WHERE key IN ({','.join('?' * len(part))})", part
            )
            cached |= {name: [Match(**match) for match in json.loads(matches)] for name, matches in rows}
        return cached

    def put(self, verdicts: Mapping[str, list[Match]]) -> None:
        connection = self._open()
        if connection is not None and verdicts:
            rows = [(name, json.dumps([asdict(match) for match in matches])) for name, matches in verdicts.items()]
            with connection:
                connection.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", rows)

    def close(self) -> None:
        if self._connection is not None and self._owner == os.getpid():
            self._connection.close()
        self._connection, self._owner = None, 0

    def __len__(self) -> int:
        connection = self._open()
        return 0 if connection is None else int(connection.execute("SELECT COUNT(*) FROM verdicts").fetchone()[0])

    def _open(self) -> sqlite3.Connection | None:
        """This process's connection; a SQLite connection must not be used after a fork."""
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection | None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=BUSY_LIMIT, check_same_thread=False)
            connection.execute(
                "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, matches TEXT NOT NULL) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            warnings.warn(
                f"grammar verdicts are not cached: {self.path} can't be used ({error}). Remove it, or set PBCORE_CACHE "
                "to another folder.",
                stacklevel=2,
            )
            return None
        return connection

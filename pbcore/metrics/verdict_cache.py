"""Verdicts cached on disk, for later runs and for other workers of this run."""

import json
import sqlite3
import warnings
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pbcore.metrics.languagetool import Match

TABLE = "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, matches TEXT NOT NULL) WITHOUT ROWID"
BUSY_LIMIT = 30.0


class VerdictCache:
    """A SQLite file that several processes may use at once. If it can't be used, it warns once and caches nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._usable = True

    def get(self, keys: Iterable[str]) -> dict[str, list[Match]]:
        """The matches of each cached key; unknown keys are left out."""
        rows = self._execute("SELECT key, matches FROM verdicts WHERE key = ?", ((name,) for name in keys))
        return {name: [Match(**match) for match in json.loads(matches)] for name, matches in rows}

    def put(self, verdicts: Mapping[str, list[Match]]) -> None:
        rows = ((name, json.dumps([asdict(match) for match in matches])) for name, matches in verdicts.items())
        self._execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", rows)

    def __len__(self) -> int:
        return sum(count for (count,) in self._execute("SELECT COUNT(*) FROM verdicts", [()]))

    def _execute(self, statement: str, rows: Iterable[tuple[str, ...]]) -> list[tuple[Any, ...]]:
        """The results of a statement for each row of values, in one transaction; none if the file can't be used. Opens
        a connection each time: none may be used after a fork."""
        if not self._usable:
            return []
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=BUSY_LIMIT)) as file, file:
                file.execute(TABLE)
                return [result for row in rows for result in file.execute(statement, row)]
        except (OSError, sqlite3.Error) as error:
            self._usable = False
            remedy = "Remove it, or set PBCORE_CACHE to another folder."
            warnings.warn(
                f"grammar verdicts are not cached: {self.path} can't be used ({error}). {remedy}", stacklevel=3
            )
            return []

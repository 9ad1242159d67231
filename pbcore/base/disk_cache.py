"""What takes long to find out and never changes, kept on disk for later runs and processes."""

import sqlite3
import warnings
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

BUSY_LIMIT = 30.0


class DiskCache:
    """Texts by key in a SQLite file that several processes may use at once. If it can't be used, it
    warns once and keeps nothing.
    """

    def __init__(self, path: Path, table: str, holds: str) -> None:
        """Opens nothing yet.

        Args:
            path: the file.
            table: the name of its table.
            holds: what is kept, in words, for the warning.
        """
        self.path = path
        self._table = table
        self._holds = holds
        self._usable = True

    def get(self, keys: Iterable[str]) -> dict[str, str]:
        """The text of each kept key; others are left out."""
        rows = [(key,) for key in keys]
        return dict(self._execute(f"SELECT * FROM {self._table} WHERE key = ?", rows))

    def put(self, texts: Mapping[str, str]) -> None:
        """Keeps texts by their keys."""
        self._execute(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", list(texts.items()))

    def __len__(self) -> int:
        return sum(count for (count,) in self._execute(f"SELECT COUNT(*) FROM {self._table}", [()]))

    def _execute(self, statement: str, rows: Iterable[tuple[str, ...]]) -> list[tuple[Any, ...]]:
        """The results of a statement for each row of values. Connects anew: none may be used after
        a fork.
        """
        if not self._usable:
            return []
        table = (
            f"CREATE TABLE IF NOT EXISTS {self._table} (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
            " WITHOUT ROWID"
        )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=BUSY_LIMIT)) as file, file:
                file.execute(table)
                return [result for row in rows for result in file.execute(statement, row)]
        except (OSError, sqlite3.Error) as error:
            self._usable = False
            remedy = "Remove it, or set PBCORE_CACHE to another folder."
            warnings.warn(
                f"{self._holds} are not cached: {self.path} can't be used ({error}). {remedy}",
                stacklevel=3,
            )
            return []

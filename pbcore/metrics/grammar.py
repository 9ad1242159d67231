"""The paper's grammar score: 1 if LanguageTool (en-US) reports no match, 0 if it reports one or the
answer is empty.

Verdicts are cached on disk, for later runs and for other workers of this run. `pbcore install
languagetool` installs the tool.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import sqlite3
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pbcore.base.cache_folder import cache_folder
from pbcore.metrics.languagetool import LanguageToolUnavailable, Match, install
from pbcore.metrics.languagetool.server import GrammarServer, SharedServer, UserServer

LANGUAGE = "en-US"
CACHE_FILE = "grammar.sqlite"
TABLE = (
    "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, matches TEXT NOT NULL) WITHOUT"
    " ROWID"
)
BUSY_LIMIT = 30.0


@dataclass(frozen=True, slots=True)
class GrammarVerdict:
    """The matches in one text; `problem` gives the reason if there is no verdict."""

    matches: tuple[Match, ...] = ()
    empty: bool = False
    problem: str = ""

    @property
    def score(self) -> float | None:
        """1.0, 0.0, or None without a verdict."""
        if self.problem:
            return None
        return float(not self.empty and not self.matches)


class VerdictCache:
    """A SQLite file that several processes may use at once. If it can't be used, it warns once and
    caches nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._usable = True

    def get(self, keys: Iterable[str]) -> dict[str, list[Match]]:
        """The matches of each cached key; unknown keys are left out."""
        rows = self._execute(
            "SELECT key, matches FROM verdicts WHERE key = ?", [(key,) for key in keys]
        )
        verdicts = {}
        for key, matches in rows:
            verdicts[key] = [Match(**match) for match in json.loads(matches)]
        return verdicts

    def put(self, verdicts: Mapping[str, Sequence[Match]]) -> None:
        rows = []
        for key, matches in verdicts.items():
            rows.append((key, json.dumps([asdict(match) for match in matches])))
        self._execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", rows)

    def __len__(self) -> int:
        return sum(count for (count,) in self._execute("SELECT COUNT(*) FROM verdicts", [()]))

    def _execute(self, statement: str, rows: Iterable[tuple[str, ...]]) -> list[tuple[Any, ...]]:
        """The results of a statement for each row of values. Connects anew: none may be used after
        a fork.
        """
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
                f"grammar verdicts are not cached: {self.path} can't be used ({error}). {remedy}",
                stacklevel=3,
            )
            return []


class Checker:
    """Checks texts with a server. Each text is sent once; verdicts of earlier checks are read from
    the cache, without a server.
    """

    def __init__(self, server: GrammarServer, cache: VerdictCache | None = None) -> None:
        self.server = server
        self._cache = cache
        self._gone = ""

    def check(self, texts: Sequence[str]) -> list[GrammarVerdict]:
        """One verdict per stripped text. Raises Unavailable if a server is needed and there is
        none, or none any more; once it has, it does so each time a server is needed.
        """
        stripped = [text.strip() for text in texts]
        keys = {}  # other versions, rules and languages have others
        for text in filter(None, stripped):
            facts = [text, self.server.identity, [["language", LANGUAGE]]]
            keys[text] = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        cached = self._cache.get(keys.values()) if self._cache is not None else {}
        verdicts = {
            text: GrammarVerdict(tuple(cached[key])) for text, key in keys.items() if key in cached
        }
        if new := sorted(keys.keys() - verdicts.keys()):
            for text, result in zip(new, self._request(new), strict=True):
                if isinstance(result, str):
                    verdicts[text] = GrammarVerdict(problem=result)
                else:
                    verdicts[text] = GrammarVerdict(tuple(result))
            if self._cache is not None:
                checked = [text for text in new if not verdicts[text].problem]
                self._cache.put({keys[text]: verdicts[text].matches for text in checked})
        return [verdicts[text] if text else GrammarVerdict(empty=True) for text in stripped]

    def _request(self, texts: list[str]) -> list[list[Match] | str]:
        from pbcore.metrics.languagetool.client import check_many

        if self._gone:
            raise LanguageToolUnavailable(self._gone)
        try:
            return check_many(self.server, texts, LANGUAGE)
        except LanguageToolUnavailable as error:
            self._gone = str(error)
            raise


def checker() -> Checker:
    """This process's checker: with the server of $PBCORE_LANGUAGETOOL_URL, else the run's own,
    started on first use. Where LanguageTool is not installed it is downloaded, unless
    $PBCORE_NO_DOWNLOAD is set. Raises Unavailable, saying what to do, if there is neither.
    """
    environment = tuple(os.environ.get(name, "") for name in install.VARIABLES)
    if not _CHECKERS:
        atexit.register(stop)
    if environment not in _CHECKERS:
        _CHECKERS[environment] = _made(environment[0])
    result = _CHECKERS[environment]
    if isinstance(result, LanguageToolUnavailable):
        raise LanguageToolUnavailable(str(result))
    return result


def available() -> bool:
    """Whether `checker()` can be had."""
    try:
        checker()
    except LanguageToolUnavailable:
        return False
    return True


def stop() -> None:
    """Releases this process's servers; the next `checker()` makes a new checker."""
    for made in _CHECKERS.values():
        if isinstance(made, Checker):
            made.server.stop()
    _CHECKERS.clear()


# By settings; without a server, why: it is looked for once and not again for every cell.
_CHECKERS: dict[tuple[str, ...], Checker | LanguageToolUnavailable] = {}


def _made(url: str) -> Checker | LanguageToolUnavailable:
    try:
        server: GrammarServer
        server = UserServer(url) if url else SharedServer(install.find_installation(download=True))
    except LanguageToolUnavailable as error:
        return error
    return Checker(server, VerdictCache(cache_folder() / CACHE_FILE))

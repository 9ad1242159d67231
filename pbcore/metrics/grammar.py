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
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pbcore.base.cache_folder import cache_folder
from pbcore.base.disk_cache import DiskCache
from pbcore.metrics.languagetool import LanguageToolUnavailable, Match, install
from pbcore.metrics.languagetool.server import GrammarServer, SharedServer, UserServer

LANGUAGE = "en-US"
CACHE_FILE = "grammar.sqlite"


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


def verdict_cache(path: Path) -> DiskCache:
    """A file of verdicts: the matches in each text, as JSON."""
    return DiskCache(path, "verdicts", "grammar verdicts")


class GrammarChecker:
    """Checks texts with a server. Each text is sent once; verdicts of earlier checks are read from
    the cache, without a server.
    """

    def __init__(self, server: GrammarServer, cache: DiskCache | None = None) -> None:
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
            text: GrammarVerdict(tuple(Match(**match) for match in json.loads(cached[key])))
            for text, key in keys.items()
            if key in cached
        }
        if new := sorted(keys.keys() - verdicts.keys()):
            for text, result in zip(new, self._request(new), strict=True):
                if isinstance(result, str):
                    verdicts[text] = GrammarVerdict(problem=result)
                else:
                    verdicts[text] = GrammarVerdict(tuple(result))
            if self._cache is not None:
                kept = {}
                for text in new:
                    if not verdicts[text].problem:
                        kept[keys[text]] = json.dumps([*map(asdict, verdicts[text].matches)])
                self._cache.put(kept)
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


def checker() -> GrammarChecker:
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
        if isinstance(made, GrammarChecker):
            made.server.stop()
    _CHECKERS.clear()


# By settings; without a server, why: it is looked for once and not again for every cell.
_CHECKERS: dict[tuple[str, ...], GrammarChecker | LanguageToolUnavailable] = {}


def _made(url: str) -> GrammarChecker | LanguageToolUnavailable:
    try:
        server: GrammarServer
        server = UserServer(url) if url else SharedServer(install.find_installation(download=True))
    except LanguageToolUnavailable as error:
        return error
    return GrammarChecker(server, verdict_cache(cache_folder() / CACHE_FILE))

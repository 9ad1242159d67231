"""The paper's grammar score: 1 if LanguageTool (en-US) reports no match, 0 if it reports one or the answer is empty."""

import atexit
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pbcore.metrics.languagetool import Match, Unavailable
from pbcore.metrics.languagetool.install import (
    FOLDER_VARIABLE,
    NO_DOWNLOAD_VARIABLE,
    URL_VARIABLE,
    cache_folder,
    find_installation,
)
from pbcore.metrics.languagetool.server import Server, SharedServer, UserServer
from pbcore.metrics.verdict_cache import VerdictCache

LANGUAGE = "en-US"
CACHE_FILE = "grammar.sqlite"


@dataclass(frozen=True, slots=True)
class Verdict:
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


class Checker:
    """Checks texts with a server.

    Each text is sent once; verdicts of earlier checks are read from the cache, without a server.
    """

    def __init__(self, server: Server, cache: VerdictCache | None = None) -> None:
        self.server = server
        self._cache = cache
        self._gone = ""

    def check(self, texts: Sequence[str]) -> list[Verdict]:
        """One verdict per stripped text.

        Raises Unavailable if a server is needed and there is none, or none any more; once it has, it does so each time
        a server is needed.
        """
        stripped = [text.strip() for text in texts]
        results = self._results({text for text in stripped if text})
        return [_verdict(results[text]) if text else Verdict(empty=True) for text in stripped]

    def close(self) -> None:
        """Releases the server."""
        self.server.stop()

    def _results(self, texts: set[str]) -> dict[str, list[Match] | str]:
        keys = {text: _key(text, self.server.identity) for text in texts}
        cached = self._cache.get(keys.values()) if self._cache is not None else {}
        results: dict[str, list[Match] | str] = {text: cached[name] for text, name in keys.items() if name in cached}
        new = sorted(texts - results.keys())
        if new:
            results |= zip(new, self._request(new), strict=True)
        if self._cache is not None:
            self._cache.put({keys[text]: result for text in new if not isinstance(result := results[text], str)})
        return results

    def _request(self, texts: list[str]) -> list[list[Match] | str]:
        from pbcore.metrics.languagetool.client import check_many

        if self._gone:
            raise Unavailable(self._gone)
        try:
            return check_many(self.server, texts, LANGUAGE)
        except Unavailable as error:
            self._gone = str(error)
            raise


def checker() -> Checker:
    """This process's checker: with the server of $PBCORE_LANGUAGETOOL_URL, else the run's own, started on first use.
    Where LanguageTool is not installed it is downloaded, unless $PBCORE_NO_DOWNLOAD is set.

    Raises Unavailable, saying what to do, if there is neither.
    """
    environment = tuple(
        os.environ.get(name, "") for name in (URL_VARIABLE, FOLDER_VARIABLE, "PBCORE_CACHE", NO_DOWNLOAD_VARIABLE)
    )
    result = _checker(environment)
    if isinstance(result, Unavailable):
        raise Unavailable(str(result))
    return result


def available() -> bool:
    """Whether `checker()` can be had."""
    try:
        checker()
    except Unavailable:
        return False
    return True


def stop() -> None:
    """Releases this process's servers; the next `checker()` makes a new checker."""
    for open_checker in _OPEN:
        open_checker.close()
    _OPEN.clear()
    _checker.cache_clear()


_OPEN: list[Checker] = []


@cache
def _checker(environment: tuple[str, ...]) -> Checker | Unavailable:
    """The checker for these settings.

    The result is cached, so a missing server is looked for once and not again for every cell.
    """
    url = environment[0]
    try:
        server: Server = UserServer(url) if url else SharedServer(find_installation(download=True))
    except Unavailable as error:
        return error
    new = Checker(server, VerdictCache(cache_folder() / CACHE_FILE))
    if not _OPEN:
        atexit.register(stop)
    _OPEN.append(new)
    return new


def _key(text: str, identity: str) -> str:
    """The cache key of a text's verdict: other versions, rules and languages have others."""
    return hashlib.sha256(json.dumps([text, identity, [["language", LANGUAGE]]]).encode()).hexdigest()


def _verdict(result: list[Match] | str) -> Verdict:
    return Verdict(problem=result) if isinstance(result, str) else Verdict(tuple(result))

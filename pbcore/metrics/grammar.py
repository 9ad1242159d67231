"""The paper's grammar score: 1 if LanguageTool (en-US) reports no match, 0 if it reports one or the answer is empty."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pbcore.metrics.languagetool.cache import VerdictCache, key
from pbcore.metrics.languagetool.client import Match, check_many
from pbcore.metrics.languagetool.errors import BadAnswer, ServerDied, Unavailable
from pbcore.metrics.languagetool.folders import cache_folder
from pbcore.metrics.languagetool.install import (
    FOLDER_VARIABLE,
    NO_DOWNLOAD_VARIABLE,
    URL_VARIABLE,
    installed,
)
from pbcore.metrics.languagetool.server import Server, UserServer, shared_server

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

    def __init__(
        self,
        server: Server,
        cache: VerdictCache | None = None,
        language: str = LANGUAGE,
        disabled_rules: Sequence[str] = (),
    ) -> None:
        self.server = server
        self._cache = cache
        self._params = {"language": language}
        if disabled_rules:
            self._params["disabledRules"] = ",".join(sorted(disabled_rules))
        self._died: str | None = None

    def check(self, texts: Sequence[str]) -> list[Verdict]:
        """One verdict per stripped text.

        Raises Unavailable if a server is needed but not available, ServerDied if the server died and could not be
        restarted.
        """
        if self._died is not None:
            raise ServerDied(self._died)
        stripped = [text.strip() for text in texts]
        results = self._results({text for text in stripped if text})
        return [_verdict(results[text]) if text else Verdict(empty=True) for text in stripped]

    def close(self) -> None:
        """Releases the server and the cache."""
        self.server.stop()
        if self._cache is not None:
            self._cache.close()

    def _results(self, texts: set[str]) -> dict[str, list[Match] | BadAnswer]:
        if not texts:
            return {}
        identity = self.server.identity
        keys = {text: key(text, identity, self._params) for text in texts}
        cached = self._cache.get(keys.values()) if self._cache is not None else {}
        results: dict[str, list[Match] | BadAnswer] = {
            text: cached[name] for text, name in keys.items() if name in cached
        }
        new = sorted(texts - results.keys())
        if new:
            results |= zip(new, self._request(new), strict=True)
        if self._cache is not None:
            self._cache.put({keys[text]: result for text in new if not isinstance(result := results[text], BadAnswer)})
        return results

    def _request(self, texts: list[str]) -> list[list[Match] | BadAnswer]:
        try:
            return check_many(self.server, texts, self._params)
        except ServerDied as error:
            self._died = str(error)
            raise


def checker() -> Checker:
    """This process's checker: with the server of $PBCORE_LANGUAGETOOL_URL, else the local installation's shared one,
    started on first use. Where LanguageTool is not installed it is downloaded, unless $PBCORE_NO_DOWNLOAD is set.

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
        server: Server = UserServer(url) if url else shared_server(installed())
        if isinstance(server, UserServer):
            server.start()
    except Unavailable as error:
        return error
    new = Checker(server, VerdictCache(cache_folder() / CACHE_FILE))
    if not _OPEN:
        atexit.register(stop)
    _OPEN.append(new)
    return new


def _verdict(result: list[Match] | BadAnswer) -> Verdict:
    return Verdict(problem=str(result)) if isinstance(result, BadAnswer) else Verdict(tuple(result))

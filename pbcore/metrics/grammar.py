"""Grammar as the paper measures it: LanguageTool, en-US; 1 if it finds nothing, 0 if it finds something or there is no text."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pbcore.metrics.languagetool.cache import VerdictCache, key
from pbcore.metrics.languagetool.client import Match, check_many
from pbcore.metrics.languagetool.errors import BadAnswer, ServerDied, Unavailable
from pbcore.metrics.languagetool.find import URL_VARIABLE
from pbcore.metrics.languagetool.folders import cache_folder
from pbcore.metrics.languagetool.server import Server, SharedServer, UserServer

LANGUAGE = "en-US"
CACHE_FILE = "grammar.sqlite"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in one text; `problem` says why there is no verdict, where there is none."""

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
    """Asks a server about texts, each once: what any process asked before is read from the cache, without a server."""

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
        """One verdict per text, blanks around it left out.

        Raises Unavailable if a server is needed and can't be had, ServerDied if it stopped in this run for good.
        """
        if self._died is not None:
            raise ServerDied(self._died)
        stripped = [text.strip() for text in texts]
        found = self._find({text for text in stripped if text})
        return [_verdict(found[text]) if text else Verdict(empty=True) for text in stripped]

    def close(self) -> None:
        """Lets go of the server and the cache."""
        self.server.stop()
        if self._cache is not None:
            self._cache.close()

    def _find(self, texts: set[str]) -> dict[str, list[Match] | BadAnswer]:
        if not texts:
            return {}
        identity = self.server.identity
        keys = {text: key(text, identity, self._params) for text in texts}
        held = self._cache.get(keys.values()) if self._cache is not None else {}
        found: dict[str, list[Match] | BadAnswer] = {text: held[name] for text, name in keys.items() if name in held}
        new = sorted(texts - found.keys())
        if new:
            found |= zip(new, self._ask(new), strict=True)
        if self._cache is not None:
            self._cache.put({keys[text]: verdict for text in new if not isinstance(verdict := found[text], BadAnswer)})
        return found

    def _ask(self, texts: list[str]) -> list[list[Match] | BadAnswer]:
        try:
            return check_many(self.server, texts, self._params)
        except ServerDied as error:
            self._died = str(error)
            raise


def checker() -> Checker:
    """This process's checker: the server of $PBCORE_LANGUAGETOOL_URL, else the local installation's, shared and started at the first need.

    Raises Unavailable, saying what to do, where there is neither.
    """
    environment = tuple(
        os.environ.get(name, "") for name in (URL_VARIABLE, "LTP_PATH", "LTP_JAR_DIR_PATH", "PBCORE_CACHE")
    )
    found = _checker(environment)
    if isinstance(found, Unavailable):
        raise Unavailable(str(found))
    return found


def stop() -> None:
    """Lets go of this process's servers; the next `checker()` starts afresh."""
    for one in _OPEN:
        one.close()
    _OPEN.clear()
    _checker.cache_clear()


_OPEN: list[Checker] = []


@cache
def _checker(environment: tuple[str, ...]) -> Checker | Unavailable:
    """The checker for these settings; what is not there at the first look is not looked for at every cell."""
    url = environment[0]
    try:
        server: Server = UserServer(url) if url else SharedServer()
        if isinstance(server, UserServer):
            server.start()
    except Unavailable as error:
        return error
    made = Checker(server, VerdictCache(cache_folder() / CACHE_FILE))
    if not _OPEN:
        atexit.register(stop)
    _OPEN.append(made)
    return made


def _verdict(found: list[Match] | BadAnswer) -> Verdict:
    return Verdict(problem=str(found)) if isinstance(found, BadAnswer) else Verdict(tuple(found))

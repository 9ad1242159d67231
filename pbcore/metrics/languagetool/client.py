"""Checks many texts with one server concurrently, through language_tool_python."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import local
from typing import Any, Literal

from language_tool_python import LanguageTool
from language_tool_python.exceptions import LanguageToolError

from pbcore.metrics.languagetool import LanguageToolUnavailable, Match
from pbcore.metrics.languagetool.server import DIRECT, GrammarServer

THREADS = 4
TRIES = 3


class LanguageToolClient(LanguageTool):
    """The library's client of a server. It also refuses a check that was broken off, and keeps
    Java's spans, since the library's `Match` converts offsets by state that all threads share, and
    lengths not at all.
    """

    _TIMEOUT = 60  # type: ignore[assignment]
    of_thread = local()  # `spans` has those of the thread's last check, in units of UTF-16

    def _query_server(
        self,
        url: str,
        params: dict[str, str] | None = None,
        num_tries: int = 1,
        method: Literal["get", "post"] = "get",
    ) -> Any:
        answer = super()._query_server(url, params, 1, method)
        if method == "post":
            if answer.get("warnings", {}).get("incompleteResults"):
                raise ValueError(
                    "it stopped before it had checked the whole text (incompleteResults)"
                )
            self.of_thread.spans = [
                (match["offset"], match["offset"] + match["length"]) for match in answer["matches"]
            ]
        return answer


def check_many(
    server: GrammarServer, texts: Sequence[str], language: str
) -> list[list[Match] | str]:
    """The server's matches in each text, or the reason why there is no verdict on it.

    Args:
        server: where LanguageTool runs.
        language: such as `en-US`.

    Raises:
        LanguageToolUnavailable: if the server can't be reached, or stops answering and can't be
            restarted.
    """
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(lambda text: _check(server, text, language), texts))


def _check(server: GrammarServer, text: str, language: str) -> list[Match] | str:
    # Java counts units of UTF-16; half of a pair is sent as "?".
    units = text.encode("utf-16-le", "replace")
    url = ""
    for _ in range(TRIES):
        url = server.url(lost=url)
        try:
            matches = []
            answers = _client(language, url).check(units.decode("utf-16-le"))
            spans = LanguageToolClient.of_thread.spans
            for answer, (first, last) in zip(answers, spans, strict=True):
                start = _characters(units, first)
                length = _characters(units, last) - start
                matches.append(
                    Match(answer.rule_id, answer.message, start, length, answer.category)
                )
            return matches
        except (LanguageToolError, ValueError, KeyError, TypeError, AttributeError) as error:
            # The server answered, but not with JSON of the known form.
            if not isinstance(error, LanguageToolError) or isinstance(error.__cause__, ValueError):
                return f"LanguageTool gave no verdict: {str(error)[:200]}"
            lost = error
    raise LanguageToolUnavailable(
        f"LanguageTool dropped the connection {TRIES} times on one text ({lost}): {text[:80]!r}"
    ) from lost


def _characters(units: bytes, count: int) -> int:
    """How many characters the first `count` units of UTF-16 hold."""
    return len(units[: 2 * count].decode("utf-16-le", "replace"))


@lru_cache(maxsize=8)
def _client(language: str, url: str) -> LanguageToolClient:
    return LanguageToolClient(language, remote_server=url, proxies=DIRECT)

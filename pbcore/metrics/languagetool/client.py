"""Many texts to one server at once.

language-tool-python opens a new connection for every text, which costs a third of the rate that two cores can reach. Here each of
a few threads keeps its connection; what comes back is read by language-tool-python's own `Match`, in the calling thread alone,
since that class keeps the last text in class attributes.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlencode, urlsplit

from pbcore.metrics.languagetool.errors import BadAnswer, ServerDied
from pbcore.metrics.languagetool.server import Server, connect

THREADS = 4
TRIES = 3
TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Match:
    """One finding: `rule` is LanguageTool's rule id, `offset` and `length` count characters of the text."""

    rule: str
    message: str
    offset: int
    length: int
    category: str


def check_many(server: Server, texts: Sequence[str], params: Mapping[str, str]) -> list[list[Match] | BadAnswer]:
    """What the server finds in each text; a BadAnswer in place of the findings where it gave none.

    `params` are further fields of the request: `language`, `disabledRules` … Raises Unavailable if the server can't be
    reached at all, ServerDied if it goes away and stays away.
    """
    url = server.start()
    waiting: SimpleQueue[int] = SimpleQueue()
    for index in range(len(texts)):
        waiting.put(index)
    answers: dict[int, dict[str, Any] | BadAnswer] = {}

    def work() -> None:
        connection = _Connection(server, url)
        try:
            while True:
                index = waiting.get_nowait()
                try:
                    answers[index] = connection.ask({**params, "text": texts[index]})
                except BadAnswer as bad:
                    answers[index] = bad
        except Empty:
            return
        finally:
            connection.close()

    count = min(THREADS, len(texts))
    with ThreadPoolExecutor(max(count, 1)) as pool:
        for future in [pool.submit(work) for _ in range(count)]:
            future.result()
    return [_read(answers[index], text) for index, text in enumerate(texts)]


def _read(answer: dict[str, Any] | BadAnswer, text: str) -> list[Match] | BadAnswer:
    if isinstance(answer, BadAnswer):
        return answer
    from language_tool_python.match import Match as LibraryMatch

    found = [LibraryMatch(match, text) for match in answer["matches"]]
    return [Match(one.rule_id, one.message, one.offset, one.error_length, one.category) for one in found]


class _Connection:
    """One kept connection, made anew where it breaks."""

    def __init__(self, server: Server, url: str) -> None:
        self._server = server
        self._open(url)

    def _open(self, url: str) -> None:
        self._path = urlsplit(url).path + "v2/check"
        self._connection = connect(url, TIMEOUT)

    def close(self) -> None:
        self._connection.close()

    def ask(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """The server's answer. Raises BadAnswer, or ServerDied."""
        body = urlencode(fields, errors="replace")
        for _ in range(TRIES):
            try:
                self._connection.request(
                    "POST", self._path, body, {"Content-Type": "application/x-www-form-urlencoded"}
                )
                response = self._connection.getresponse()
                return _parse(response.status, response.read())
            except (OSError, http.client.HTTPException) as error:
                lost: Exception = error
                self.close()
                self._open(self._server.ensure())
        raise ServerDied(
            f"LanguageTool broke off {TRIES} times on one text ({lost}): {fields['text'][:80]!r}"
        ) from lost


def _parse(status: int, said: bytes) -> dict[str, Any]:
    if status != 200:
        raise BadAnswer(f"LanguageTool answered {status}: {said.decode(errors='replace')[:200]}")
    answer: dict[str, Any] = json.loads(said)
    if answer.get("warnings", {}).get("incompleteResults"):
        raise BadAnswer("LanguageTool gave up on this text before it had checked everything")
    return answer

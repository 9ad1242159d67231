"""Sends many texts to one server concurrently.

language-tool-python opens a new connection for every text, which costs a third of the throughput on two cores. Here
each of a few threads keeps its connection open. Responses are parsed by language-tool-python's `Match`, in the calling
thread only, since that class stores the last text in class attributes.
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
    """One match of a rule: `rule` is LanguageTool's rule id; `offset` and `length` count characters of the text."""

    rule: str
    message: str
    offset: int
    length: int
    category: str


def check_many(server: Server, texts: Sequence[str], params: Mapping[str, str]) -> list[list[Match] | BadAnswer]:
    """The server's matches in each text, or a BadAnswer for a text that it could not check.

    `params` are further fields of the request: `language`, `disabledRules` … Raises Unavailable if the server can't be
    reached at the start, ServerDied if it stops answering and can't be restarted.
    """
    url = server.start()
    waiting: SimpleQueue[int] = SimpleQueue()
    for index in range(len(texts)):
        waiting.put(index)
    responses: dict[int, dict[str, Any] | BadAnswer] = {}

    def work() -> None:
        connection = _Connection(server, url)
        try:
            while True:
                index = waiting.get_nowait()
                try:
                    responses[index] = connection.check({**params, "text": texts[index]})
                except BadAnswer as error:
                    responses[index] = error
        except Empty:
            return
        finally:
            connection.close()

    count = min(THREADS, len(texts))
    with ThreadPoolExecutor(max(count, 1)) as pool:
        for future in [pool.submit(work) for _ in range(count)]:
            future.result()
    return [_matches(responses[index], text) for index, text in enumerate(texts)]


def _matches(response: dict[str, Any] | BadAnswer, text: str) -> list[Match] | BadAnswer:
    if isinstance(response, BadAnswer):
        return response
    from language_tool_python.match import Match as LibraryMatch

    matches = [LibraryMatch(match, text) for match in response["matches"]]
    return [Match(one.rule_id, one.message, one.offset, one.error_length, one.category) for one in matches]


class _Connection:
    """One persistent connection, reopened if it breaks."""

    def __init__(self, server: Server, url: str) -> None:
        self._server = server
        self._open(url)

    def _open(self, url: str) -> None:
        self._path = urlsplit(url).path + "v2/check"
        self._connection = connect(url, TIMEOUT)

    def close(self) -> None:
        self._connection.close()

    def check(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """The server's response to one request. Raises BadAnswer or ServerDied."""
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
            f"LanguageTool dropped the connection {TRIES} times on one text ({lost}): {fields['text'][:80]!r}"
        ) from lost


def _parse(status: int, body: bytes) -> dict[str, Any]:
    if status != 200:
        raise BadAnswer(f"LanguageTool answered {status}: {body.decode(errors='replace')[:200]}")
    response: dict[str, Any] = json.loads(body)
    if response.get("warnings", {}).get("incompleteResults"):
        raise BadAnswer("LanguageTool stopped before it had checked the whole text (incompleteResults)")
    return response

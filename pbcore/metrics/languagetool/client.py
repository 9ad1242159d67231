"""Sends many texts to one server concurrently, over connections that stay open."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode

import urllib3

from pbcore.metrics.languagetool.errors import BadAnswer, ServerDied
from pbcore.metrics.languagetool.server import FORM, Server

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
    server.start()
    with (
        urllib3.PoolManager(maxsize=THREADS, retries=False, timeout=TIMEOUT) as pool,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        return list(threads.map(lambda text: _check(pool, server, text, params), texts))


def _check(pool: urllib3.PoolManager, server: Server, text: str, params: Mapping[str, str]) -> list[Match] | BadAnswer:
    body = urlencode({**params, "text": text}, errors="replace")
    for _ in range(TRIES):
        url = server.start()
        try:
            response = pool.request("POST", f"{url}v2/check", body=body, headers=FORM)
            return _matches(response.status, response.data, text)
        except urllib3.exceptions.HTTPError as error:
            lost = error
            server.ensure()
    raise ServerDied(f"LanguageTool dropped the connection {TRIES} times on one text ({lost}): {text[:80]!r}") from lost


def _matches(status: int, body: bytes, text: str) -> list[Match] | BadAnswer:
    if status != 200:
        return BadAnswer(f"LanguageTool answered {status}: {body.decode(errors='replace')[:200]}")
    response = json.loads(body)
    if response.get("warnings", {}).get("incompleteResults"):
        return BadAnswer("LanguageTool stopped before it had checked the whole text (incompleteResults)")
    units = text.encode("utf-16-le", "replace")  # Java counts units of UTF-16

    def characters(count: int) -> int:
        return len(units[: 2 * count].decode("utf-16-le", "replace"))

    found = []
    for match in response["matches"]:
        start, end = characters(match["offset"]), characters(match["offset"] + match["length"])
        rule = match["rule"]
        found.append(Match(rule["id"], match["message"], start, end - start, rule["category"]["id"]))
    return found

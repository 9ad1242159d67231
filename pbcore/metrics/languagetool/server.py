"""LanguageTool servers: what a checker needs of one, and a server that the user runs.

The machine's shared one is in `shared`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Protocol

import urllib3

from pbcore.metrics.languagetool.errors import ServerDied, Unavailable
from pbcore.metrics.languagetool.install import URL_VARIABLE, Installation

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Server(Protocol):
    """Something that answers LanguageTool's HTTP interface (`<url>v2/check`)."""

    @property
    def identity(self) -> str:
        """Identifies the server's version and rules in cache keys."""
        ...

    def start(self) -> str:
        """The server's URL, ending with a slash; starts the server if this process has not used it yet. Raises
        Unavailable if that fails."""
        ...

    def ensure(self) -> str:
        """The URL to use after a failed request. Raises ServerDied if there is no server any more."""
        ...

    def stop(self) -> None:
        """Ends this process's use of the server."""
        ...


class UserServer:
    """A server that the user runs, by URL. It is never started or stopped here."""

    def __init__(self, url: str) -> None:
        """`url` with or without scheme and `/v2`: `localhost:8081`, `https://example.org/api/v2`."""
        full = url if "://" in url else f"http://{url}"
        self._url = full.rstrip("/").removesuffix("/v2") + "/"
        self._answered = False
        self._identity: str | None = None

    @property
    def identity(self) -> str:
        """Version, build and a digest of its rules: servers of one version can differ in n-grams and configuration."""
        if self._identity is None:
            body = self._get("v2/configinfo?language=en-US")
            software = json.loads(body)["software"]
            self._identity = f"{software['version']}-{software['buildDate']}-{hashlib.sha256(body).hexdigest()[:12]}"
        return self._identity

    def start(self) -> str:
        if not self._answered:
            self._get("v2/healthcheck")
            self._answered = True
        return self._url

    def ensure(self) -> str:
        try:
            self._get("v2/healthcheck")
        except Unavailable as error:
            raise ServerDied(f"{error} It answered earlier in this run.") from error
        return self._url

    def stop(self) -> None:
        """Does nothing: the user runs the server."""

    def _get(self, path: str) -> bytes:
        try:
            response = ask("GET", self._url + path, 20.0)
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(
                f"no LanguageTool server answers at {self._url} ({error}): start it, or correct --languagetool-url or "
                f"{URL_VARIABLE}."
            ) from error
        if response.status != 200:
            raise Unavailable(
                f"{self._url}{path} answered {response.status}. Give the URL of a LanguageTool server, up to but "
                "without /v2."
            )
        return response.data


def ask(method: str, url: str, timeout: float, body: str | None = None) -> urllib3.BaseHTTPResponse:
    """The response to one request, over a connection of its own. Raises urllib3.exceptions.HTTPError."""
    with urllib3.PoolManager(retries=False, timeout=timeout) as pool:
        return pool.request(method, url, body=body, headers=FORM)


def shared_server(installation: Installation) -> Server:
    """The shared server of an installation. Raises Unavailable on systems without POSIX file locks."""
    try:
        from pbcore.metrics.languagetool.shared import SharedServer
    except ModuleNotFoundError as error:
        raise Unavailable(
            f"pbcore starts a LanguageTool server on Linux and macOS only ({error}): start one yourself and give its "
            f"URL with --languagetool-url or {URL_VARIABLE}"
        ) from error
    return SharedServer(installation)

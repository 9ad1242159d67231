"""LanguageTool servers: what a checker needs of one, and a server that the user runs.

The machine's shared one is in `shared`.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
from typing import Protocol
from urllib.parse import urlsplit

from pbcore.metrics.languagetool.errors import ServerDied, Unavailable
from pbcore.metrics.languagetool.find import URL_VARIABLE


class Server(Protocol):
    """Something that answers LanguageTool's HTTP interface (`<url>v2/check`)."""

    @property
    def identity(self) -> str:
        """Identifies the server's version and rules in cache keys."""
        ...

    def start(self) -> str:
        """The server's URL, ending with a slash; starts the server if necessary. Raises Unavailable if that fails."""
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
        self._get("v2/healthcheck")
        return self._url

    def ensure(self) -> str:
        try:
            return self.start()
        except Unavailable as error:
            raise ServerDied(f"{error} It answered earlier in this run.") from error

    def stop(self) -> None:
        """Does nothing: the user runs the server."""

    def _get(self, path: str) -> bytes:
        try:
            with contextlib.closing(connect(self._url, timeout=20)) as connection:
                connection.request("GET", urlsplit(self._url).path + path)
                response = connection.getresponse()
                body: bytes = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(
                f"no LanguageTool server answers at {self._url} ({error}): start it, or correct --languagetool-url or "
                f"{URL_VARIABLE}."
            ) from error
        if response.status != 200:
            raise Unavailable(
                f"{self._url}{path} answered {response.status}. Give the URL of a LanguageTool server, up to but "
                "without /v2."
            )
        return body


def shared_server() -> Server:
    """The server of the local installation.

    Raises Unavailable without an installation, and on systems without POSIX file locks.
    """
    try:
        from pbcore.metrics.languagetool.shared import SharedServer
    except ModuleNotFoundError as error:
        raise Unavailable(
            f"pbcore starts a LanguageTool server on Linux and macOS only ({error}): start one yourself and give its "
            "URL with "
            f"--languagetool-url or {URL_VARIABLE}"
        ) from error
    return SharedServer()


def connect(url: str, timeout: float) -> http.client.HTTPConnection:
    """A connection to the host of `url`; the first request opens it."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.netloc, timeout=timeout)

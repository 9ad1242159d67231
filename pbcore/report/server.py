"""The local server of `pbcore view`: it answers requests on this machine and writes nothing."""

import sys
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from pbcore.base.errors import InputError, PbcoreError
from pbcore.base.printable import first_line

HOST = "127.0.0.1"


class HttpReply(NamedTuple):
    """What a request is answered with: its status, the type of its text, and the text."""

    status: int
    kind: str
    text: str


NOTHING = HttpReply(404, "text/plain", "nothing here")
OTHER_HOST = HttpReply(
    403, "text/plain", "asked for under another name; another site's page may have asked"
)
Respond = Callable[[str], HttpReply]  # to the path of a request


def as_html(text: str) -> HttpReply:
    return HttpReply(200, "text/html", text)


def started(respond: Respond, port: int = 0) -> ThreadingHTTPServer:
    """A server on this machine alone.

    Args:
        respond: what answers the path of a request; its errors are told as text.
        port: of the server; 0: a free one.

    Raises:
        InputError: for a port that can't be had.
    """
    try:
        return ViewServer((HOST, port), partial(Handler, respond))
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--port {port} can't be used ({error}); leave it out for a free one"
        ) from error


class ViewServer(ThreadingHTTPServer):
    """Serves each request in a thread of its own; a browser that has gone is no error."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing for a connection that its client has reset or left; else as the base class."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers requests that name this machine as their host."""

    def __init__(self, respond: Respond, *args: object) -> None:
        self._respond = respond
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        assert isinstance(self.server, ThreadingHTTPServer)
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            reply = OTHER_HOST
        else:
            try:
                reply = self._respond(self.path)
            except (PbcoreError, OSError) as error:  # such as a damaged file
                reply = HttpReply(500, "text/plain", first_line(str(error), 1000))
        data = reply.text.encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", f"{reply.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal shows the address alone."""

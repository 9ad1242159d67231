"""`pbcore languagetool install|status`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from pbcore.metrics.languagetool.errors import Unavailable
from pbcore.metrics.languagetool.install import URL_VARIABLE, VERSION, find_installation, install, java
from pbcore.metrics.languagetool.server import UserServer, shared_server


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `pbcore languagetool`."""
    parser = subparsers.add_parser("languagetool", help="install the grammar checker, or show its status")
    actions = parser.add_subparsers(required=True)
    command = actions.add_parser(
        "install", help=f"download LanguageTool {VERSION} into the user's cache, or check and complete it"
    )
    command.set_defaults(run=lambda args: _run(_install))
    command = actions.add_parser("status", help="show what is installed, and whether a server answers")
    command.set_defaults(run=lambda args: _run(_status))


def _run(action: Callable[[], None]) -> int:
    """Exit status 0 if the action succeeds, else 1."""
    try:
        action()
    except Unavailable as error:
        print(error)
        return 1
    return 0


def _install() -> None:
    installation = install()
    print(f"LanguageTool {installation.version} is in {installation.folder}")


def _status() -> None:
    url = os.environ.get(URL_VARIABLE)
    if url:
        user = UserServer(url)
        print(f"LanguageTool {user.identity} answers at {user.start()} (from {URL_VARIABLE})")
        return
    installation = find_installation()
    print(f"LanguageTool {installation.version} in {installation.folder}")
    print(f"Java: {java()}")
    server = shared_server(installation)
    try:
        print(f"server: answers at {server.start()}")
    finally:
        server.stop()

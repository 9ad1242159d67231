"""`pbcore languagetool install|status`."""

from __future__ import annotations

import argparse
import os

from pbcore.metrics.languagetool import maven
from pbcore.metrics.languagetool.errors import Unavailable
from pbcore.metrics.languagetool.find import URL_VARIABLE, Installation, find_installation, find_java
from pbcore.metrics.languagetool.server import UserServer


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `pbcore languagetool`."""
    parser = subparsers.add_parser("languagetool", help="install the grammar checker, or show its status")
    actions = parser.add_subparsers(required=True)
    install = actions.add_parser("install", help=f"install LanguageTool {maven.VERSION} into the user's cache")
    install.add_argument(
        "--from",
        dest="origin",
        choices=("auto", "maven", "download"),
        default="auto",
        help="Maven Central (77 MB, the English server), language-tool-python's download (250 MB, all languages), "
        "or the first of the two that works (default)",
    )
    install.set_defaults(run=_install)
    status = actions.add_parser("status", help="show what is installed, and whether a server answers")
    status.set_defaults(run=_status)


def _install(args: argparse.Namespace) -> int:
    """Prints each origin tried and its result. Exit status 0 if LanguageTool is then installed, else 1."""
    installers = {"maven": maven.install, "download": download}
    for origin in installers if args.origin == "auto" else [args.origin]:
        try:
            installation = installers[origin]()
        except Unavailable as error:
            print(f"{origin}: {error}")
            continue
        print(f"LanguageTool {installation.version} is in {installation.folder}")
        return 0
    return 1


def _status(args: argparse.Namespace) -> int:
    """Exit status 0 if a server answers, else 1."""
    url = os.environ.get(URL_VARIABLE)
    try:
        if url:
            server = UserServer(url)
            print(f"LanguageTool {server.identity} answers at {server.start()} (from {URL_VARIABLE})")
        else:
            installation, java = find_installation(), find_java()
            print(f"LanguageTool {installation.version} in {installation.folder} (found through {installation.origin})")
            print(f"Java {java.version}: {java.path}")
            from pbcore.metrics.languagetool.shared import SharedServer  # needs POSIX file locks

            shared = SharedServer(installation)
            try:
                print(f"server: answers at {shared.start()}")
            finally:
                shared.stop()
    except Unavailable as error:
        print(error)
        return 1
    return 0


def download() -> Installation:
    """Installs through language-tool-python's download, which checks its recorded digests. Raises Unavailable if that fails."""
    from language_tool_python.download_lt import LocalLanguageTool
    from language_tool_python.exceptions import LanguageToolError

    find_java()
    try:
        LocalLanguageTool.from_version_name(maven.VERSION).download()
    except (LanguageToolError, OSError) as error:
        raise Unavailable(f"language-tool-python could not download LanguageTool {maven.VERSION}: {error}") from error
    return find_installation()

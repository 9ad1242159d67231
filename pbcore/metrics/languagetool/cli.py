"""`pbcore languagetool install|status`."""

import argparse
import os

from pbcore.metrics.languagetool import Unavailable
from pbcore.metrics.languagetool.install import URL_VARIABLE, VERSION, find_installation, install, java
from pbcore.metrics.languagetool.server import SharedServer, UserServer


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds `pbcore languagetool`."""
    parser = subparsers.add_parser("languagetool", help="install the grammar checker, or show its status")
    how = f"download LanguageTool {VERSION} into the user's cache, or check and complete it; show what answers"
    parser.add_argument("action", choices=("install", "status"), help=how)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    """Exit status 0 if LanguageTool is there and, for `status`, a server answers; else 1."""
    url = os.environ.get(URL_VARIABLE)
    try:
        if args.action == "status" and url:
            print(f"LanguageTool {UserServer(url).identity} answers at {url} (from {URL_VARIABLE})")
            return 0
        installation = install() if args.action == "install" else find_installation()
        print(f"LanguageTool {installation.version} is in {installation.folder}")
        if args.action == "status":
            server = SharedServer(installation)
            print(f"Java: {java()}\nserver: answers at {server.url()}")
            server.stop()
    except Unavailable as error:
        print(error)
        return 1
    return 0

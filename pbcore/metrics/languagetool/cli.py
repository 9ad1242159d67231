"""`pbcore languagetool install|status`."""

import argparse
import os

from pbcore.metrics.languagetool import Unavailable
from pbcore.metrics.languagetool.install import URL_VARIABLE, find_installation, install, java
from pbcore.metrics.languagetool.server import SharedServer, UserServer


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds `pbcore languagetool`."""
    parser = subparsers.add_parser("languagetool", help="install the grammar checker, or show its status")
    parser.add_argument("action", choices=("install", "status"), help="download it, or show whether it answers")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    """Exit status 0 if LanguageTool is there and, for `status`, a server answers; else 1."""
    try:
        url = os.environ.get(URL_VARIABLE)
        if args.action == "status" and url:
            print(f"LanguageTool {UserServer(url).identity} answers at {url} (from {URL_VARIABLE})")
            return 0
        print("LanguageTool is in", jars := install() if args.action == "install" else find_installation())
        if args.action == "status":
            print(f"Java: {java()}\nserver: answers at {(server := SharedServer(jars)).url()}")
            server.stop()
    except Unavailable as error:
        print(error)
        return 1
    return 0

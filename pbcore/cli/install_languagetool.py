"""`pbcore install languagetool`: downloads what is missing of it, and shows that it answers."""

import argparse

from pbcore.metrics.languagetool import LanguageToolUnavailable, install
from pbcore.metrics.languagetool.server import SharedServer


def run(args: argparse.Namespace) -> int:
    """Exit status 0 if LanguageTool is there and its server answers; else 1."""
    try:
        jars = install.install()
        print("LanguageTool is in", jars)
        print(f"Java: {install.java()}", flush=True)
        server = SharedServer(jars)
        print(f"server: answers at {server.url()}")
        server.stop()
    except LanguageToolUnavailable as error:
        print(error)
        return 1
    return 0

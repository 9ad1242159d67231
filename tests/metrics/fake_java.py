"""A stand-in for Java with LanguageTool's server: the same command line and HTTP interface, three
rules, starts at once.

`install` writes it as a `java` command beside an installation folder. `BEHAVIOUR` in its
environment: empty or `dies` (at its start). A text with POISON ends the process; one with ERROR is
answered with status 500, one with NONSENSE by JSON of another shape, one with DROP not at all.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

RULES = {
    "REPEAT": r"\b(\w+) \1\b",
    "EN_A_VS_AN": r"\ba [aeiou]\w*",
    "TYPO": r"\b[b-df-hj-np-tv-xz]{4,}\b",
}


def install(folder: Path) -> dict[str, str]:
    """Writes `bin/java` and `LanguageTool-6.8/` into `folder`; returns the environment in which
    they are found.

    Skips the test on Windows, which runs no shell script.
    """
    if os.name == "nt":
        import pytest

        pytest.skip("needs POSIX: a shell script stands in for Java")
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    command = shlex.join([sys.executable, __file__])
    java.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    java.chmod(0o755)
    (folder / "LanguageTool-6.8").mkdir()
    (folder / "LanguageTool-6.8" / "languagetool-server.jar").write_bytes(b"")
    return {
        "PBCORE_JAVA": str(java),
        "LTP_JAR_DIR_PATH": str(folder / "LanguageTool-6.8"),
        "PBCORE_CACHE": str(folder / "cache"),
        "TMPDIR": str(folder),
        "PBCORE_GRAMMAR_RUN": uuid.uuid4().hex,
        "BEHAVIOUR": "",
    }


def matches(text: str, disabled: list[str]) -> list[dict[str, object]]:
    """Findings of the rules that are not disabled, in LanguageTool's form; offsets count UTF-16
    units, as Java's do.
    """
    return [
        {
            "rule": {"id": rule, "issueType": "grammar", "category": {"id": "GRAMMAR"}},
            "context": {"text": text, "offset": 0, "length": 1},
            "replacements": [],
            "message": f"{rule} fired",
            "offset": len(text[: found.start()].encode("utf-16-le")) // 2,
            "length": len(found[0].encode("utf-16-le")) // 2,
        }
        for rule, pattern in RULES.items()
        if rule not in disabled
        for found in re.finditer(pattern, text)
    ]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        software = {"software": {"name": "LanguageTool", "version": "6.8", "buildDate": "today"}}
        languages = [{"name": "English (US)", "code": "en", "longCode": "en-US"}]
        self.answer(200, json.dumps(software if "configinfo" in self.path else languages))

    def do_POST(self) -> None:
        fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        text = fields["text"][0]
        with (Path(os.environ.get("TMPDIR", "/tmp")) / "asked.log").open("a") as log:
            log.write(json.dumps(text) + "\n")
        if "POISON" in text:
            os._exit(9)
        if "DROP" in text:
            self.close_connection = True
        elif "ERROR" in text:
            self.answer(500, "Error: Internal Error")
        elif "NONSENSE" in text:
            self.answer(200, json.dumps({"matches": [{"offset": "here", "length": 3}]}))
        else:
            found = matches(text, fields.get("disabledRules", [""])[0].split(","))
            self.answer(
                200,
                json.dumps({"matches": found, "warnings": {"incompleteResults": "SLOW" in text}}),
            )

    def answer(self, status: int, said: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(said.encode())))
        self.end_headers()
        self.wfile.write(said.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def serve(port: int) -> None:
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    with (Path(os.environ["TMPDIR"]) / "started.log").open("a") as log:
        log.write("started\n")
    if os.environ["BEHAVIOUR"] == "dies":
        sys.exit("Error: Could not find or load main class")
    serve(int(arguments[arguments.index("--port") + 1]))

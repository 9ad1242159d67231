"""The page as one file: template, style, script and data put together, and a policy that forbids
every request.
"""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from pbcore.base.printable import printable
from pbcore.report.looks import COLOURS, DARK
from pbcore.report.runs import ListedRun

SCRIPTS = (
    "base.js",
    "data.js",
    "film.js",
    "cell.js",
    "answers.js",
    "plot.js",
    "take.js",
    "main.js",
)
PACKED = "application/gzip"  # the type of elements with data, in base64


def text(value: str, limit: int = 300) -> str:
    """Foreign text on one line of HTML."""
    return escape(printable(value, limit), quote=False)


def attribute(value: str, limit: int = 300) -> str:
    """Foreign text in an attribute of HTML."""
    return escape(printable(value, limit))


def document(
    title: str,
    run: str,
    content: str,
    data: str,
    holds: tuple[int, int],
    sections: Sequence[str] = (),
    remote: bool = False,
    told: Sequence[tuple[str, str]] = (),
) -> str:
    """The whole file.

    Args:
        title: what was measured.
        run: the run's name.
        content: HTML.
        data: HTML elements with the data for its script.
        holds: how many answers are in it, of how many.
        sections: the headings that its navigation names.
        remote: whether it may ask the server that it came from.
        told: what its head says of it, by name.
    """
    style = asset("page.css")
    for number, (light, dark) in enumerate(zip(COLOURS, DARK, strict=True)):
        style += f".s{number} {{ color: light-dark({light}, {dark}); }}\n"
    script = "".join(asset(name) for name in SCRIPTS)
    script = f'"use strict";\n(async () => {{\n{script}}})();\n'
    server = "connect-src 'self'; " if remote else ""
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src"
        f" data:; {server}base-uri 'none'; form-action 'none'"
    )
    return rendered(
        "page.html",
        policy=policy,
        title=title,
        run=run,
        told=told,
        holds=f"{holds[0]}/{holds[1]}",
        sections=sections,
        style=Markup(style),
        content=Markup(content),
        data=Markup(data),
        script=Markup(script),
    )


def runs_document(runs: Sequence[ListedRun], folder: str) -> str:
    """The page that lists the runs of a folder; its script asks for it again."""
    style = asset("page.css")
    script = asset("runs.js")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src"
        " data:; connect-src 'self'; base-uri 'none'; form-action 'self'"
    )
    return rendered(
        "runs.html",
        policy=policy,
        folder=folder,
        runs=runs,
        style=Markup(style),
        script=Markup(script),
    )


def rendered(template: str, **values: Any) -> Markup:
    """A template of this package. Texts are foreign: on one line, their hidden signs shown, and
    escaped.
    """
    return Markup(_TEMPLATES.get_template(template).render(values))


def asset(name: str) -> str:
    """A file of this package."""
    return (files("pbcore.report.page") / "assets" / name).read_text(encoding="utf-8")


_TEMPLATES = Environment(
    loader=FunctionLoader(asset),
    autoescape=True,
    finalize=lambda value: printable(value, 2000) if type(value) is str else value,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def coded(value: str) -> Markup:
    """Foreign text in HTML, what stands in it between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(printable(value, 2000))))


_TEMPLATES.filters["coded"] = coded


def data_element(name: str, data: Any) -> str:
    """Data within the page: JSON, gzip, base64. No text in it can end its element."""
    packed = base64.b64encode(gzip.compress(as_json(data).encode(), mtime=0)).decode()
    return f'<script type="{PACKED}" id="{name}">{packed}</script>\n'


def read_element(page: str, name: str) -> Any:
    """The data of an element of a page, None where it has none. Raises ValueError, OSError,
    EOFError or zlib.error for damaged data.
    """
    found = re.search(f'<script type="{PACKED}" id="{name}">([^<]*)</script>', page)
    if found is None:
        return None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def as_json(data: Any) -> str:
    """Compact JSON in ASCII, whatever the texts hold."""
    return json.dumps(data, allow_nan=False, separators=(",", ":"))


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

"""The page as one file: template, style, script and data put together, and a policy that forbids
every request.
"""

import base64
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

SCRIPTS = (
    "base.js",
    "data.js",
    "means.js",
    "film.js",
    "cell.js",
    "answers.js",
    "plot.js",
    "take.js",
    "main.js",
)
_SPECIAL = re.compile("[<\u2028\u2029\ud800-\udfff]")


def text(value: str, limit: int = 300) -> str:
    """Foreign text on one line of HTML."""
    return escape(printable(value, limit), quote=False)


def attribute(value: str, limit: int = 300) -> str:
    """Foreign text in an attribute of HTML."""
    return escape(printable(value, limit))


def document(
    title: str,
    content: str,
    data: str,
    holds: tuple[int, int],
    remote: bool = False,
    sections: Sequence[str] = (),
) -> str:
    """The whole file.

    Args:
        title: of the page.
        content: HTML.
        data: HTML elements with the data for its script.
        holds: how many answers are in it, of how many.
        remote: whether it may ask the server that it came from.
        sections: the headings that its navigation names.
    """
    style = asset("page.css")
    for number, (light, dark) in enumerate(zip(COLOURS, DARK, strict=True)):
        style += f".s{number} {{ color: light-dark({light}, {dark}); }}\n"
    script = '"use strict";\n(() => {\n' + "".join(asset(name) for name in SCRIPTS) + "})();\n"
    server = "connect-src 'self'; " if remote else ""
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src"
        f" data:; {server}base-uri 'none'; form-action 'none'"
    )
    return rendered(
        "page.html",
        policy=policy,
        title=title,
        holds=f"{holds[0]}/{holds[1]}",
        sections=sections,
        style=Markup(style),
        content=Markup(content),
        data=Markup(data),
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


def data_element(name: str, data: Any) -> str:
    """Data within the page. No text in it can end its element."""
    return f'<script type="application/json" id="{name}">{as_json(data)}</script>\n'


def as_json(data: Any) -> str:
    """Compact JSON that stands safely within HTML, and as UTF-8 whatever the texts hold."""
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _SPECIAL.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

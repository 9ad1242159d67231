"""Pages of the site that are made from the package: CHANGELOG, a page per sampler, the gallery, the
notebook, the API.
"""

from __future__ import annotations

import base64
import html
import subprocess
import sys
import tempfile
from dataclasses import fields, replace
from inspect import cleandoc
from pathlib import Path

import mkdocs_gen_files
import nbformat

import pbcore
from pbcore.decoding.catalog import GROUPS, described
from pbcore.decoding.policies import policies
from pbcore.models.base import Generation
from pbcore.models.masked import MaskedModel
from pbcore.models.tokenizer import pieces
from pbcore.tasks.base import Sample

ROOT = Path(__file__).resolve().parents[2]
TASK = "waiting_line/shuffle"
MODEL = "tiny"
IN_BLOCKS = "sdar-4b"
CELLS = [
    "--task",
    "shuffle",
    "--task",
    "copy",
    "--task",
    "w2s_easy",
    "--limit",
    "8",
    "--no-download",
]
WIDE, HIGH = 62, 20  # pixels of a token in a picture
LEFT = 40  # of the numbers of its steps
API = {
    "pbcore.theory": ["accuracy", "total_correlation"],
    "pbcore.decoding.protocol": ["Policy", "Traits"],
    "pbcore.models.base": ["Denoiser", "OwnDecoder"],
    "pbcore.results.record": ["CellRecord", "SampleRecord"],
}


def write(path: str, text: str) -> None:
    with mkdocs_gen_files.open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def example(name: str) -> str:
    """A sampler's name as it is run: with 2 tokens a step where it reveals a given number."""
    cls = policies()[name]
    return f"{name}-k2" if any(field.name == "k" and field.init for field in fields(cls)) else name


def picture(sampler: str, model: MaskedModel, sample: Sample) -> str:
    """One answer as SVG: a row per step, each token from the step on that revealed it; struck:
    later taken back. Steps in a row that change nothing in the answer, since they write what stands
    behind it, share a row.
    """
    answer = pbcore.decode(model, [sample], sampler)[0]
    text = pieces(model) or str
    shown = range((answer.answer_tokens or 0) + 1)
    end = 1 + max(
        [answer.steps[at] for at in shown]
        + [one.step for one in answer.former if one.position in shown]
    )
    parts = []
    rows = grouped(answer, shown, end)
    for row, (first, last) in enumerate(rows):
        y = row * HIGH
        number = f"{first + 1}" if first == last else f"{first + 1}–{last + 1}"
        parts.append(f'<text x="2" y="{y + 14}" fill="#888">{number}</text>')
        for at in shown:
            past = [
                one for one in answer.former if one.position == at and one.step <= last < one.until
            ]
            token = None
            if past:
                token = past[0].token
            elif answer.steps[at] <= last:
                token = answer.token_ids[at]
            if token is None:
                continue
            new = first <= (past[0].step if past else answer.steps[at])
            fill = "#1f77b4" if new else "#777"
            style = ' text-decoration="line-through"' if past else ""
            x = LEFT + at * WIDE
            parts.append(
                f'<rect x="{x}" y="{y}" width="{WIDE - 2}" height="{HIGH - 2}" fill="{fill}"/>'
            )
            label = html.escape(text(token).strip()[:8])
            parts.append(f'<text x="{x + 3}" y="{y + 14}" fill="#fff"{style}>{label}</text>')
    width = LEFT + 2 + len(shown) * WIDE
    height = len(rows) * HIGH
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-size="12" font-family="monospace">{"".join(parts)}</svg>'
    )


def grouped(answer: Generation, shown: range, end: int) -> list[tuple[int, int]]:
    """The rows of a picture as (first step, last step): a step that changes the answer alone, those
    between them together.
    """
    changing = {answer.steps[at] for at in shown}
    for former in answer.former:
        if former.position in shown:
            changing |= {former.step, former.until}
    rows: list[tuple[int, int]] = []
    for step in range(end):
        if rows and step not in changing and rows[-1][1] not in changing:
            rows[-1] = (rows[-1][0], step)
        else:
            rows.append((step, step))
    return rows


def samplers() -> None:
    """A page per policy: rule, docstring, facts, and its decoding of one sample."""
    model = pbcore.load_model(MODEL)
    sample = pbcore.load_task(TASK, limit=1).samples[0]
    assert isinstance(model, MaskedModel)
    rows = []
    for one in described():
        if one.name not in policies():
            continue  # a modifier
        name = example(one.name)
        facts = {
            "kind": one.kind,
            "reads": GROUPS[one.group],
            "parameters": one.parameters,
            "state": one.state,
        }
        facts |= {"paper": one.paper, "forwards per step": one.forwards}
        table = "\n".join(
            f"| {key} | {value.replace('|', chr(92) + '|')} |" for key, value in facts.items()
        )
        in_blocks = "causal" in getattr(
            policies()[one.name], "needs", ()
        )  # no embedded model decodes block by block
        told = cleandoc(policies()[one.name].__doc__ or "").replace(
            "](", r"]\("
        )  # formulas, not links
        drawn = picture(name, replace(model, block=4) if in_blocks else model, sample)
        write(
            f"pictures/{one.name}.md",
            f"# {one.name}\n\n{told}\n\n| | |\n|---|---|\n{table}\n\n"
            f"`{name}` answers a sample of `{TASK}` with"
            f" `{MODEL}`{', made to decode blocks of 4' * in_blocks}. "
            "A row is a step, or several that only write what stands behind the answer; blue tokens"
            " are new in it, struck ones are taken back later.\n\n"
            f"![{name}, step by step]({one.name}.svg)\n\n"
            f"    pytest {IN_BLOCKS if in_blocks else MODEL}/shuffle/{name}\n",
        )
        write(f"pictures/{one.name}.svg", drawn)
        rows.append(
            f'<figure markdown="span">[![]({one.name}.svg){{ loading=lazy }}]({one.name}.md)'
            f"<figcaption>[{one.name}]({one.name}.md): {one.rule}</figcaption></figure>"
        )
    cards = "\n\n".join(rows)
    write(
        "pictures/index.md",
        f"# Each sampler in a picture\n\nEach answers a sample of `{TASK}` with `{MODEL}`: a row is"
        " a step, blue tokens are new in it.\n\n"
        f'<div class="pictures" markdown="1">\n\n{cards}\n\n</div>\n',
    )


def gallery() -> None:
    """A run's own page and curves, and the figures of docs/."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "pbcore/benches",
            *CELLS,
            "--out",
            str(out),
        ]
        subprocess.run(command, cwd=ROOT, check=True)
        shown = [out / "report.html", *sorted(out.glob("*.png"))]
        for file in shown:
            with mkdocs_gen_files.open(f"gallery/{file.name}", "wb") as stream:
                stream.write(file.read_bytes())
    pictures = [f"gallery/{file.name}" for file in shown[1:]]
    pictures += [file.name for file in sorted((ROOT / "docs").glob("*.png"))]
    text = "\n\n".join(f"![{Path(file).stem.replace('_', ' ')}]({file})" for file in pictures)
    link = '<a href="../gallery/report.html">the page of a small run</a>'
    write(
        "gallery.md",
        f"# Gallery\n\nLive: {link}, every answer with its decoding as a film.\n\n{text}\n",
    )


def notebook() -> None:
    """docs/notebook.ipynb: its cells and what stands under them."""
    content = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    parts = []
    for number, cell in enumerate(content.cells):
        parts.append(
            cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```"
        )
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                with mkdocs_gen_files.open(f"notebook/{number}.png", "wb") as stream:
                    stream.write(base64.b64decode(data["image/png"]))
                parts.append(f"![what cell {number} draws](notebook/{number}.png)")
            elif text := output.get("text") or data.get("text/plain"):
                parts.append(f"```text\n{text}\n```")
    write("in-ten-cells.md", "\n\n".join(parts) + "\n")


def api() -> None:
    """The public names from their docstrings."""
    whole = [f"{pbcore._WHERE.get(name, 'pbcore')}.{name}" for name in pbcore.__all__]
    whole += [f"{module}.{name}" for module, listed in API.items() for name in listed]
    parts = [
        f"::: {name}" for name in whole if name.removeprefix("pbcore.") not in pbcore._PACKAGES
    ]
    write("python.md", "# In Python\n\n" + "\n\n".join(parts) + "\n")


write("site.css", (Path(__file__).parent / "site.css").read_text(encoding="utf-8"))
changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
write("changes.md", changes.replace("](docs/", "](").replace("](CONTRIBUTING", "](../CONTRIBUTING"))
samplers()
gallery()
notebook()
api()

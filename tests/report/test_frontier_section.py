"""The table of cells beside the optimal frontier, in report.md and report.html."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.report.files import write_files
from pbcore.report.page import write_page
from pbcore.results import RunDir, create
from pbcore.results.questions import write_questions
from pbcore.tasks import load_task
from tests.report.page.test_write import Reader
from tests.results import factory

SAMPLERS = ("random-k2", "confidence-k2+rcr-max")


def run(
    root: Path, task: str = "list_ops/shuffle", questions: bool = True, name: str = "a"
) -> RunDir:
    """Four answers of four items each, in two steps, half of them right."""
    made = create(root, name)
    loaded = load_task(task, n=[4], limit=4)
    if questions:
        write_questions(made, loaded)
    entries = []
    for sampler in SAMPLERS:
        digest = loaded.data_hash if questions else "d1"
        right = (1.0, 0.0, 1.0, 0.0)
        entries.append(
            factory.cell("tiny", task, sampler, right=right, nfe=2, canvas=4, data_hash=digest)
        )
    return factory.write(made, entries)


def test_report_md(tmp_path: Path) -> None:
    """Score, steps, the best and the gap: 15/32 for four items in two steps."""
    text = write_files(run(tmp_path).path)[0].read_text(encoding="utf-8")
    rows = [
        [part.strip() for part in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("|") and "list_ops/shuffle" in line
    ]
    measured = ["list_ops/shuffle", "50.0 [15–85]", "2.00"]
    assert [row for row in rows if row[0] == "tiny"] == [
        ["tiny", "`confidence-k2+rcr-max`", *measured, "takes tokens back", "unbounded", "–"],
        ["tiny", "`random-k2`", *measured, "positions first", "46.9", "−3.1, by chance"],
    ]


def test_report_html(tmp_path: Path) -> None:
    """The same as a table that reads without a script."""
    html = write_page(run(tmp_path).path).read_text(encoding="utf-8")
    words = " ".join(" ".join(Reader(html).text).split())
    assert (
        "tiny random-k2 list_ops/shuffle 50.0 [15–85] 2.00 positions first 46.9 −3.1, by chance"
        in words
    )
    assert "takes tokens back unbounded –" in words


def test_the_command_writes_both(tmp_path: Path) -> None:
    """From several runs, too, each with its own questions."""
    runs = [
        run(tmp_path, task, name=task[-4:])
        for task in ("list_ops/shuffle", "list_ops/replace_random")
    ]
    assert main(["report", *(str(one.path) for one in runs), "-o", str(tmp_path / "out")]) == 0
    for name in ("report.md", "report.html"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        section = text[text.index("Frontier") :]
        assert section.index("list_ops/replace_random") < section.index("list_ops/shuffle")


@pytest.mark.parametrize(
    ("task", "questions"), [("list_ops/shuffle", False), ("list_ops/copy", True)]
)
def test_absent_without_questions_or_several_answers(
    tmp_path: Path, task: str, questions: bool
) -> None:
    """The n of each sample is unknown where its questions can't be had; a task with one answer has
    no frontier.
    """
    made = run(tmp_path, task, questions)
    for path in write_files(made.path)[:2]:
        assert "Frontier" not in path.read_text(encoding="utf-8")

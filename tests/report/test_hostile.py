"""Reports of names, answers and errors that hold anything: shown escaped, shortened and in their
place.
"""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pbcore.analysis.floors import broken_floors, parse_floor
from pbcore.analysis.verdict import judge
from pbcore.analysis.verdict_text import gate_markdown, gate_text
from pbcore.base.errors import InputError
from pbcore.base.text import ascii_text, code, md
from pbcore.cli import main
from pbcore.report.answer_trace import story
from pbcore.report.files import write_files
from pbcore.report.scopes import scopes
from pbcore.report.summary import answer, summary
from pbcore.report.tables import trade_off_terminal
from pbcore.results import CellRecord, SampleRecord, create, error_cell
from pbcore.results.baseline import baseline_cell
from pbcore.results.rundir import StoredCell
from pbcore.tasks.scoring import Scored
from tests.analysis.toys import rerun_command
from tests.results import factory
from tests.results.damage import ODD_TEXTS

Entry = tuple[CellRecord, list[SampleRecord]]
BAD = "\x1b[31mevil\x1b[0m|`x``\u2028\u0085\x00\ud800\r\n# <b>$"
HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
TEXTS = st.one_of(st.sampled_from(ODD_TEXTS), st.text(st.characters(), max_size=30))


def named(text: str) -> list[Entry]:
    """An evaluated cell, one without its score and a failed one, all with `text` wherever text may
    be.
    """
    entries = []
    for task in ("waiting_line/copy", "waiting_line/shuffle"):
        record, samples = factory.cell(task=task, n=4)
        changes = {"model": text, "sampler": f"{text}-k2", "id": f"{text}/{task}"}
        conditions = replace(record.conditions, data_source=text, device=text)
        entries.append(
            factory.failing(text, replace(record, conditions=conditions, **changes), samples)
        )
    first = entries[0][0]
    unscored = replace(
        first, id="u", task="puzzle/sudoku", headline="grammar", absent={"grammar": text}
    )
    failed = error_cell(replace(first, id=f"e{text}", task=f"{text}/x"), text)
    return [*entries, (unscored, entries[0][1]), (failed, [])]


def rows(page: str) -> set[int]:
    """The numbers of columns that the tables' lines have, for each table one."""
    tables = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    counts = [
        {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()} for table in tables
    ]
    assert all(len(count) == 1 for count in counts), page
    return set().union(*counts)


class TestPages:
    @pytest.mark.parametrize(
        "text",
        [
            BAD,
            *(
                pytest.param(one, marks=pytest.mark.slow)
                for one in ("x" * 10**6, "|" * 500, "`" * 500)
            ),
        ],
    )
    def test_a_run_of_bad_names(self, tmp_path: Path, text: str) -> None:
        """report.md keeps its tables' columns and every text on its line; figures are drawn; the
        summary is short.
        """
        entries = named(text)
        page = write_files(factory.write(create(tmp_path, "a"), entries).path)[0].read_text(
            encoding="utf-8"
        )
        report = factory.report(record for record, _ in entries)
        screen = summary(report, verdict=answer(report))
        assert rows(page)
        assert "<b>" not in re.sub(
            r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", page.replace("\\`", "")
        )  # within code spans it is text
        for shown in (page, screen):
            assert not HIDDEN.search(shown)
            assert max(map(len, shown.split("\n"))) < 5000
        assert "1 cell could not be run" in screen

    @given(TEXTS)
    @example("\x00")
    def test_any_name(self, text: str) -> None:
        """No text breaks the tables on the terminal, in ASCII either."""
        table = factory.rows(record for record, _ in named(text))
        for one in scopes(table)[1]:
            assert not HIDDEN.search(trade_off_terminal(one))
            trade_off_terminal(one, 40).encode("ascii", "pbcore.spelled")

    @given(TEXTS)
    def test_markdown_of_any_text(self, text: str) -> None:
        """One line, no open code span, no unescaped separator."""
        for shown in (md(text), code(text, cell=True)):
            assert "\n" not in shown
            assert not re.search(r"(?<!\\)\|", shown.replace("\\\\", ""))
        fence = re.match("`+", code(text))
        assert fence is not None
        assert code(text).endswith(fence[0])


class TestGates:
    def test_verdicts_of_bad_names(self) -> None:
        """The screen and the step summary name such cells on one line each."""
        good = [StoredCell(record, tuple(samples)) for record, samples in named(BAD)[:1]]
        bad = [
            StoredCell(record, tuple(replace(s, scores={"accuracy": 0.0}) for s in samples))
            for record, samples in named(BAD)
        ]
        verdict = judge(bad, {entry.cell.id: baseline_cell(entry) for entry in good})
        whole = gate_markdown(verdict, rerun_command)
        for shown in (gate_text(verdict, BAD.replace("\n", "")), whole):
            assert not HIDDEN.search(shown.replace(BAD.replace("\n", ""), ""))
        rows(whole)

    @pytest.mark.parametrize(
        "text",
        [
            "* accuracy>=٣",
            f"* nfe<={'9' * 400}",
            "* accuracy>=nan",
            "* accuracy>=-1",
            "\x1b",
            "x" * 10**6,
        ],
    )
    def test_floors_that_are_none(self, text: str) -> None:
        """One short line says so."""
        with pytest.raises(InputError) as raised:
            parse_floor(text)
        assert len(str(raised.value)) < 400
        assert not HIDDEN.search(str(raised.value))

    def test_a_share_above_one(self) -> None:
        """`accuracy<=98` would always hold: it is told, with what was meant."""
        record, samples = factory.cell()
        broken = broken_floors([parse_floor("* accuracy<=98")], [record])
        verdict = judge([StoredCell(record, tuple(samples))], {}).with_floors(broken)
        assert not verdict.ok
        assert "accuracy is a share from 0 to 1; write 98%" in gate_text(verdict)


class TestStory:
    def test_a_monstrous_answer(self) -> None:
        """The screen shows the answer's beginning, without control characters, and the count of
        what is left out.
        """
        sample = SimpleNamespace(index=3, prompt="Say\nhello", answer="hello", label="hello")
        task = SimpleNamespace(name="waiting_line/copy", headline="accuracy")
        answer = SimpleNamespace(text=BAD * 50_000, trajectory=None, steps=(), nfe=3)
        lines = list(
            story(
                SimpleNamespace(name="m"),
                task,
                sample,
                answer,
                Scored({"accuracy": 0.0}, {"why": BAD}),
                "pytest",
            )
        )  # type: ignore[arg-type]
        text = "\n".join(lines)
        assert not HIDDEN.search(text)
        assert len(text) < 60 * 2500
        told = re.search(r"… and 49,941 more lines; the full answer: (.*)", text)
        assert told is not None
        file = Path(told[1])
        assert (
            file.read_bytes().decode() == answer.text.encode("utf-8", "backslashreplace").decode()
        )
        file.unlink()
        assert lines[0].startswith(r"sample 3 of waiting_line/copy is wrong: \x1b[31mevil")


class TestOutput:
    def run(self, tmp_path: Path) -> str:
        return str(
            factory.write(
                create(tmp_path, "a"), [*factory.grid(("tiny",), ks=(1,)), *named("m")[3:]]
            ).path
        )

    def test_ascii(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An output that knows ASCII alone gets the same table in ASCII, its columns aligned."""
        out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["report", self.run(tmp_path), "--width", "200"]) == 0
        out.flush()
        text: Any = out.buffer
        lines = text.getvalue().decode("ascii").split("\n")
        at = next(i for i, line in enumerate(lines) if "tok/step" in line)
        assert "100 [84-100]" in lines[at + 2]
        assert len({len(line) for line in (lines[at], lines[at + 2], lines[at + 3])}) == 1

    def test_real_width(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Tables are as wide as the terminal, unless --width says otherwise."""
        run = self.run(tmp_path)
        parts = []
        for columns, options in (("60", []), ("200", []), ("60", ["--width", "200"])):
            monkeypatch.setenv("COLUMNS", columns)
            assert main(["report", run, *options]) == 0
            parts.append(capsys.readouterr().out.count("\ntiny\n"))
        assert parts[0] > 1
        assert parts[1:] == [1, 1]

    def test_signs(self) -> None:
        """Our signs have an ASCII form."""
        assert ascii_text("90±5 – · … → ≥ é") == "90+-5 - . ... -> >= \\xe9"

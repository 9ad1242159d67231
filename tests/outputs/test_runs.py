"""Options, reports, pages, tables and files of a run, whole."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.analysis.factors import factor_changes
from pbcore.analysis.frontier_gap import Room
from pbcore.cli import main
from pbcore.cli.commands import add_command, paths
from pbcore.plugin import options as plugin_options
from pbcore.report.answers import answers_alone
from pbcore.report.markdown import report_text
from pbcore.report.page import write_page
from pbcore.report.page.write import section_html
from pbcore.report.scopes import scopes
from pbcore.report.sections import exploration_section, factor_section, frontier_section
from pbcore.report.summary import answer, summary
from pbcore.report.tables import trade_off_terminal
from tests.outputs.entries import EXPLORED, FACTS, Check, readable, stored, under, varied, written
from tests.report.page.films import filmed
from tests.results import factory


class TestOptions:
    @staticmethod
    def lines(actions: Iterable[argparse.Action]) -> list[str]:
        """A line per option, in no version of argparse's own layout."""
        return [
            f"  {' '.join(one.option_strings) or one.dest}: {type(one).__name__.strip('_')} of"
            f" {getattr(one.type, '__name__', None)}, metavar {one.metavar}, nargs {one.nargs},"
            f" const {one.const}, default {one.default}, choices"
            f" {one.choices and list(one.choices)}, required {one.required}: {one.help}"
            for one in actions
            if not isinstance(one, argparse._HelpAction)
        ]

    def test_commands(self, same: Check) -> None:
        """Every option of every command, with its help."""
        text = []
        for path in paths():
            parser: argparse.ArgumentParser = argparse.ArgumentParser("pbcore")
            add_command(parser.add_subparsers(), path)
            for name in path:
                (nested,) = (
                    action
                    for action in parser._actions
                    if isinstance(action, argparse._SubParsersAction)
                )
                parser = nested.choices[name]
            text += [f"{' '.join(path)}: {parser.description}"]
            if parser.epilog:
                text += [f"  epilog: {parser.epilog}"]
            text += self.lines(parser._actions)
        same("\n".join(text))

    def test_pytest(self, same: Check) -> None:
        """Every option and ini value that the plugin and the neighbours add."""
        text: list[str] = []

        class Group:
            def addoption(self, *names: str, **how: Any) -> None:
                if names[0].startswith(
                    "--pbcore-"
                ):  # the other spelling of the option that follows
                    return
                kind = how.pop("type", None)
                told = ", ".join(f"{key} {value!r}" for key, value in sorted(how.items()))
                text.append(
                    f"{' '.join(names)}:"
                    f" {getattr(kind, '__name__', getattr(kind, 'refused', kind))}; {told}"
                )

            def addini(self, name: str, help: str, *more: Any, **how: Any) -> None:
                text.append(f"ini {name}: {help}; {more} {sorted(how.items())}")

            def getgroup(self, *words: str) -> Group:
                text.append(f"group {words}")
                return self

        plugin_options.pytest_addoption(Group())  # type: ignore[arg-type]
        same("\n".join(text))


class TestRun:
    def test_report(self, same: Check) -> None:
        """report.md."""
        entries = varied()
        same(
            report_text(
                factory.report(
                    (record for record, _ in entries),
                    map(answers_alone, stored(entries)),
                    **FACTS,
                ),
                ["curves.png", "speed.png"],
            )
        )

    def test_summary(self, same: Check) -> None:
        """The end of a run on the terminal."""
        entries = varied()
        answers = list(map(answers_alone, stored(entries)))
        records = [record for record, _ in entries]
        report = factory.report(records, answers, **FACTS)
        parts = []
        for detailed in (False, True):
            verdict = answer(report, 80, detailed)
            parts.append(summary(report, 80, detailed, verdict))
        same("\n\n".join(parts))

    def test_tables(self, same: Check) -> None:
        """`pbcore report` on a wide and on a narrow terminal, and one without Unicode."""
        tables = scopes(factory.rows(record for record, _ in varied()))[1]
        same(
            "\n\n".join(trade_off_terminal(table, width) for table in tables for width in (120, 60))
        )

    def test_sections(self, same: Check) -> None:
        """What changes with factors, the order and variety of answers, and the frontier, in both
        renderings.
        """
        entries = []
        for threads, right in ((1, [1.0, 0.0, 1.0]), (8, [0.0, 1.0, 1.0])):
            for dtype in ("float32", "bfloat16"):
                cell, samples = under(
                    factory.cell(right=right),
                    level={"threads": threads, "dtype": dtype},
                    dtype=dtype,
                )
                cell = replace(
                    cell, id=f"{cell.id}/threads:{threads}+dtype:{dtype}", decoding=EXPLORED
                )
                entries.append(
                    (cell, [replace(one, text=f"{one.index} {right}") for one in samples])
                )
        rooms = [
            Room("ideal", "list_ops/shuffle", "random-k2", "order", 0.5, 0.4, 0.6, 5.0, 0.625),
            Room("ideal", "list_ops/shuffle", "wino-0.6", "back", 0.9, 0.8, 0.95, 4.0, None),
        ]
        sections = [
            factor_section(factor_changes(stored(entries))),
            exploration_section(factory.rows(record for record, _ in entries)),
            frontier_section(rooms),
        ]
        same(
            "\n".join(
                part for one in sections for part in (one.markdown(), readable(section_html(one)))
            )
        )

    def test_page(self, same: Check, tmp_path: Path) -> None:
        """report.html without its script, its style and its data."""
        same(
            readable(
                write_page(written(tmp_path, map(filmed, varied())).path).read_text(
                    encoding="utf-8"
                )
            )
        )

    def test_ceilings_and_published(
        self, same: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """`pbcore report --ceilings --against-published`."""
        entries = [
            factory.cell("LLaDA", f"waiting_line/{task}", f"confidence-k{k}", right=1 / k, n=20)
            for task in ("copy", "shuffle")
            for k in (1, 2)
        ]
        path = written(tmp_path, [*entries, *varied()]).path
        assert (
            main(["report", str(path), "--ceilings", "--against-published", "--width", "160"]) == 0
        )
        same(capsys.readouterr().out)

    def test_junit(self, same: Check, tmp_path: Path) -> None:
        """The JUnit file of merged runs; zlib's bytes are not the same everywhere."""
        paths = [written(tmp_path, varied()[i::6], f"part{i}", shard=None).path for i in (0, 1)]
        assert main(["merge", *map(str, paths), "-o", str(tmp_path / "whole")]) == 0
        text = (tmp_path / "whole" / "junit.xml").read_text(encoding="utf-8")
        text = re.sub(r'(timestamp|hostname|time)="[^"]*"', r'\1="…"', text)
        text = re.sub(r'(name="pbcore_record" value=)"[^"]+"', r'\1"…"', text)
        same(text.replace("><", ">\n<"))

    def test_export(self, same: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """`pbcore export --csv`: both files."""
        run = written(tmp_path, [*map(filmed, varied()[:2]), varied()[-1]])
        assert main(["export", str(run.path), "--csv", str(tmp_path / "out")]) == 0
        said = capsys.readouterr().out.replace(str(tmp_path), "")
        same(
            "\n".join(
                [said, *(path.read_text("utf-8") for path in sorted((tmp_path / "out").iterdir()))]
            )
        )

"""Answers kept by an earlier run that were edited or damaged: what can't be used is left out and
said, and the run, its summary and each later resume go on.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.extras.servers.reply import AnswerStore, Reply, read_answers
from tests.extras.servers.fake import Act, FakeServer
from tests.extras.servers.served import FIVE, declare, stored
from tests.plugin.conftest import Run

REPLY = Reply(
    "a b", 1.5, "2026-01-01T00:00:00", 0.5, "m", "stop", 7, 3, 4, (1, 2), ("a", " b"), outcomes=()
)
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with one answer."""
    file = tmp_path / "cell.answers.jsonl"
    AnswerStore(file).add("k", REPLY, {"cost": 0.25})
    return file


class TestReading:
    def test_whole(self, path: Path) -> None:
        """What was written comes back."""
        kept = read_answers(path)
        assert (kept.replies, kept.costs, kept.left_out) == ({"k": REPLY}, [0.25], [])

    def test_a_field_of_another_name(self, path: Path) -> None:
        """Is passed over, whatever the name."""
        edit(path, "\ud800", 1)
        assert read_answers(path).replies == {"k": REPLY}

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("first_token", -1.0),
            ("first_token", "1"),
            ("model", 5),
            ("finish", []),
            ("tokens_in", 1.5),
            ("tokens_out", -3),
            ("tokens_out", 10**300),
            ("nfe", True),
            ("step_map", "soon"),
            ("step_map", 5),
            ("step_map", [1, "2"]),
            ("step_map", [-1]),
            ("tokens", {"a": 1}),
            ("tokens", [None]),
        ],
    )
    def test_a_value_beside_the_text(self, path: Path, name: str, value: Any) -> None:
        """Is left out alone."""
        edit(path, name, value)
        kept = read_answers(path)
        assert getattr(kept.replies["k"], name) is None
        assert kept.replies["k"].text == "a b"
        (fault,) = kept.left_out
        assert fault.startswith(f"{path.name}, line 1: {name} ")

    @pytest.mark.parametrize("name", ["cost", "at_most"])
    @pytest.mark.parametrize(
        "value", ["1", float("nan"), float("inf"), -1, 1e300, 10**400, True, [], {}]
    )
    def test_a_cost(self, path: Path, name: str, value: Any) -> None:
        """Counts only as an amount."""
        edit(path, name, value)
        kept = read_answers(path)
        assert kept.replies["k"] == REPLY
        assert (kept.costs, kept.at_most) == ([] if name == "cost" else [0.25], [])
        assert len(kept.left_out) == 1

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("text", None),
            ("text", 5),
            ("seconds", "1"),
            ("seconds", float("nan")),
            ("asked", None),
            ("outcomes", None),
            ("outcomes", ["odd"]),
            ("outcomes", [{}]),
        ],
    )
    def test_a_reply_that_cannot_be_scored(self, path: Path, name: str, value: Any) -> None:
        """Counts as not answered; what it cost is still spent."""
        edit(path, name, value)
        kept = read_answers(path)
        assert (kept.replies, kept.costs) == ({}, [0.25])
        assert "counts as not answered" in kept.left_out[-1]

    @pytest.mark.parametrize("word", ["abort", "error"])
    def test_an_answer_that_the_model_did_not_end(self, path: Path, word: str) -> None:
        """Counts as not answered, which is said; what it cost is spent."""
        edit(path, "finish", word)
        kept = read_answers(path)
        assert (kept.replies, kept.costs) == ({}, [0.25])
        assert kept.left_out == [
            f"{path.name}, line 1: the server ended it ({word!r}), so it counts as not answered"
        ]

    @pytest.mark.parametrize(
        "line", ["[1]", "5", '{"text": "a"}', '{"key": 5}', "{", "\x00", DEEP, '{"key": ' + DEEP]
    )
    def test_another_line(self, path: Path, line: str) -> None:
        """Is named by its number; those before and after it count."""
        path.write_text(f"{line}\n{path.read_text()}")
        kept = read_answers(path)
        assert list(kept.replies) == ["k"]
        assert kept.left_out[0].startswith(f"{path.name}, line 1: it ")

    def test_bytes_that_are_no_text(self, path: Path) -> None:
        path.write_bytes(path.read_bytes().replace(b"a b", b"a \xff b"))
        kept = read_answers(path)
        assert (kept.replies, len(kept.left_out)) == ({}, 1)


def edit(path: Path, name: str, value: Any) -> None:
    """Puts a value in each line of a file of answers."""
    rows = [{**json.loads(line), name: value} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class TestRuns:
    @pytest.mark.parametrize(
        ("name", "value", "asked"),
        [
            ("cost", float("nan"), 0),
            ("step_map", 5, 0),
            ("text", 5, 5),
        ],
    )
    def test_go_on(
        self,
        project: pytest.Pytester,
        run: Run,
        server: FakeServer,
        name: str,
        value: Any,
        asked: int,
    ) -> None:
        """At each later resume; only what has no answer any more is asked again, and the summary
        says what was left out.
        """
        declare(project, server, prices="{input: 1.0, output: 1.0}")
        run(f"{FIVE} --out out --max-cost 1").assert_outcomes(passed=1)
        (file,) = (project.path / "out" / "cells").glob("*.answers.jsonl")
        (cell,) = (project.path / "out" / "cells").glob("*.json")
        edit(file, name, value)
        cell.unlink()
        for again in range(2):
            output = run(f"{FIVE} --resume out --max-cost 1")
            assert output.ret == 0
            output.stdout.fnmatch_lines([f"of the answers kept, left out: * line 1: {name} *"])
            if not again:
                output.stdout.fnmatch_lines([f"*LeftOutWarning: * line 1: {name} *"])
        assert len(server.asked) == 5 + asked
        assert stored(project).cell.scores["accuracy"].mean == 1

    def test_answers_without_a_count_count_at_resume(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """What their requests reserved is taken as spent by --max-cost in a later run, too."""
        script = server.script
        server.script = lambda number, body: without_count(script(number, body))
        keys = {"prices": "{input: 0.0, output: 1000.0}", "max_tokens": 100, "concurrency": 1}
        declare(project, server, **keys)
        run(f"{FIVE} --out out --max-cost 0.25").assert_outcomes(failed=1)
        assert len(server.asked) == 2
        output = run(f"{FIVE} --resume out --max-cost 0.25")
        output.assert_outcomes(failed=1)
        output.stdout.fnmatch_lines(["*--max-cost 0.25: 0.2000 USD are spent*"])
        assert len(server.asked) == 2
        run(f"{FIVE} --resume out --max-cost 0.50001").assert_outcomes(passed=1)


def without_count(act: Act) -> Act:
    """An answer whose server doesn't count its tokens."""
    return replace(act, tokens_in=None)

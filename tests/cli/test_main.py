"""The command `pbcore`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.cli.commands import COMMANDS, paths


class TestMain:
    def test_help_is_quick(self) -> None:
        """`pbcore --help` names every command without importing torch, pandas or matplotlib."""
        code = (
            "import sys; from pbcore.cli import main\ntry: main(['--help'])\nexcept SystemExit:"
            " pass\nprint({'torch', 'pandas', 'matplotlib'} & set(sys.modules))"
        )
        said = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        assert said.splitlines()[-1] == "set()"
        lines = said.splitlines()
        groups = [line for line in lines if line in ("run:", "read:", "keep:")]
        assert groups == ["run:", "read:", "keep:"]
        assert lines[lines.index("run:") + 1].startswith("  pytest benches  ")
        assert all(f"  {name} " in said for name in COMMANDS)
        assert max(map(len, lines)) <= 80

    @pytest.mark.parametrize("path", paths(), ids=" ".join)
    def test_every_command_is_there(
        self, path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Each has a module, whose options its help lists, under its own line."""
        with pytest.raises(SystemExit) as end:
            main([*path, "--help"])
        assert end.value.code == 0
        assert f"usage: pbcore {' '.join(path)} " in capsys.readouterr().out

    @pytest.mark.parametrize("name", [name for name, of in COMMANDS.items() if of.alone is None])
    def test_a_part_has_to_be_named(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """`pbcore list` says what can be listed, and its help what each list is."""
        with pytest.raises(SystemExit):
            main([name])
        assert f"required: {{{','.join(COMMANDS[name].parts)}}}" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            main([name, "--help"])
        said = " ".join(capsys.readouterr().out.split())
        assert all(line in said for line in COMMANDS[name].parts.values())

    def test_what_cannot_be_done_is_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A known kind of error gives exit status 2 and one line, no traceback."""
        assert main(["list", "tasks", "--tasks", "/nowhere.yaml"]) == 2
        said = capsys.readouterr().err.splitlines()
        assert said == [
            "pbcore list tasks: no tasks file /nowhere.yaml; give a YAML file with one entry per"
            " task"
        ]

    def test_a_missing_file_is_named_without_errno(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """An error of the system: the file, then what is wrong with it."""
        file = tmp_path / "corpus.txt"
        assert (
            main(
                [
                    "list",
                    "samplers",
                    "--frequencies",
                    str(file),
                    "--model",
                    "tiny",
                    "--output",
                    str(tmp_path / "f.json"),
                ]
            )
            == 2
        )
        assert (
            capsys.readouterr().err == f"pbcore list samplers: {file}: No such file or directory\n"
        )

    @pytest.mark.parametrize("command", ["list samplers", "list tasks", "figures theory"])
    def test_a_terminal_without_unicode(self, command: str) -> None:
        """Signs are spelled in ASCII where the terminal lacks them; nothing is raised."""
        code = f"import sys; from pbcore.cli import main; sys.exit(main({command.split()}))"
        ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=ascii_only
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()
        assert "?" not in done.stdout

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("nosuch", "known: price, "),
            ("estimate", "it is an option of the run: pytest benches --estimate\n"),
            ("samplers", "did you mean pbcore list samplers?\n"),
            ("models", "did you mean pbcore list models?\n"),
            ("languagetool", "did you mean pbcore install languagetool?\n"),
            ("figure-theory", "did you mean pbcore figures theory"),
            ("theoy", "did you mean pbcore figures theory?\n"),
            ("reprot", "did you mean pbcore report"),
        ],
    )
    def test_an_unknown_command(
        self, name: str, hint: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The part of a command that has this name, an option of the run, near commands, or all."""
        with pytest.raises(SystemExit) as end:
            main([name])
        assert end.value.code == 2
        assert f"there is no command {name!r}; {hint}" in capsys.readouterr().err

    def test_a_closed_pipe_is_not_success(self) -> None:
        """Status 141 and no traceback: `pbcore compare A B | head` under pipefail must not pass for
        a verdict.
        """
        reader, writer = os.pipe()
        os.close(reader)
        code = "import sys; from pbcore.cli import main; sys.exit(main(['list', 'tasks']))"
        try:
            done = subprocess.run(
                [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE
            )
        finally:
            os.close(writer)
        assert (done.returncode, done.stderr) == (141, b"")


class TestCompletion:
    @pytest.mark.parametrize(
        ("line", "follows"),
        [
            ("pbcore pri", ["price"]),
            ("pbcore list sa", ["samplers"]),
            ("pbcore list models --f", ["--families"]),
            ("pbcore figures th", ["theory"]),
            ("pbcore compare --m", ["--markdown", "--model"]),
            ("pytest benches --samp", ["--sample", "--sampler"]),
        ],
    )
    def test_the_shell_is_told_what_can_follow(
        self, line: str, follows: list[str], tmp_path: Path
    ) -> None:
        """Commands, their options, and those of pytest, in the way bash asks through
        argcomplete.
        """
        asked = {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_COMP_WORDBREAKS": " ",
            "_ARGCOMPLETE_IFS": "\n",
            "COMP_TYPE": "9",
        }
        asked |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
        asked["_ARGCOMPLETE_STDOUT_FILENAME"] = str(tmp_path / "out")
        program = ["-m", line.partition(" ")[0]]
        subprocess.run(
            [sys.executable, *program], env={**os.environ, **asked}, check=True, capture_output=True
        )
        assert sorted((tmp_path / "out").read_text().split()) == follows


class TestListing:
    def test_tasks_are_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The paper's 17 and the list operations, with their numbers."""
        assert main(["list", "tasks"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert any(line.split()[:2] == ["puzzle/sudoku", "108"] for line in lines)
        assert len(lines) >= 2 + 21

    def test_samplers_are_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Each policy with its parameters, defaults and paper."""
        assert main(["list", "samplers", "--details"]) == 0
        said = capsys.readouterr().out
        assert "gamma = 0.9; arXiv 2505.22618" in said
        assert "k (or a schedule); arXiv 2502.09992" in said

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (["--model", "tiny"], "give --frequencies CORPUS too"),
            (
                [
                    "--frequencies",
                    "{folder}/binary",
                    "--model",
                    "tiny",
                    "--output",
                    "{folder}/f.json",
                ],
                "not UTF-8 text",
            ),
            (
                ["--frequencies", "train", "--model", "tiny", "--output", "{folder}"],
                "give a file in a folder that exists",
            ),
            (
                ["--frequencies", "train", "--model", "tiny", "--output", "{folder}/no/f"],
                "give a file in a folder that exists",
            ),
        ],
    )
    def test_what_cannot_be_counted(
        self, options: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Options without effect, a corpus that is no text and a table that can't be written are
        refused, before anything is counted.
        """
        (tmp_path / "binary").write_bytes(b"\xff\xfe")
        assert (
            main(["list", "samplers", *(option.format(folder=tmp_path) for option in options)]) == 2
        )
        assert complaint in capsys.readouterr().err

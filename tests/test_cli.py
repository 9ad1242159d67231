"""The command `pbcore`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from pbcore.cli import COMMANDS, main


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
        assert all(f"    {name}" in said for name in COMMANDS)

    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_command_is_there(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Each module adds the command it is listed for."""
        module = import_module(COMMANDS[name][0])
        assert any(hasattr(module, kind) for kind in ("add_parsers", "add_parser", "run"))
        with pytest.raises(SystemExit) as end:
            main([name, "--help"])
        assert end.value.code == 0
        assert f"usage: pbcore {name}" in capsys.readouterr().out

    def test_what_cannot_be_done_is_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A known kind of error gives exit status 2 and one line, no traceback."""
        assert main(["tasks", "--tasks", "/nowhere.yaml"]) == 2
        said = capsys.readouterr().err.splitlines()
        assert said == [
            "pbcore tasks: no tasks file /nowhere.yaml; give a YAML file with one entry per task"
        ]

    def test_a_missing_file_is_named_without_errno(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """An error of the system: the file, then what is wrong with it."""
        file = tmp_path / "corpus.txt"
        assert (
            main(
                [
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
        assert capsys.readouterr().err == f"pbcore samplers: {file}: No such file or directory\n"

    @pytest.mark.parametrize("command", ["samplers", "tasks", "theory"])
    def test_a_terminal_without_unicode(self, command: str) -> None:
        """Signs are spelled in ASCII where the terminal lacks them; nothing is raised."""
        code = f"import sys; from pbcore.cli import main; sys.exit(main(['{command}']))"
        ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=ascii_only
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()
        assert "?" not in done.stdout

    def test_an_unknown_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The commands there are are named."""
        with pytest.raises(SystemExit) as end:
            main(["nosuch"])
        assert end.value.code == 2
        assert "there is no command 'nosuch'; known: tasks, samplers" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            main(["estimate"])
        said = capsys.readouterr().err
        assert "it is an option of the run: pytest benches --estimate" in said

    def test_a_misspelt_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Close ones are named instead of all."""
        with pytest.raises(SystemExit):
            main(["docter"])
        assert capsys.readouterr().err.endswith(
            "there is no command 'docter'; did you mean doctor, theory?\n"
        )

    def test_a_closed_pipe_is_not_success(self) -> None:
        """Status 141 and no traceback: `pbcore compare A B | head` under pipefail must not pass for
        a verdict.
        """
        reader, writer = os.pipe()
        os.close(reader)
        code = "import sys; from pbcore.cli import main; sys.exit(main(['tasks']))"
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
            ("pbcore sam", ["samplers"]),
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
        assert main(["tasks"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert any(line.split()[:2] == ["puzzle/sudoku", "108"] for line in lines)
        assert len(lines) >= 2 + 21

    def test_samplers_are_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Each policy with its parameters, defaults and paper."""
        assert main(["samplers", "--details"]) == 0
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
        assert main(["samplers", *(option.format(folder=tmp_path) for option in options)]) == 2
        assert complaint in capsys.readouterr().err

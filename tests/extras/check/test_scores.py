"""`pbcore check scores`: a good copy passes, every kind of damage is found, and differing scores of
a run are counted.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.extras.check.command_scores import verify
from pbcore.results import CellRecord, Conditions, build_cell, create
from pbcore.tasks import load_task
from tests.reference import reference
from tests.results import factory

official = cache(verify)


@pytest.fixture
def looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The official files, for what is printed of them."""
    monkeypatch.setattr("pbcore.extras.check.command_scores.verify", official)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A writable copy of one official group."""
    for group in ("waiting_line", "puzzle"):
        shutil.copytree(
            reference("official-v1", group), tmp_path / group, copy_function=shutil.copyfile
        )
        (tmp_path / group).chmod(0o755)
    return tmp_path


def run(*arguments: str | Path) -> int:
    return main(["check", "scores", *map(str, arguments)])


class TestVerify:
    def test_the_official_files_pass(
        self, looked_at_once: None, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """27 files without fault; the order of the sort labels is counted and named."""
        assert run("--data-dir", reference("official-v1")) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert "27 files, 2,708 samples, 2311 labels scored; no fault" in printed
        assert "95 of 100 labels are in the order of the whole names" in printed
        assert "100 of 100 labels are in the order of the whole names" in printed
        assert "0 of 100 labels have a row with an extra cell" in printed

    def test_a_narrow_terminal(
        self,
        looked_at_once: None,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Remarks stand under their file."""
        monkeypatch.setenv("COLUMNS", "80")
        assert run("--data-dir", reference("official-v1")) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
        place = next(i for i, line in enumerate(lines) if line.startswith("waiting_line/sort "))
        assert lines[place + 1].startswith("    95 of 100 labels are in the order of the whole")

    def test_damage_is_found(self, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A wrong label, a broken row, a changed prompt, a missing group: each is named, and the
        command fails.
        """
        sudoku = copy / "puzzle/sudoku_n4_12.jsonl"
        sudoku.write_text(
            sudoku.read_text().replace(
                '"answer": "1342\\n2431\\n4123\\n3214", "metadata"', '"answer": "1", "metadata"', 1
            )
        )
        config = copy / "waiting_line/task_config.yaml"
        config.write_text(
            config.read_text().replace("Please copy the list", "Please repeat the list")
        )
        with (copy / "waiting_line/shuffle.jsonl").open("a") as file:
            file.write("{broken\n")
        shuffled = copy / "waiting_line/insert_random.jsonl"
        shuffled.write_text(
            shuffled.read_text().replace('"example":"[\\"Justin McDonald\\", ', '"example":"[', 1)
        )
        reverse = copy / "waiting_line/reverse.jsonl"
        reverse.write_text(
            reverse.read_text().replace('"answer":"[\\"Henry Young', '"answer":"[\\"Henry Old', 1)
        )
        assert run("--data-dir", copy) == 1
        printed = capsys.readouterr().out
        assert (
            "sudoku_n4_12.jsonl, line 1: answer '1'; give four lines of four digits from 1 to 4"
            in printed
        )
        assert "waiting_line/insert_random: sample 0: its label scores 0 (accuracy)" in printed
        assert (
            "waiting_line/reverse: sample 0: its label is not the answer to its question" in printed
        )
        assert "the prompt of waiting_line/copy differs" in printed
        assert "shuffle.jsonl, line 101" in printed
        assert "text_writing/w2s_easy: text_writing/w2s_easy: no file" in printed

    def test_a_wrong_worked_example_is_found(self, copy: Path) -> None:
        """The answers of the shots are checked too."""
        path = copy / "waiting_line/copy.jsonl"
        path.write_text(
            path.read_text().replace(
                '"answer":"[\\"Michelle Edwards', '"answer":"[\\"Michelle Edward', 1
            )
        )
        [found] = [found for found in verify(copy) if found.task == "waiting_line/copy"]
        assert found.right == found.labels == 100
        assert found.errors == ["sample 0: the answer of its worked example is wrong"]

    def test_word_sets_of_every_size_pass(self, tmp_path: Path) -> None:
        """1, 3, 4, 5, 6 and 7 words beside the usual four: 100 samples each, the prompt for one
        word too.
        """
        group = tmp_path / "words_to_sentence"
        shutil.copytree(
            reference("official-v1-words", "words_to_sentence"),
            group,
            copy_function=shutil.copyfile,
        )
        found = [one for one in verify(tmp_path) if one.task == "text_writing/w2s_hard"]
        assert [(one.n, one.samples, one.errors) for one in found] == [
            (n, 100, []) for n in (None, 1, 3, 4, 5, 6, 7)
        ]

    def test_a_changed_prompt_of_one_size_is_found(self, tmp_path: Path) -> None:
        """Each size's prompt is compared with its own."""
        group = tmp_path / "words_to_sentence"
        shutil.copytree(
            reference("official-v1-words", "words_to_sentence"),
            group,
            copy_function=shutil.copyfile,
        )
        group.chmod(0o755)
        config = group / "task_config.yaml"
        config.write_text(
            config.read_text().replace("using the word {words}", "using the words {words}")
        )
        wrong = [one for one in verify(tmp_path) if one.samples and one.errors]
        assert [(one.task[-4:], one.n) for one in wrong] == [("easy", 1), ("dium", 1), ("hard", 1)]
        assert "the prompt of words_to_sentence/easy_n1 differs" in wrong[0].errors[0]

    def test_a_file_without_rows_of_its_n_is_found(self, copy: Path) -> None:
        """No samples are a fault, whether the file is empty or holds other lengths."""
        (copy / "waiting_line_n9").mkdir()
        shutil.copyfile(copy / "waiting_line/copy.jsonl", copy / "waiting_line_n9/copy.jsonl")
        (copy / "waiting_line/sort.jsonl").write_text("")
        errors = {(one.task, one.n): one.errors for one in verify(copy)}
        assert "has no sample with n = 9" in errors["waiting_line/copy", 9][0]
        assert "sort.jsonl has no rows" in errors["waiting_line/sort", None][0]
        assert run("--data-dir", copy) == 1

    def test_fewer_rows_are_remarked(self, copy: Path) -> None:
        """A shortened file is no fault, but said."""
        path = copy / "puzzle/latin_square_n4.jsonl"
        path.write_text("\n".join(path.read_text().splitlines()[:10]))
        [found] = [found for found in verify(copy) if found.task == "puzzle/latin_square"]
        assert found.errors == []
        assert "10 samples, officially 100" in found.notes

    def test_a_prompt_file_that_cannot_be_read(self, copy: Path) -> None:
        """The file and line are named; the samples are checked all the same."""
        config = copy / "puzzle/task_config.yaml"
        config.write_bytes(b"a: \xff\n")
        [sudoku] = [one for one in verify(copy) if one.task == "puzzle/sudoku"]
        assert sudoku.errors == [f"{config}, line 1: not UTF-8 (byte 0xff); save the file as UTF-8"]
        assert sudoku.labels == 108

    def test_wrong_folder(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A folder that isn't there, or holds something else, is one clear line on stderr."""
        assert run("--data-dir", tmp_path / "none") == 2
        assert "no folder" in capsys.readouterr().err
        assert run("--data-dir", tmp_path) == 2
        assert (
            "is not the official data: it contains none of paraphrase_summarize/"
            in capsys.readouterr().err
        )

    def test_nothing_to_check(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Neither a folder nor a run is one line that says what to give."""
        assert run() == 2
        assert "give --data-dir DIR, --run RUN, or both" in capsys.readouterr().err


def answered(
    folder: Path, name: str, answers: list[str], metrics: frozenset[str] | None = None
) -> Path:
    """A run directory with one cell of `tiny`: these answers to the first samples of a task, scored
    as a run scores them.
    """
    task = load_task(name, limit=len(answers))
    facts = CellRecord(
        f"tiny/{name.split('/')[1]}/random-k2",
        "tiny",
        name,
        "random-k2",
        Conditions.unknown(),
        headline="accuracy",
    )
    given = [factory.answer(text=text) for text in answers]
    directory = create(folder, name.replace("/", "-"))
    directory.write_cell(
        *build_cell(facts, given, task.score_many(answers, task.samples, metrics), rounds=[1.0])
    )
    return directory.path


class TestRun:
    def test_answers_scored_differently_are_counted_and_named(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One list over several lines among four answers: one differs, with its sample's number and
        the reason.
        """
        right = [str(sample.answer) for sample in load_task("waiting_line/copy", limit=4).samples]
        lines = "[\n  " + ",\n  ".join(f'"{item}"' for item in json.loads(right[2])) + "\n]"
        assert (
            run(
                "--run",
                answered(tmp_path, "waiting_line/copy", [right[0], "nothing", lines, right[3]]),
            )
            == 0
        )
        printed = capsys.readouterr().out
        [row] = [
            line.split() for line in printed.splitlines() if line.startswith("waiting_line/copy")
        ]
        assert row == ["waiting_line/copy", "4", "accuracy", "accuracy_any_layout", "1", "1", "0"]
        assert (
            "tiny/copy/random-k2, sample 2: accuracy 0, accuracy_any_layout 1; right in another"
            " layout" in printed
        )
        assert "the list spans several lines" in printed
        assert printed.splitlines()[-1].endswith("answers: 4, cells: 1, scored differently: 1")

    def test_scores_as_asked_are_counted_too(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A Latin square with an extra cell counts officially, and not as asked: that score is
        lower.
        """
        square = str(load_task("puzzle/latin_square", limit=1).samples[0].answer)
        wide = square.replace("\n", f",{square[0]}\n", 1)
        assert run("--run", answered(tmp_path, "puzzle/latin_square", [wide])) == 0
        rows = [
            line.split()[2:]
            for line in capsys.readouterr().out.splitlines()
            if line.startswith("puzzle/")
        ]
        assert rows == [
            ["accuracy", "accuracy_any_layout", "0", "0", "0"],
            ["accuracy", "accuracy_as_asked", "1", "0", "1"],
        ]

    def test_several_runs_and_data(
        self, tmp_path: Path, copy: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Each run is told of by itself, after the data; faults of the data still fail."""
        paths = [
            answered(tmp_path, name, ["[]"])
            for name in ("waiting_line/copy", "waiting_line/reverse")
        ]
        assert run("--data-dir", copy, "--run", *paths) == 1
        printed = capsys.readouterr().out
        assert [
            f"{path}: answers: 1, cells: 1, scored differently: 0" in printed for path in paths
        ] == [True, True]

    def test_a_run_without_corrected_scores(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Said in a line, and no fault."""
        path = answered(tmp_path, "waiting_line/copy", ["[]"], frozenset({"accuracy"}))
        assert run("--run", path) == 0
        assert "answers: 1, none with a corrected score" in capsys.readouterr().out

    def test_no_run(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A folder that is no run directory is one line on stderr."""
        assert run("--run", tmp_path) == 2
        assert "is not a run directory" in capsys.readouterr().err

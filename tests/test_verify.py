"""`pbcore verify`: a good copy passes, and every kind of damage is found."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pytest

from pbcore import verify as command
from pbcore.verify import verify
from tests.reference import reference


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A writable copy of one official group."""
    for group in ("waiting_line", "puzzle"):
        shutil.copytree(reference("official-v1", group), tmp_path / group, copy_function=shutil.copyfile)
        (tmp_path / group).chmod(0o755)
    return tmp_path


def run(folder: Path) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["verify", "--data-dir", str(folder)])
    code: int = args.run(args)
    return code


class TestVerify:
    def test_the_official_files_pass(self, capsys: pytest.CaptureFixture[str]) -> None:
        """27 files without fault; the order of the sort labels is counted and named."""
        assert run(reference("official-v1")) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert "27 files, 2708 samples, 2311 labels scored; no fault" in printed
        assert "95 of 100 labels are in the order of the whole names" in printed
        assert "100 of 100 labels are in the order of the whole names" in printed
        assert "0 of 100 labels have a row with an extra cell" in printed

    def test_damage_is_found(self, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A wrong label, a broken row, a changed prompt, a missing group: each is named, and the command fails."""
        sudoku = copy / "puzzle/sudoku_n4_12.jsonl"
        sudoku.write_text(
            sudoku.read_text().replace(
                '"answer": "1342\\n2431\\n4123\\n3214", "metadata"', '"answer": "1", "metadata"', 1
            )
        )
        config = copy / "waiting_line/task_config.yaml"
        config.write_text(config.read_text().replace("Please copy the list", "Please repeat the list"))
        with (copy / "waiting_line/shuffle.jsonl").open("a") as file:
            file.write("{broken\n")
        shuffled = copy / "waiting_line/insert_random.jsonl"
        shuffled.write_text(shuffled.read_text().replace('"example":"[\\"Justin McDonald\\", ', '"example":"[', 1))
        reverse = copy / "waiting_line/reverse.jsonl"
        reverse.write_text(reverse.read_text().replace('"answer":"[\\"Henry Young', '"answer":"[\\"Henry Old', 1))
        assert run(copy) == 1
        printed = capsys.readouterr().out
        assert "puzzle/sudoku: sample 0: its label scores 0 (accuracy)" in printed
        assert "waiting_line/insert_random: sample 0: its label scores 0 (accuracy)" in printed
        assert "waiting_line/reverse: sample 0: its label is not the answer to its question" in printed
        assert "the prompt of waiting_line/copy differs" in printed
        assert "shuffle.jsonl, line 101" in printed
        assert "text_writing/w2s_easy: text_writing/w2s_easy: no file" in printed

    def test_a_wrong_worked_example_is_found(self, copy: Path) -> None:
        """The answers of the shots are checked too."""
        path = copy / "waiting_line/copy.jsonl"
        path.write_text(path.read_text().replace('"answer":"[\\"Michelle Edwards', '"answer":"[\\"Michelle Edward', 1))
        [found] = [found for found in verify(copy) if found.task == "waiting_line/copy"]
        assert found.right == found.labels == 100
        assert found.errors == ["sample 0: the answer of its worked example is wrong"]

    def test_word_sets_of_every_size_pass(self, tmp_path: Path) -> None:
        """1, 3, 4, 5, 6 and 7 words beside the usual four: 100 samples each, the prompt for one word too."""
        group = tmp_path / "words_to_sentence"
        shutil.copytree(reference("official-v1-words", "words_to_sentence"), group, copy_function=shutil.copyfile)
        found = [one for one in verify(tmp_path) if one.task == "text_writing/w2s_hard"]
        assert [(one.n, one.samples, one.errors) for one in found] == [(n, 100, []) for n in (None, 1, 3, 4, 5, 6, 7)]

    def test_a_changed_prompt_of_one_size_is_found(self, tmp_path: Path) -> None:
        """Each size's prompt is compared with its own."""
        group = tmp_path / "words_to_sentence"
        shutil.copytree(reference("official-v1-words", "words_to_sentence"), group, copy_function=shutil.copyfile)
        group.chmod(0o755)
        config = group / "task_config.yaml"
        config.write_text(config.read_text().replace("using the word {words}", "using the words {words}"))
        wrong = [one for one in verify(tmp_path) if one.samples and one.errors]
        assert [(one.task[-4:], one.n) for one in wrong] == [("easy", 1), ("dium", 1), ("hard", 1)]
        assert "the prompt of words_to_sentence/easy_n1 differs" in wrong[0].errors[0]

    def test_a_file_without_rows_of_its_n_is_found(self, copy: Path) -> None:
        """No samples are a fault, whether the file is empty or holds other lengths."""
        (copy / "waiting_line_n9").mkdir()
        shutil.copyfile(copy / "waiting_line/copy.jsonl", copy / "waiting_line_n9/copy.jsonl")
        (copy / "waiting_line/sort.jsonl").write_text("")
        errors = {(one.task, one.n): one.errors for one in verify(copy)}
        assert "holds no sample of n = 9" in errors["waiting_line/copy", 9][0]
        assert "sort.jsonl has no rows" in errors["waiting_line/sort", None][0]

    def test_fewer_rows_are_remarked(self, copy: Path) -> None:
        """A shortened file is no fault, but said."""
        path = copy / "puzzle/latin_square_n4.jsonl"
        path.write_text("\n".join(path.read_text().splitlines()[:10]))
        [found] = [found for found in verify(copy) if found.task == "puzzle/latin_square"]
        assert found.errors == []
        assert "10 samples, officially 100" in found.notes

    def test_wrong_folder(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A folder that isn't there, or holds something else, is one clear line on stderr."""
        assert run(tmp_path / "none") == 1
        assert "no folder" in capsys.readouterr().err
        assert run(tmp_path) == 1
        assert "is not the official data: it holds none of paraphrase_summarize/" in capsys.readouterr().err

"""The official layout: real files where they are, and what is said about broken ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pbcore.tasks import load_task, task_names
from pbcore.tasks.official import RowError
from tests.reference import reference

LISTS = [name for name in task_names() if name.startswith("waiting_line/")]


def write(folder: Path, place: str, *lines: object) -> Path:
    """A folder with one file of rows."""
    path = folder / f"{place}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line if isinstance(line, bytes) else _line(line) for line in lines))
    return folder


def _line(line: object) -> bytes:
    return (line if isinstance(line, str) else json.dumps(line) + "\n").encode()


def row(**changes: object) -> dict[str, object]:
    return {
        "input": {"context": '["Ann Lee", "Bo Ray"]'},
        "answer": '["Ann Lee", "Bo Ray"]',
        "metadata": {"length": 2},
        **changes,
    }


class TestOfficialFiles:
    @pytest.mark.parametrize("name", task_names())
    def test_all_load(self, name: str) -> None:
        """Every task has its 100 rows (108 sudokus), one shot where the paper has one, and the
        official answer as label.
        """
        folder = reference("official-v1")
        task = load_task(name, data_dir=folder)
        assert len(task.samples) == (108 if name == "puzzle/sudoku" else 100)
        assert task.source == "official"
        assert {sample.source for sample in task.samples} == {"official"}
        shots = 0 if name.startswith("text_writing") else 1
        assert {len(sample.messages) for sample in task.samples} == {1 + 2 * shots}
        assert {sample.max_new_tokens for sample in task.samples} == {32 if name in LISTS else 64}

    @pytest.mark.parametrize("name", LISTS)
    def test_fifteen(self, name: str) -> None:
        """n = 15 is in a folder of its own and has a canvas of 128."""
        task = load_task(name, data_dir=reference("official-v1"), n=15)
        assert {sample.length for sample in task.samples} == {15}
        assert {sample.max_new_tokens for sample in task.samples} == {128}

    def test_some_lengths(self) -> None:
        """n within the usual lengths selects rows and keeps their numbers."""
        task = load_task("waiting_line/copy", data_dir=reference("official-v1"), n=[4, 6])
        assert [sample.index for sample in task.samples] == [*range(25, 50), *range(75, 100)]

    def test_lengths_of_several_files_take_turns(self) -> None:
        """25 usual rows of n = 4 and 100 of n = 15, in turns, numbered anew; a limit takes the
        first of them.
        """
        samples = load_task(
            "waiting_line/copy", data_dir=reference("official-v1"), n=[15, 4]
        ).samples
        assert [sample.length for sample in samples] == [4, 15] * 25 + [15] * 75
        assert [sample.index for sample in samples] == list(range(125))
        few = load_task("waiting_line/copy", data_dir=reference("official-v1"), n=[15, 4], limit=3)
        assert few.samples == samples[:3]

    def test_the_lengths_are_those_of_the_samples(self) -> None:
        """The first ten official rows are lists of three: the task doesn't claim four lengths."""
        task = load_task("waiting_line/copy", data_dir=reference("official-v1"), limit=10)
        assert task.options["lengths"] == [3]

    def test_messages(self) -> None:
        """Shot, answer, question of the first shuffle row, from the row itself."""
        folder = reference("official-v1")
        first = json.loads((folder / "waiting_line/shuffle.jsonl").read_text().splitlines()[0])
        sample = load_task("waiting_line/shuffle", data_dir=folder, limit=1).samples[0]
        shot = first["input"]["icl_examples"][0]
        assert [message["role"] for message in sample.messages] == ["user", "assistant", "user"]
        assert shot["input"]["context"] in sample.messages[0]["content"]
        assert sample.messages[1]["content"] == shot["answer"]["example"]
        assert f"\n{first['input']['context']}\n" in sample.prompt
        assert sample.label == first["answer"]
        assert "icl_examples" not in sample.input


class TestErrors:
    def test_no_folder(self, tmp_path: Path) -> None:
        """A folder that isn't there is named."""
        with pytest.raises(
            FileNotFoundError, match=r"no folder .*nowhere; data_dir must be the folder"
        ):
            load_task("waiting_line/copy", data_dir=tmp_path / "nowhere")

    def test_no_file_names_what_is_there(self, tmp_path: Path) -> None:
        """A missing size is named with the sizes that are there."""
        write(tmp_path, "waiting_line/copy", row())
        with pytest.raises(
            FileNotFoundError,
            match=(
                r"no file .*waiting_line_n9/copy.jsonl; files of this task in .*:"
                r" waiting_line/copy.jsonl"
            ),
        ):
            load_task("waiting_line/copy", data_dir=tmp_path, n=9)

    def test_sizes_of_words_are_files(self, tmp_path: Path) -> None:
        """Other numbers of words lie beside the usual file, and have the prompt for one word."""
        write(
            tmp_path,
            "words_to_sentence/easy_n1",
            {"input": {"words": "dog"}, "answer": {"words": ["dog"]}, "metadata": {}},
        )
        [sample] = load_task("text_writing/w2s_easy", data_dir=tmp_path, n=1).samples
        assert sample.prompt.endswith("using the word dog.")
        assert sample.length == 1

    def test_one_of_several_files_is_missing(self, tmp_path: Path) -> None:
        """Lengths lie in several files, and each must be there."""
        write(tmp_path, "waiting_line/copy", row(metadata={"length": 3}))
        with pytest.raises(FileNotFoundError, match=r"no file .*waiting_line_n15/copy.jsonl"):
            load_task("waiting_line/copy", data_dir=tmp_path, n=[3, 15])

    @pytest.mark.parametrize("n", [4, [3, 4], [4, 15]])
    def test_an_n_without_rows(self, tmp_path: Path, n: int | list[int]) -> None:
        """No sample of an n that was asked for is an error, also beside others that have some."""
        write(tmp_path, "waiting_line/copy", row(metadata={"length": 3}))
        write(tmp_path, "waiting_line_n15/copy", row(metadata={"length": 15}))
        with pytest.raises(
            ValueError, match=r"waiting_line/copy: .*copy.jsonl has no sample with n = 4"
        ):
            load_task("waiting_line/copy", data_dir=tmp_path, n=n)

    def test_the_usual_words_are_no_n(self, tmp_path: Path) -> None:
        """n = 4 is easy_n4, never the usual file."""
        words = ["dog", "park", "ball", "throw"]
        write(
            tmp_path,
            "words_to_sentence/easy",
            {"input": {"words": "dog"}, "answer": {"words": words}},
        )
        with pytest.raises(
            FileNotFoundError, match=r"no file .*easy_n4.jsonl; .*: words_to_sentence/easy.jsonl"
        ):
            load_task("text_writing/w2s_easy", data_dir=tmp_path, n=4)

    def test_no_official_data(self, tmp_path: Path) -> None:
        """list_ops has none."""
        with pytest.raises(ValueError, match="no official data"):
            load_task("list_ops/copy", data_dir=tmp_path)

    def test_no_train_split(self, tmp_path: Path) -> None:
        """Official rows are test rows."""
        with pytest.raises(ValueError, match="only a test split"):
            load_task("waiting_line/copy", data_dir=tmp_path, split="train")

    @pytest.mark.parametrize(
        ("broken", "said"),
        [
            ("{not json}\n", "line 2: not valid JSON"),
            ([1, 2], r"line 2: the row \[1, 2\]; give an object with input and answer"),
            ({"answer": "x"}, "line 2: input is missing; give an object"),
            (row(answer=3), "line 2: answer 3; give a text or an object"),
            (row(input={"text": "x"}), "line 2: the prompt needs 'context', which the input lacks"),
            (
                row(metadata={"length": "four"}),
                "line 2: metadata.length 'four'; give an integer from 2 to 60",
            ),
            (
                row(input={"context": "[]", "icl_examples": 5}),
                "line 2: input.icl_examples 5; give a list",
            ),
            (
                row(input={"context": "[]", "icl_examples": [row(answer={"note": "x"})]}),
                "line 2: .*shot needs an answer",
            ),
            (
                row(metadata={"length": 10**9}),
                "line 2: metadata.length 1000000000; give an integer from 2 to 60",
            ),
            (row(metadata={"length": True}), "line 2: metadata.length True; give an integer"),
            (row(metadata=[3]), r"line 2: metadata \[3\]; give an object, or omit it"),
            (row(input="x"), "line 2: input 'x'; give an object"),
            (
                row(input={"context": ["A"]}),
                r"line 2: input.context \['A'\]; give a text or a number",
            ),
            (row(input={"context": "A, B"}), "line 2: input.context 'A, B'; give a list of texts"),
            (row(input={"context": "[1, 2]"}), "line 2: input.context .*; give a list of texts"),
            (
                row(answer={"example": "[]"}),
                "line 2: answer {'example': '\\[\\]'}; give a text, which the scorer list_match",
            ),
            (row(answer={"example": ["x"]}), r"line 2: answer.example \['x'\]; give a text"),
            ("[" * 100_000 + "\n", "line 2: JSON is nested too deeply"),
            (b"\xff\n", "line 2: not UTF-8 .byte 0xff"),
        ],
    )
    def test_broken_row(self, tmp_path: Path, broken: object, said: str) -> None:
        """A row that can't be read is named by file, line and fault."""
        write(tmp_path, "waiting_line/copy", row(), broken)
        with pytest.raises(RowError, match=rf"waiting_line/copy.jsonl, {said}"):
            load_task("waiting_line/copy", data_dir=tmp_path)

    @pytest.mark.parametrize(
        ("name", "place", "label", "said"),
        [
            (
                "waiting_line/shuffle",
                "waiting_line/shuffle",
                {"input": [1, None]},
                r"answer.input \[1, None\]; give a list",
            ),
            (
                "waiting_line/shuffle",
                "waiting_line/shuffle",
                {"example": "x"},
                "give an object with input",
            ),
            (
                "waiting_line/insert_random",
                "waiting_line/insert_random",
                {"input": ["a"]},
                "with input and word",
            ),
            (
                "puzzle/latin_square",
                "puzzle/latin_square_n4",
                {"symbols": 4},
                "answer.symbols 4; give a list of texts",
            ),
            (
                "puzzle/sudoku",
                "puzzle/sudoku_n4_12",
                "1234\n3412\n2143\n432",
                "answer '1234.*; give four lines of four digits",
            ),
            (
                "puzzle/sudoku",
                "puzzle/sudoku_n4_12",
                "1234\n3412\n2143\n43210",
                "give four lines of four digits",
            ),
            (
                "text_writing/w2s_easy",
                "words_to_sentence/easy",
                {"words": ["a"] * 8},
                "the number of words 8; give an",
            ),
            (
                "text_writing/summarization",
                "paraphrase_summarize/samsum",
                {"text": "x"},
                "an object with summary",
            ),
        ],
    )
    def test_labels_are_checked_when_the_file_is_read(
        self, tmp_path: Path, name: str, place: str, label: object, said: str
    ) -> None:
        """A label that the scorer can't use is an error of the file, not of the scoring after a
        long decoding.
        """
        given = {
            "sudoku": "1234\n3412\n2143\n0321",
            "context": '["a", "b"]',
            "word": "c",
            "size": 4,
            "symbols": "[A]",
            "words": "a",
            "text": "x",
        }
        write(tmp_path, place, {"input": given, "answer": label})
        with pytest.raises(RowError, match=rf"line 1: .*{said}"):
            load_task(name, data_dir=tmp_path)

    @pytest.mark.parametrize("separator", ["\u2028", "\u0085"])
    def test_only_line_feeds_end_a_row(self, tmp_path: Path, separator: str) -> None:
        """Other line separators may stand in a text, as JSON allows; a byte order mark and CRLF are
        no fault.
        """
        text = json.dumps(row(answer=f"a{separator}b"), ensure_ascii=False)
        write(tmp_path, "waiting_line/copy", b"\xef\xbb\xbf" + text.encode() + b"\r\n")
        assert len(load_task("waiting_line/copy", data_dir=tmp_path).samples) == 1

    @pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\u00a0", "\x0c"])
    def test_a_line_of_odd_blanks_is_a_broken_row(self, tmp_path: Path, separator: str) -> None:
        """Only blanks of JSON make an empty line; others stand where a row was."""
        write(tmp_path, "waiting_line/copy", row(), f"{separator}\n", row())
        with pytest.raises(RowError, match="line 2: not valid JSON"):
            load_task("waiting_line/copy", data_dir=tmp_path)

    def test_how_many_there_are(self, tmp_path: Path) -> None:
        """All rows, whatever the limit; up to the first that can't be read, beyond which no run
        gets any.
        """
        place = "waiting_line/copy"
        folder = write(tmp_path / "whole", place, *[row()] * 5)
        assert load_task(place, data_dir=folder, limit=2).available == 5
        folder = write(tmp_path / "broken", place, *[row()] * 3, "{\n", row())
        assert load_task(place, data_dir=folder, limit=2).available == 3

    def test_no_rows(self, tmp_path: Path) -> None:
        """An empty file is an error, not an empty task."""
        write(tmp_path, "waiting_line/copy", "\n")
        with pytest.raises(RowError, match="has no rows"):
            load_task("waiting_line/copy", data_dir=tmp_path)

"""A run folder of the 2026 rewrite as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pbcore.extras.paper.published import NAMES
from pbcore.extras.paper.rewrite.questions import values_of
from pbcore.tasks import load_task, task_names, task_spec
from pbcore.tasks.naming import REWRITE as SOURCE
from pbcore.tasks.official import RowError
from tests.reference import reference

INSERTED = (
    'You are managing a waiting line at a customer service desk.\n\nA new person "Di Fox" is'
    ' inserted into the line at position 1:\n\n["Ann Lee", "Bo Ray"]\n\nPlease put the new person'
    " at the specified position and provide only the final list."
)


def doc(number: int = 0, question: str = INSERTED, **changes: Any) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": "a shot"},
        {"role": "assistant", "content": "[]"},
        {"role": "user", "content": question},
    ]
    label = ["Ann Lee", "Di Fox", "Bo Ray"]
    asked = {
        "messages": messages,
        "label": label,
        "metadata": {"length": 2},
        "index": number,
        "output_prefix": None,
    }
    return {"doc_id": number, "doc": {**asked, **changes}, "resps": [["[]"]], "score": 0.0}


def folder(path: Path, *rows: object, task: str = "waiting_line_insert_index") -> Path:
    file = path / f"samples_parallelbench_{task}.jsonl"
    file.write_text(
        "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    )
    return path


def test_every_task_of_the_paper_has_a_name() -> None:
    """17 tasks, 17 files."""
    assert sorted(NAMES) == sorted(task_names())
    assert len(set(NAMES.values())) == 17


class TestQuestions:
    def test_the_example_folder(self) -> None:
        """Questions, shots and labels are the file's own, in the order of their ids; the record
        says whose they are.
        """
        run = next(reference("published", "v2_run_example").rglob("*_all"))
        rows = [
            json.loads(line) for line in next(run.glob("samples_*.jsonl")).read_text().splitlines()
        ]
        task = load_task("puzzle/sudoku", data_dir=run)
        assert task.source == SOURCE == "rewrite-2026"
        assert [list(sample.messages) for sample in task.samples] == [
            [{"role": turn["role"], "content": turn["content"]} for turn in row["doc"]["messages"]]
            for row in rows
        ]
        assert [sample.index for sample in task.samples] == [row["doc_id"] for row in rows]
        assert {sample.max_new_tokens for sample in task.samples} == {
            row["arguments"]["gen_args_0"]["arg_1"]["max_tokens"] for row in rows
        }
        assert all(
            task.score(str(sample.answer), sample)["accuracy"] == 1 for sample in task.samples
        )

    def test_a_published_answer_scores_as_published(self) -> None:
        """And a changed given digit is named, though the blanks are written `_` there."""
        run = next(reference("published", "v2_run_example").rglob("*_all"))
        rows = [
            json.loads(line) for line in next(run.glob("samples_*.jsonl")).read_text().splitlines()
        ]
        task = load_task("puzzle/sudoku", data_dir=run)
        scored = task.score_many([row["resps"][0][0] for row in rows], task.samples)
        assert [one.scores["accuracy"] for one in scored] == [row["score"] for row in rows]
        sample = task.samples[0]
        assert sample.prompt.endswith("Input:\n4312\n_1_3\n3421\n1__4\nOutput:\n")
        [changed] = task.score_many(["1312\n2143\n3421\n1234"], [sample])
        assert changed.details["failure"] == "given changed"

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_what_fills_the_prompt_is_found(self, name: str, tmp_path: Path) -> None:
        """With blank lines between the sentences of a list prompt, every value of the question
        comes back.
        """
        own = load_task(name, limit=4)
        blank = "\n\n" if name.startswith("waiting_line/") else "\n"
        rows = [
            doc(s.index, s.prompt.strip().replace("\n", blank), label=s.label) for s in own.samples
        ]
        found = load_task(name, data_dir=folder(tmp_path, *rows, task=NAMES[name]))
        assert [sample.input for sample in found.samples] == [
            sample.input for sample in own.samples
        ]

    def test_it_is_found_in_published_prompts(self) -> None:
        """Of 146 published answers to 11 tasks each prompt is this package's, filled with what was
        found, up to white space.
        """
        published = [
            json.loads(line)
            for line in reference("golden", "real_outputs.jsonl").read_text().splitlines()
        ]
        ours = {theirs: task_spec(name) for name, theirs in NAMES.items()}
        for row in published:
            spec = ours[row["task"]]
            assert (
                spec.filled(values_of(spec, row["prompt"]), None).split() == row["prompt"].split()
            )
        assert len(published) == 146

    def test_a_list_label_is_printed(self, tmp_path: Path) -> None:
        """The rewrite's JSON lists become the text that v1 has; new item and position are found in
        the question.
        """
        task = load_task("waiting_line/insert_index", data_dir=folder(tmp_path, doc()))
        [sample] = task.samples
        assert sample.label == '["Ann Lee", "Di Fox", "Bo Ray"]'
        assert sample.input == {"word": "Di Fox", "index": 1, "context": '["Ann Lee", "Bo Ray"]'}
        assert (sample.length, sample.max_new_tokens, sample.source) == (2, 32, SOURCE)
        [scored] = task.score_many(['["Di Fox", "Ann Lee", "Bo Ray"]'], [sample])
        assert scored.details["failure"] == "wrong position"

    def test_other_words_are_asked_as_they_are(self, tmp_path: Path) -> None:
        """A prompt with other words than this package's is a question all the same."""
        task = load_task(
            "waiting_line/insert_index",
            data_dir=folder(tmp_path, doc(question="Put Di Fox second.")),
        )
        assert task.samples[0].prompt == "Put Di Fox second."
        assert task.samples[0].input == {}

    def test_ids_are_numbers_and_order(self, tmp_path: Path) -> None:
        """Files are in the order of the processes that wrote them; samples in the order of their
        ids.

        Limits and n choose among them.
        """
        rows = [doc(8, metadata={"length": 3}), doc(0), doc(4)]
        where = folder(tmp_path, *rows)
        assert [
            s.index for s in load_task("waiting_line/insert_index", data_dir=where).samples
        ] == [0, 4, 8]
        assert [
            s.index for s in load_task("waiting_line/insert_index", data_dir=where, limit=2).samples
        ] == [0, 4]
        assert [
            s.index for s in load_task("waiting_line/insert_index", data_dir=where, n=3).samples
        ] == [8]

    def test_null_keys_are_absent(self, tmp_path: Path) -> None:
        """Word sets without an example have the label that v1 gives them."""
        label = {"words": ["dog", "park"], "example": None}
        where = folder(tmp_path, doc(label=label, metadata={}), task=NAMES["text_writing/w2s_easy"])
        [sample] = load_task("text_writing/w2s_easy", data_dir=where).samples
        assert (sample.label, sample.length) == ({"words": ["dog", "park"]}, 2)


class TestErrors:
    @pytest.mark.parametrize(
        ("broken", "said"),
        [
            ("{not json}\n", "line 2: not valid JSON"),
            (doc(0), "line 2: doc_id 0 occurs twice"),
            ({"doc_id": 1}, "line 2: doc is missing; give an object"),
            (doc(1, label=5), "line 2: label 5; give a text"),
            (doc(1, label=[]), "line 2: label .*; give a text"),
            (doc(1, messages=[]), "line 2: messages must end with a user turn"),
            (
                doc(1, messages=[{"role": "robot", "content": "x"}]),
                "line 2: message .*robot.*; give an object with role",
            ),
            (doc(1, output_prefix="["), "line 2: output_prefix"),
            (
                doc(1, metadata={"length": "two"}),
                "line 2: metadata.length 'two'; give an integer from 2 to 60",
            ),
            (
                doc(1, metadata={"length": 10**9}),
                "line 2: metadata.length 1000000000; give an integer from 2 to 60",
            ),
            (doc(1, label={"input": 3}), "line 2: answer.input 3; give a list of texts"),
            (doc(1, messages="x"), "line 2: messages 'x'; give a list of messages"),
            ([1], r"line 2: the row \[1\]; give an object with doc and doc_id"),
            (doc("1"), "line 2: doc_id '1'; give an integer"),  # type: ignore[arg-type]
        ],
    )
    def test_broken_row(self, tmp_path: Path, broken: object, said: str) -> None:
        """A row that can't be read is named by file, line and fault."""
        with pytest.raises(
            RowError, match=rf"samples_parallelbench_waiting_line_insert_index.jsonl, {said}"
        ):
            load_task("waiting_line/insert_index", data_dir=folder(tmp_path, doc(0), broken))

    def test_no_file_of_the_task(self, tmp_path: Path) -> None:
        """The tasks that the folder has are named."""
        with pytest.raises(
            FileNotFoundError,
            match=r"copy.jsonl; the folder has samples of waiting_line_insert_index",
        ):
            load_task("waiting_line/copy", data_dir=folder(tmp_path, doc()))

    def test_nothing_to_ask(self, tmp_path: Path) -> None:
        """An empty file and an n without rows are errors; so is a task that the rewrite doesn't
        have.
        """
        with pytest.raises(ValueError, match="waiting_line/insert_index has no samples in"):
            load_task("waiting_line/insert_index", data_dir=folder(tmp_path, "\n"))
        with pytest.raises(ValueError, match="has no sample with n = 5"):
            load_task("waiting_line/insert_index", data_dir=folder(tmp_path, doc()), n=5)
        with pytest.raises(ValueError, match="list_ops/copy is not a task of the rewrite"):
            load_task("list_ops/copy", data_dir=tmp_path)

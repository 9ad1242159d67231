"""pbcore.results.questions: the questions of a run, kept beside its cells."""

from __future__ import annotations

from pathlib import Path

from pbcore.results import RunDir, create
from pbcore.results.merge import merge
from pbcore.results.questions import (
    StoredQuestion,
    gather,
    read_questions,
    stored_question,
    write_questions,
)
from pbcore.tasks import load_task
from tests.results import factory


class TestQuestions:
    def test_round_trip(self, tmp_path: Path) -> None:
        """Prompt, one right answer and whether it is the only one, as the task has them."""
        run = create(tmp_path, "a")
        copy, shuffle = (load_task(f"waiting_line/{name}", limit=3) for name in ("copy", "shuffle"))
        for task in (copy, shuffle):
            write_questions(run, task)
        found = read_questions(run)
        sample = copy.samples[1]
        assert found[copy.name, copy.data_hash][1] == StoredQuestion(
            1, sample.prompt, sample.answer, True, sample.length, shots=1
        )
        assert [one.only for one in found[shuffle.name, shuffle.data_hash].values()] == [False] * 3

    def test_what_is_right(self) -> None:
        """The only answer; one of several; none, where any text can be right."""
        stored = {}
        for name in ("waiting_line/copy", "puzzle/latin_square", "text_writing/paraphrasing"):
            (sample,) = load_task(name, limit=1).samples
            question = stored_question(sample)
            assert question.answer == sample.answer
            stored[name] = question.answer is not None, question.only
        assert list(stored.values()) == [(True, True), (True, False), (False, False)]

    def test_one_file_a_task(self, tmp_path: Path) -> None:
        """The second process finds the first one's file and leaves it; other samples have another
        file.
        """
        run = create(tmp_path, "a")
        task = load_task("puzzle/sudoku", limit=2)
        file = write_questions(run, task)
        file.write_text("untouched")
        assert write_questions(run, task) == file
        assert file.read_text() == "untouched"
        assert write_questions(run, load_task("puzzle/sudoku", limit=3)) != file

    def test_damage_is_absence(self, tmp_path: Path) -> None:
        """A file that can't be read takes nothing else with it."""
        run = create(tmp_path, "a")
        write_questions(run, load_task("waiting_line/copy", limit=1)).write_text("{")
        task = load_task("puzzle/sudoku", limit=2)
        write_questions(run, task)
        assert list(read_questions(run)) == [(task.name, task.data_hash)]

    def test_merged_runs_keep_theirs(self, tmp_path: Path) -> None:
        """`merge` takes the questions along; a run without any is no error."""
        runs = [create(tmp_path, name) for name in "ab"]
        for run, name in zip(runs, ("copy", "shuffle"), strict=True):
            factory.write(run, [factory.cell(task=f"waiting_line/{name}")])
            write_questions(run, load_task(f"waiting_line/{name}", limit=1))
        gather([create(tmp_path, "c")], runs[0])
        merged = merge([run.path for run in runs], tmp_path / "all")
        assert sorted(task for task, _ in read_questions(RunDir(merged.path))) == [
            "waiting_line/copy",
            "waiting_line/shuffle",
        ]

"""Tasks by name: loading, splits, prefixes, errors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

import pbcore
from pbcore.base.errors import InputError
from pbcore.tasks import TaskNameError, all_task_names, generate, load_task, task_names, task_spec
from pbcore.tasks.generators import Question
from tests.reference import reference

ENUMERABLE = [name for name in task_names() if not name.startswith("text_writing")]


class TestShots:
    @pytest.mark.parametrize(
        ("label", "answer"),
        [
            ("[A]", "[A]"),
            ({"example": "an example", "summary": "a summary"}, "an example"),
            ({"text": "a text", "summary": "a summary"}, "a summary"),
        ],
    )
    def test_a_shot_is_a_question_and_its_answer(self, label: Any, answer: str) -> None:
        """A text label is the answer; of others it is the example, or the summary."""
        shot = Question({"text": "Hi!"}, label, "shot")
        asked = Question({"text": "Hello!"}, label, "asked")
        first, second, last = task_spec("text_writing/summarization").messages(asked, (shot,))
        assert [turn["role"] for turn in (first, second, last)] == ["user", "assistant", "user"]
        assert ("Hi!" in first["content"], second["content"], "Hello!" in last["content"]) == (
            True,
            answer,
            True,
        )

    def test_a_label_without_an_answer(self) -> None:
        """What it has and what it needs is said."""
        shot = Question({"text": "Hi!"}, {"words": []}, "shot")
        with pytest.raises(InputError, match=r"has only words.* example or summary"):
            task_spec("text_writing/summarization").messages(shot, (shot,))


class TestNames:
    def test_the_seventeen(self) -> None:
        """Ten list operations, five text tasks, two puzzles; list_ops, several questions and walks
        come on top.
        """
        assert len(task_names()) == len(set(task_names())) == 17
        assert [
            sum(name.startswith(c) for name in task_names())
            for c in ("waiting_line/", "text_writing/", "puzzle/")
        ] == [10, 5, 2]
        assert set(all_task_names()) - set(task_names()) == {
            *(
                f"list_ops/{operation}"
                for operation in ("copy", "replace_index", "replace_random", "shuffle")
            ),
            *(
                f"questions/{operation}-x{k}"
                for operation in ("shuffle", "replace_random")
                for k in (1, 2, 4, 8)
            ),
            "walk/graph",
        }

    def test_public_api(self) -> None:
        """`pbcore.load_task` and `pbcore.task_names` are these."""
        assert pbcore.load_task is load_task
        assert pbcore.task_names() == task_names()

    @pytest.mark.parametrize(
        ("given", "match"),
        [
            ("waiting_line/shufle", "waiting_line/shuffle"),
            ("paraphrase_summarize/samsum", "text_writing/summarization"),
        ],
    )
    def test_unknown_name_has_close_matches(self, given: str, match: str) -> None:
        """A typing error, or the official name, leads to the right one."""
        with pytest.raises(TaskNameError, match=match) as caught:
            load_task(given)
        assert caught.value.matches[0] == match

    def test_hopeless_name_lists_all(self) -> None:
        """Where nothing is close, the error lists what there is."""
        with pytest.raises(
            TaskNameError, match=r"the tasks are waiting_line/copy, .*list_ops/shuffle"
        ):
            load_task("zzz")


class TestLoadTask:
    @pytest.mark.parametrize("name", task_names())
    def test_a_limit_takes_a_prefix(self, name: str) -> None:
        """The first k samples do not depend on how many are asked for."""
        assert load_task(name, limit=9).samples == load_task(name).samples[:9]
        assert load_task(name, limit=120).samples[:100] == load_task(name).samples[:100]

    @pytest.mark.parametrize(
        "name", ["waiting_line/shuffle", "text_writing/w2s_easy", "puzzle/sudoku"]
    )
    def test_seeds_differ_and_repeat(self, name: str) -> None:
        """A seed gives the same data each time, and another than the next seed; the hash says
        so.
        """
        first = load_task(name)
        again = load_task(name)
        other = load_task(name, seed=1)
        assert first == again
        assert first.data_hash != other.data_hash
        assert {s.prompt for s in first.samples} != {s.prompt for s in other.samples}

    def test_tasks_with_equal_seeds_have_different_lists(self) -> None:
        """Copy and reverse don't ask about the same people."""
        copy, reverse = (load_task(f"waiting_line/{name}").samples for name in ("copy", "reverse"))
        assert not {s.input["context"] for s in copy} & {s.input["context"] for s in reverse}

    @pytest.mark.parametrize("name", [*ENUMERABLE, "list_ops/shuffle"])
    def test_splits_share_nothing(self, name: str) -> None:
        """No list, symbol set or solved sudoku of the test split, shots included, is in the
        training split.
        """
        train = {_key(sample) for sample in islice(generate(name, "train"), 400)}
        assert not train & {
            _key(sample) for seed in (0, 1) for sample in load_task(name, seed=seed).samples
        }
        assert train & {
            _key(sample) for sample in load_task(name, split="train", limit=300).samples
        }

    def test_metadata(self) -> None:
        """A task says what it is made of."""
        task = load_task("list_ops/shuffle", n=4, seed=5, limit=3)
        assert (task.kind, task.category, task.scorer, task.headline) == (
            "shuffle",
            "list_ops",
            "list_permutation",
            "accuracy",
        )
        assert task.source == "own"
        assert len(task.data_hash) == 64
        assert task.options["lengths"] == [4]
        assert task.options["seed"] == 5
        assert task.options["identity"] is True

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"n": 1}, "from 2 to 60"),
            ({"n": [3, 61]}, "from 2 to 60"),
            ({"n": []}, "from 2 to 60"),
            ({"n": True}, "from 2 to 60"),
            ({"n": "4"}, "from 2 to 60"),
            ({"limit": 0}, "limit 0: give an integer of at least 1"),
            ({"limit": 2.5}, "limit 2.5"),
            ({"seed": -1}, "seed -1"),
            ({"seed": "a"}, "seed 'a'"),
            ({"split": "dev"}, "split 'dev': give one of train, test"),
            ({"data_dir": 5}, "data_dir 5: give the path"),
        ],
    )
    def test_bad_arguments(self, arguments: dict[str, Any], said: str) -> None:
        """Every argument is checked, and the error says what is allowed."""
        with pytest.raises(ValueError, match=said):
            load_task("waiting_line/copy", **arguments)

    def test_sudoku_has_no_length(self) -> None:
        """n where there is no length is an error, not ignored."""
        with pytest.raises(ValueError, match="sudoku has no n"):
            load_task("puzzle/sudoku", n=4)

    def test_too_few_different_questions(self) -> None:
        """A space that is used up ends in an error that says so, not in repeats."""
        with pytest.raises(ValueError, match="different questions"):
            load_task("list_ops/shuffle", n=2, limit=300)


def _key(sample: Any) -> str:
    return str(
        sample.label
        if sample.task == "puzzle/sudoku"
        else sample.input.get("context") or sample.input["symbols"]
    )


class TestGenerate:
    def test_is_endless_and_lazy(self) -> None:
        """A stream gives as many as are taken, numbered, in balanced lengths."""
        samples = list(islice(generate("waiting_line/sort"), 1000))
        assert [sample.index for sample in samples] == list(range(1000))
        assert sum(sample.length == 6 for sample in samples) == 250

    def test_goes_on_where_different_questions_end(self) -> None:
        """Training may repeat: a small space is no end."""
        assert len(list(islice(generate("list_ops/shuffle", n=2), 1000))) == 1000

    def test_checks_at_once(self) -> None:
        """A wrong name or n is reported before the first sample is asked for."""
        with pytest.raises(TaskNameError):
            generate("waiting_line/none")
        with pytest.raises(ValueError, match="from 2 to 60"):
            generate("waiting_line/copy", n=100)
        with pytest.raises(ValueError, match="split 'dev'"):
            generate("waiting_line/copy", "dev")


class TestPrompts:
    def test_word_for_word(self) -> None:
        """All 17 prompts are the official ones, line breaks included."""
        folder: Path = reference("official-v1")
        for name in task_names():
            spec = task_spec(name)
            group = str(spec.official).split("/")[0]
            config = yaml.safe_load(
                (folder / group / "task_config.yaml").read_text(encoding="utf-8")
            )
            assert spec.prompt == config[spec.official]["prompt"]
            if spec.prompt_single:
                assert spec.prompt_single == config[f"{spec.official}_n1"]["prompt"]

    @pytest.mark.parametrize(
        ("count", "names"),
        [(108, ["puzzle/sudoku"]), (100, [n for n in task_names() if n != "puzzle/sudoku"])],
    )
    def test_counts(self, count: int, names: Sequence[str]) -> None:
        """100 samples a task, 108 sudokus."""
        assert all(task_spec(name).count == count for name in names)

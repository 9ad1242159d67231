"""How questions are asked: chain of thought in the paper's words, shots, the length of the
canvas.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.base.errors import InputError
from pbcore.tasks import load_task, task_names
from pbcore.tasks.cot import ASKS, final_answer
from pbcore.tasks.registry import add_tasks_file
from pbcore.tasks.scoring import Scored
from tests.reference import reference

LISTS = [name for name in task_names() if name.startswith("waiting_line/")]


class TestQuestion:
    def test_table_4(self) -> None:
        sample = load_task("waiting_line/shuffle", cot=True, limit=1).samples[0]
        assert (
            sample.prompt
            == "You are managing a waiting line at a customer service desk.\nThe waiting line"
            " should be randomly shuffled to ensure fair service"
            f" distribution:\n{sample.input['context']}\nPlease randomly shuffle the"
            " list.\nEnsure the sequence is different from the original.\nThink step by step"
            " and give your final answer at the end as 'The answer is: {answer}'."
        )

    @pytest.mark.parametrize("name", task_names())
    def test_no_question_demands_the_result_alone(self, name: str) -> None:
        for message in load_task(name, cot=True, limit=3).samples[0].messages[::2]:
            assert "only" not in message["content"].lower().split("input")[0]
            assert message["content"].endswith(f"\n{ASKS}")

    def test_room_for_256_tokens_or_more(self) -> None:
        assert load_task("waiting_line/copy", cot=True, limit=1).samples[0].max_new_tokens == 256
        assert (
            load_task("waiting_line/copy", cot=True, n=60, limit=1).samples[0].max_new_tokens == 512
        )

    @pytest.mark.parametrize("name", task_names())
    def test_the_same_questions_as_without(self, name: str) -> None:
        plain = load_task(name, limit=4)
        steps = load_task(name, limit=4, cot=True)
        assert [sample.label for sample in steps.samples] == [
            sample.label for sample in plain.samples
        ]
        assert steps.identity != plain.identity

    def test_infilling_has_no_room(self) -> None:
        for asked in ({"cot": True}, {"max_new_tokens": 64}):
            with pytest.raises(
                InputError, match="its canvas is given in part; drop cot and max_new_tokens"
            ):
                load_task("list_ops/shuffle", **asked)


class TestExamples:
    @pytest.mark.parametrize("name", LISTS)
    def test_end_with_a_right_answer_and_name_what_moves(self, name: str) -> None:
        task = load_task(name, cot=True, limit=20)
        for sample in task.samples:
            _, solved, _ = (message["content"] for message in sample.messages)
            first, *steps, last = solved.split("\n")
            assert first.startswith("The list is [")
            assert steps
            assert last.startswith("The answer is: [")
            assert final_answer(solved) == last.removeprefix("The answer is: ")

    def test_of_a_removal_at_random(self) -> None:
        sample = next(
            sample
            for sample in load_task("waiting_line/remove_random", cot=True, limit=20).samples
            if "leaves" in sample.messages[1]["content"]
        )
        steps = sample.messages[1]["content"]
        before, after = (
            line[line.index("[") :] for line in (steps.split("\n")[0], steps.split("\n")[-1])
        )
        gone = next(name for name in before.strip("[].").split(", ") if name not in after)
        assert f"{gone.strip(chr(34))}, who is there, leaves the list." in steps

    def test_of_a_puzzle_is_its_answer_alone(self) -> None:
        task = load_task("puzzle/latin_square", cot=True, limit=1)
        assert task.samples[0].messages[1]["content"].startswith("The answer is:\n")


class TestFinalAnswer:
    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            ("steps\nThe answer is: [1]", "[1]"),
            ("The answer is: a. No. The ANSWER is : b", "b"),
            ("The answer is: 'The dog runs.'", "The dog runs."),
            ("The answer is: 'The dog runs'.", "The dog runs"),
            ("The answer is:\n1,2\n2,1\n", "1,2\n2,1"),
            ("The answer is:", ""),
            ("**The answer is:** a\n", "a"),
            ("The answer is**: a", "a"),
            ("The final answer is: [1]", "[1]"),
            ("So the correct answer is: [1]", "[1]"),
            ("The **final answer** is: [1]", "[1]"),
            ("The answer is: [1]. The final answer is: [2]", "[2]"),
            ("The wrong answer is: [1]", None),
            ("The answer is: “The dog runs.”", "The dog runs."),
            ("The answer is: ‘“The dog’s owner runs.”’", "The dog’s owner runs."),
            ("The answer is: „The dog runs.“", "The dog runs."),
            ('The answer is: “["A B", "C D"]”.', '["A B", "C D"]'),
            ("The answer is: “A B” and “C D”", "“A B” and “C D”"),
            ('The answer is: "A B", "C D"', '"A B", "C D"'),
            ("I don't know", None),
        ],
    )
    def test_is_what_follows(self, text: str, answer: str | None) -> None:
        assert final_answer(text) == answer

    def test_is_what_is_scored(self) -> None:
        task = load_task("waiting_line/copy", cot=True, limit=2)
        right = str(task.samples[0].answer)
        scores = [
            task.score_many([text], task.samples[:1])[0]
            for text in (
                f"[] is wrong.\nThe answer is: {right}",
                f"{right}\nThe answer is: []",
                right,
            )
        ]
        assert [one.scores["accuracy"] for one in scores] == [1, 0, 0]
        assert scores[2].details == {
            "why": 'nothing follows "The answer is:"',
            "failure": "no final answer",
        }

    def test_or_the_whole_text_as_the_official_code_does(self) -> None:
        """Of the same questions; the identity says which."""
        task = load_task("waiting_line/copy", cot=True, limit=1, cot_answer="whole")
        right = str(task.samples[0].answer)
        texts = (
            right,
            f"{right}\nThe answer is: []",
            f"[] is wrong.\nThe answer is: {right}",
            f"Look: {right}",
        )
        scored = [task.score_many([text], task.samples)[0] for text in texts]
        assert [one.scores["accuracy"] for one in scored] == [1, 0, 1, 1]
        assert all(one.details.get("failure") != "no final answer" for one in scored)
        marked = load_task("waiting_line/copy", cot=True, limit=1)
        assert (marked.data_hash, marked.cot_answer) == (task.data_hash, "marked")
        assert marked.identity != task.identity

    def test_of_which_there_must_be_one(self) -> None:
        with pytest.raises(InputError, match="give one of marked, whole"):
            load_task("waiting_line/copy", cot=True, cot_answer="all")
        with pytest.raises(InputError, match="don't ask for steps; add cot"):
            load_task("waiting_line/copy", cot_answer="whole")

    def test_missing_scores_0_whatever_the_scorer_makes_of_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Kind:
            metrics = ("accuracy",)

            def score(
                self, predictions: list[str], samples: object, metrics: object
            ) -> list[Scored]:
                return [
                    Scored({"accuracy": 1.0}, {"matches": [], "absent": {"x": "y"}})
                    for _ in predictions
                ]

        for module in ("base", "scoring"):
            monkeypatch.setattr(f"pbcore.tasks.{module}.scorer", lambda name: Kind())
        task = load_task("waiting_line/copy", cot=True, limit=1)
        scored = task.score_many(["no end"], task.samples)[0]
        assert scored.scores == {"accuracy": 0.0}
        assert scored.details["absent"] == {"x": "y"}
        assert "matches" not in scored.details


class TestShots:
    @pytest.mark.parametrize("shots", [0, 1, 3, 8])
    def test_before_the_same_question(self, shots: int) -> None:
        plain = load_task("puzzle/sudoku", limit=3).samples
        asked = load_task("puzzle/sudoku", limit=3, shots=shots).samples
        assert [sample.prompt for sample in asked] == [sample.prompt for sample in plain]
        assert {len(sample.messages) for sample in asked} == {2 * shots + 1}

    def test_texts_have_none_to_choose(self) -> None:
        with pytest.raises(InputError, match="only list operations and puzzles"):
            load_task("text_writing/summarization", shots=2)

    @pytest.mark.parametrize("shots", [-1, 101, "2", True])
    def test_no_number(self, shots: object) -> None:
        with pytest.raises(InputError, match="give an integer from 0 to 100"):
            load_task("waiting_line/copy", shots=shots)  # type: ignore[arg-type]

    def test_of_official_rows_are_those_of_the_file(self) -> None:
        official = reference("official-v1")
        one = load_task("waiting_line/copy", official, limit=2).samples
        none = load_task("waiting_line/copy", official, limit=2, shots=0).samples
        assert [sample.messages[-1:] for sample in one] == [sample.messages for sample in none]
        with pytest.raises(InputError, match="row 0: shots = 2, but the row has 1 solved examples"):
            load_task("waiting_line/copy", official, shots=2)


class TestCanvas:
    @pytest.mark.parametrize(
        "name", ["waiting_line/copy", "puzzle/sudoku", "text_writing/paraphrasing"]
    )
    def test_has_the_length_that_is_asked_for(self, name: str) -> None:
        """Also where n or steps would need more; question and identity stay, so only the data's
        digest differs.
        """
        plain = load_task(name, limit=2)
        short = load_task(name, limit=2, max_new_tokens=20)
        assert {sample.max_new_tokens for sample in short.samples} == {20}
        assert [sample.messages for sample in short.samples] == [
            sample.messages for sample in plain.samples
        ]
        assert short.identity == plain.identity
        assert short.data_hash != plain.data_hash
        assert (
            load_task("waiting_line/copy", n=60, limit=1, cot=True, max_new_tokens=7)
            .samples[0]
            .max_new_tokens
            == 7
        )

    @pytest.mark.parametrize("tokens", [0, -1, 65_537, 1.5, True])
    def test_no_length(self, tokens: object) -> None:
        with pytest.raises(InputError, match="give an integer from 1 to 65536"):
            load_task("waiting_line/copy", max_new_tokens=tokens)  # type: ignore[arg-type]


def test_a_task_of_ones_own_asks_for_steps(tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text(
        "mine/steps:\n  generator: reverse\n  scorer: list_match\n  lengths: [3]\n  cot: true\n"
        "  max_new_tokens: 32\n  prompt: 'Reverse {context}'\n"
    )
    add_tasks_file(file)
    task = load_task("mine/steps", limit=1)
    assert task.cot
    assert task.samples[0].prompt.endswith(ASKS)
    assert task.samples[0].max_new_tokens == 256
    file.write_text(file.read_text().replace("cot: true", "cot: 1"))
    with pytest.raises(InputError, match="cot 1; give true or false"):
        add_tasks_file(file)

"""pbcore.report.answer_trace: how a wrong answer came about, step by step."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.report.answer_trace import LINES, WIDE, story, trajectory
from pbcore.results.stats import is_wrong_score
from pbcore.tasks import Sample
from pbcore.tasks.scoring import Scored

MASK = 0
EOS = 1
MODEL: Any = SimpleNamespace(
    name="m", mask_id=MASK, eos_id=EOS, text=lambda ids: "".join(f"t{i}" for i in ids)
)


def answer(**facts: Any) -> Any:
    return SimpleNamespace(
        **{"trajectory": None, "steps": (), "confidences": (), "token_ids": (), "nfe": 3} | facts
    )


class TestTrajectory:
    def test_each_step_names_its_tokens_and_their_confidence(self) -> None:
        """The end of the answer is one span with its least confidence."""
        canvases = ((0, 0, 0, 0), (5, 0, 0, 0), (5, 6, 1, 1))
        told = trajectory(
            MODEL,
            answer(trajectory=canvases, steps=(0, 1, 1, 1), confidences=(0.9, 0.5, 0.75, 0.25)),
        )
        assert list(told) == ["step  1  0 't5' 0.90", "step  2  1 't6' 0.50   2-3 <eos> 0.25"]

    def test_tokens_that_are_masked_again_are_named(self) -> None:
        """A confidence stands only where the token stayed."""
        canvases = ((0, 0), (5, 6), (5, 0), (5, 7))
        told = trajectory(MODEL, answer(trajectory=canvases, steps=(0, 2), confidences=(0.9, 0.8)))
        assert list(told) == [
            "step  1  0 't5' 0.90   1 't6'",
            "step  2  masked again: 1",
            "step  3  1 't7' 0.80",
        ]

    def test_ends_apart_are_listed(self) -> None:
        """A span would claim what lies between."""
        (line,) = trajectory(MODEL, answer(trajectory=((0, 5, 0), (1, 5, 1)), steps=(0, -1, 0)))
        assert line == "step  1  0,2 <eos>"
        (line,) = trajectory(MODEL, answer(trajectory=((0, 5), (1, 5)), steps=(0, -1)))
        assert line == "step  1  0 <eos>"

    def test_without_canvases_the_steps_are_enough(self) -> None:
        """A model that decodes by itself may tell the step of each token, or only its forwards, or
        nothing.
        """
        told = trajectory(MODEL, answer(steps=(1, 0), token_ids=(5, 6), confidences=(0.5, 0.25)))
        assert list(told) == ["step  1  1 't6' 0.25", "step  2  0 't5' 0.50"]
        assert list(trajectory(MODEL, answer())) == [
            "m decodes by itself and does not tell its steps; 3 forwards"
        ]
        assert list(trajectory(MODEL, answer(nfe=None))) == [
            "m decodes by itself and does not tell its steps"
        ]


@pytest.mark.parametrize(
    ("headline", "score", "is_wrong"),
    [
        ("accuracy", 1.0, False),
        ("accuracy", 0.0, True),
        ("rouge_l", 0.1, False),
        ("rouge_l", 0.0, True),
    ],
)
def test_a_graded_answer_is_wrong_only_at_zero(headline: str, score: float, is_wrong: bool) -> None:
    """Every text differs a little from the label's."""
    assert is_wrong_score(headline, score) is is_wrong


@pytest.fixture
def screens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the screen for a wrong answer of a sample; texts that are too long for it are kept
    here.
    """
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def screen(
        prompt: str = "Copy a.", text: str = "b", label: Any = "a", **details: Any
    ) -> list[str]:
        sample = Sample(
            "waiting_line/copy", 7, ({"role": "user", "content": prompt},), {}, label, 32
        )
        task: Any = SimpleNamespace(name="waiting_line/copy", headline="accuracy")
        result = Scored({"accuracy": 0.0, "order": 0.25}, details)
        return list(story(MODEL, task, sample, answer(text=text, nfe=None), result, "pytest x"))

    return screen


class TestStory:
    def test_one_screen(self, screens: Any) -> None:
        """Why it is wrong, prompt, answer, label, scores, steps, and the command that runs it
        again.
        """
        assert screens(why="b is not a") == [
            "sample 7 of waiting_line/copy is wrong: b is not a",
            "",
            "    prompt  Copy a.",
            "    answer  b",
            "     label  a",
            "    scores  accuracy 0  order 0.25",
            "trajectory  m decodes by itself and does not tell its steps",
            "rerun this sample:  pytest x",
        ]

    def test_what_is_missing_is_said(self, screens: Any) -> None:
        """No reason: the score. No answer: that it is empty. A label of several answers: one of
        them, or all.
        """
        told = screens(text="", label={"input": ["x"], "example": "a b"})
        assert told[0].endswith("is wrong: accuracy is 0")
        assert told[3:5] == [
            "    answer  (empty)",
            "     label  a b  (one of several valid answers)",
        ]
        assert screens(label={"input": ["x"]})[4] == "     label  {'input': ['x']}"

    def test_lines_of_a_block_stand_under_each_other(self, screens: Any) -> None:
        """Up to sixty; empty lines around the text are dropped."""
        told = screens(prompt="\nfirst\nsecond\n")
        assert told[2:4] == ["    prompt  first", "            second"]
        whole = screens(prompt="\n".join(map(str, range(LINES))))
        assert [line.strip() for line in whole[2 : 2 + LINES]][1:] == [
            str(i) for i in range(1, LINES)
        ]
        assert whole[2 + LINES].startswith("    answer")

    def test_a_long_text_is_kept_in_a_file(self, screens: Any) -> None:
        """Its first sixty lines are shown, the others counted; the file holds all of it."""
        prompt = "\n".join(map(str, range(LINES + 2))) + "\n"
        told = screens(prompt=prompt)
        (more,) = (line for line in told if "the full prompt: " in line)
        assert more.strip().startswith("… and 2 more lines; the full prompt: ")
        assert told.index(more) == 2 + LINES
        path = Path(more.partition("prompt: ")[2])
        assert path.read_text() == prompt
        assert (path.name.startswith("pbcore-prompt-"), path.suffix) == (True, ".txt")

    def test_a_wide_line_is_kept_in_a_file(self, screens: Any) -> None:
        """Its middle is left out on the screen."""
        assert not [line for line in screens(text="x" * WIDE) if "full answer" in line]
        told = screens(text="x" * (WIDE + 1))
        (more,) = (line for line in told if "full answer" in line)
        assert more.strip().startswith("the full answer: ")
        assert "(2,001 characters)" in told[3]


class TestTokens:
    def test_a_token_without_text_goes_by_its_number(self) -> None:
        """So does every token of a model that has no texts."""
        silent: Any = SimpleNamespace(name="m", mask_id=MASK, eos_id=EOS, text=lambda ids: "")
        told = answer(steps=(0,), token_ids=(5,))
        assert list(trajectory(silent, told)) == ["step  1  0 <5>"]
        assert list(trajectory(SimpleNamespace(name="m"), told)) == ["step  1  0 <5>"]  # type: ignore[arg-type]

"""`pbcore check agreement`: own scores of published answers beside the published ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pbcore.base.errors import InputError
from pbcore.cli import main
from pbcore.extras.check.agreement import agreement_rows
from pbcore.metrics import semantic

WORDS = {"words": ["dog", "park"]}
ANSWERS = [
    {
        "task": "words_to_sentence_easy",
        "label": WORDS,
        "response": "The dog is in the park.",
        "grammar": 1,
        "inclusion": 1,
    },
    {
        "task": "words_to_sentence_hard",
        "label": WORDS,
        "response": "The dog dog runs.",
        "grammar": 0,
        "inclusion": 0,
    },
    {"task": "words_to_sentence_hard", "label": WORDS, "response": "Unmeasured.", "grammar": None},
    {
        "task": "summarization",
        "label": {"text": "Anna: Hi!", "summary": "Anna walks dogs."},
        "response": "Anna walked a dog.",
        "rougeL": 2 / 7 + 9e-7,
    },
    {"task": "puzzles_sudoku_n4", "label": "2143\n4312", "response": "2143"},  # no text: passed by
    {"task": "waiting_line_sort", "label": ["Ann", "Bob"], "response": '["Ann"]'},
    {
        "task": "paraphrasing",
        "label": {"text": "A cat sat."},
        "response": "It sat.",
        "inv_bleu": 1,
        "bertscore": 0.9,
    },
]


def written(path: Path, *answers: dict[str, object]) -> Path:
    path.write_text("\n".join(json.dumps(answer) for answer in answers) + "\n\n")
    return path


@pytest.mark.usefixtures("url")
class TestAgreement:
    def test_published_values_are_counted_metric_by_metric(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Equal to 1e-6 is equal, null is skipped, and what can't be measured here says why."""
        monkeypatch.setenv(semantic.MODEL_VARIABLE, "no-such-model")
        rows = {row.metric: row for row in agreement_rows(written(tmp_path / "a.jsonl", *ANSWERS))}
        assert {name: (row.compared, row.equal, row.differing) for name, row in rows.items()} == {
            "inclusion": (2, 2, []),
            "rougeL": (1, 1, []),
            "inv_bleu": (1, 1, []),
            "grammar": (2, 2, []),
            "bertscore": (0, 0, []),
        }
        assert rows["rougeL"].largest == pytest.approx(9e-7)
        assert rows["bertscore"].absent
        assert not rows["grammar"].absent

    def test_only_published_metrics_have_a_row(self, tmp_path: Path) -> None:
        """A file without a metric says nothing of it."""
        assert [
            row.metric for row in agreement_rows(written(tmp_path / "a.jsonl", *ANSWERS[:3]))
        ] == [
            "inclusion",
            "grammar",
        ]

    def test_the_command_fails_where_a_value_differs(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Exit status 1, the answer, both values and the rule behind a grammar verdict."""
        assert main(["check", "agreement", str(written(tmp_path / "a.jsonl", *ANSWERS[:3]))]) == 0
        said = capsys.readouterr().out.splitlines()
        assert [line.split() for line in said[2:]] == [
            ["inclusion", "2", "2", "0.0e+00"],
            ["grammar", "2", "2", "0.0e+00"],
        ]
        changed = {**ANSWERS[1], "grammar": 1, "inclusion": 1}
        assert (
            main(["check", "agreement", str(written(tmp_path / "b.jsonl", ANSWERS[0], changed))])
            == 1
        )
        said = capsys.readouterr().out.splitlines()
        assert [line.split() for line in said[2:4]] == [
            ["inclusion", "2", "1", "1.0e+00"],
            ["grammar", "2", "1", "1.0e+00"],
        ]
        assert said[-2:] == [
            "inclusion: published 1, here 0: 'The dog dog runs.'",
            "grammar: published 1, here 0 (REPEAT): 'The dog dog runs.'",
        ]

    def test_the_command_names_what_it_could_not_measure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A metric without a value here is no disagreement."""
        monkeypatch.setenv(semantic.MODEL_VARIABLE, "no-such-model")
        assert main(["check", "agreement", str(written(tmp_path / "a.jsonl", ANSWERS[-1]))]) == 0
        said = capsys.readouterr().out.splitlines()
        (row, told) = [line for line in said if line.startswith("bertscore")]
        assert row.split() == ["bertscore", "0", "0"]
        assert told == said[-1]
        assert said[-1].startswith("bertscore not measured: ")

    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            ("", "has no answers"),
            ("{", "line 1: not valid JSON"),
            ("[1]", "line 1: give an object with task and response"),
            (
                '{"task": 3, "response": "x", "label": {}}',
                "line 1: give an object with task and response",
            ),
            (
                '{"task": "paraphrasing", "response": "x", "label": [1]}',
                r"line 1: label \[1\]; give an object",
            ),
            (
                '{"task": "x", "response": "x", "label": {}, "grammar": "1"}',
                "line 1: grammar '1'; give a number or null",
            ),
        ],
    )
    def test_what_cannot_be_compared(self, tmp_path: Path, line: str, complaint: str) -> None:
        """A file without answers and a line of wrong types are named, not compared."""
        path = tmp_path / "a.jsonl"
        path.write_text(line)
        with pytest.raises(InputError, match=rf"a.jsonl.*{complaint}"):
            agreement_rows(path)

"""This package's scores beside published ones.

The file has one JSON object per line: `task`, `response`, `label`, and published values: `grammar`,
`inclusion`, `rougeL` (unstemmed), `bertscore`, `inv_bleu`. Values that are null are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pbcore.base.check import wrong
from pbcore.base.errors import InputError
from pbcore.base.tabular import Table, terminal
from pbcore.metrics.text import PARAPHRASING, SUMMARIZATION, WORDS_TO_SENTENCE
from pbcore.tasks.base import Sample
from pbcore.tasks.files import read_json_lines
from pbcore.tasks.scoring import Scored

TOLERANCE = 1e-6
# A metric's published name → ours.
METRICS = {
    "inclusion": "inclusion",
    "rougeL": "rouge_l_unstemmed",
    "inv_bleu": "inv_bleu",
    "grammar": "grammar",
    "bertscore": "bertscore",
}
# What a task's name holds → its scorer.
SCORERS = {
    "words_to_sentence": WORDS_TO_SENTENCE,
    "summariz": SUMMARIZATION,
    "paraphras": PARAPHRASING,
}


@dataclass(slots=True)
class Agreement:
    """One metric: values compared, those equal to 1e-6, the largest difference, and the answers
    that differ.
    """

    metric: str
    compared: int = 0
    equal: int = 0
    largest: float = 0.0
    differing: list[str] = field(default_factory=list)
    absent: str = ""

    def compare(self, published: float, ours: float, note: str) -> None:
        """Counts one answer.

        Args:
            published: its published score.
            ours: the score computed here.
            note: what follows in the list of differences.
        """
        difference = abs(ours - published)
        self.compared += 1
        self.largest = max(self.largest, difference)
        if difference <= TOLERANCE:
            self.equal += 1
        if difference > TOLERANCE:
            self.differing.append(f"{self.metric}: published {published:g}, here {ours:g}{note}")


def agreement_rows(path: Path) -> list[Agreement]:
    """A row per metric that has published values in `path`. Raises InputError for a line that can't
    be read, OSError for no file.
    """
    published = [
        _checked(value, f"{path}, line {number}") for number, value in read_json_lines(path)
    ]
    if not published:
        raise InputError(f"{path} has no answers; give one JSON object per line")
    rows = []
    for name in METRICS:
        if any(entry.get(name) is not None for entry in published):
            rows.append(Agreement(name))
    for part, scorer in SCORERS.items():
        entries = [entry for entry in published if part in entry["task"]]
        samples = [
            Sample(entry["task"], index, (), {}, entry["label"], 64)
            for index, entry in enumerate(entries)
        ]
        metrics = frozenset(METRICS[row.metric] for row in rows) & {*scorer.metrics}
        results = scorer.score([entry["response"] for entry in entries], samples, metrics)
        for entry, result in zip(entries, results, strict=True):
            for row in rows:
                if entry.get(row.metric) is not None:
                    _compare(row, entry, result)
    return rows


def _compare(row: Agreement, entry: Mapping[str, Any], result: Scored) -> None:
    """Compares the metric of a row in a published entry with the score of this package."""
    name = METRICS[row.metric]
    if name not in result.scores:
        row.absent = result.details["absent"][name]
        return
    note = ""
    if name == "grammar":
        rules = ", ".join(match["rule"] for match in result.details.get("matches", ()))
        note = f" ({rules or 'no rule matched'})"
    row.compare(entry[row.metric], result.scores[name], f"{note}: {entry['response']!r}")


def _checked(entry: Any, where: str) -> dict[str, Any]:
    """A line's entry. Raises InputError, which names the place, for a missing text or label and for
    a wrong value.
    """
    texts = ("task", "response")
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in texts):
        raise InputError(f"{where}: give an object with task and response, both texts, and label")
    if any(part in entry["task"] for part in SCORERS) and not isinstance(entry.get("label"), dict):
        raise wrong(f"{where}: label", entry.get("label"), 'an object, such as {"words": [...]}')
    for metric in METRICS:
        if not isinstance(entry.get(metric), int | float | None):
            raise wrong(f"{where}: {metric}", entry[metric], "a number or null")
    return entry


def render(rows: Sequence[Agreement]) -> str:
    """The table as text, followed by the answers that differ and the reasons for metrics not
    measured.
    """
    cells = [
        (row.metric, row.compared, row.equal, f"{row.largest:.1e}" if row.compared else "")
        for row in rows
    ]
    head = ("metric", "answers compared", f"equal to {TOLERANCE:g}", "largest difference")
    lines = [terminal(Table(head, cells, "lrrr"))]
    notes = [line for row in rows for line in row.differing]
    for row in rows:
        if row.absent:
            notes.append(f"{row.metric} not measured: {row.absent}")
    if notes:
        lines += ["", *notes]
    return "\n".join(lines)

"""Answers of a run on which a corrected score disagrees with the official score: how many, and
which.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from pbcore.results.record import CellRecord, SampleRecord

# Corrected score → the official one that it stands beside (docs/tasks.md says what each corrects).
OFFICIAL = {
    "accuracy_any_layout": "accuracy",
    "accuracy_as_asked": "accuracy",
    "inclusion_any_case": "inclusion",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One corrected score of one task over all cells of a run. `higher` and `lower` are the answers
    (cell id, answer) that it scores higher or lower than `official` does.
    """

    task: str
    score: str
    official: str
    answers: int
    higher: tuple[tuple[str, SampleRecord], ...]
    lower: tuple[tuple[str, SampleRecord], ...]

    @property
    def count(self) -> int:
        return len(self.higher) + len(self.lower)


def differences(
    cells: Sequence[CellRecord], samples: Mapping[str, Sequence[SampleRecord]]
) -> list[Difference]:
    """Per task and corrected score, by task name, how the recorded scores differ; every seed's
    answer counts. `samples`: cell id → its answers. Scores that were not recorded are left out.
    """
    task_of = {cell.id: cell.task for cell in cells}
    answers: dict[str, list[tuple[str, SampleRecord]]] = {}
    for cell, of_cell in samples.items():
        answers.setdefault(task_of.get(cell, cell), []).extend((cell, answer) for answer in of_cell)
    rows = []
    for task, (score, official) in product(sorted(answers), OFFICIAL.items()):
        both = [
            (one, one[1].scores)
            for one in answers[task]
            if {score, official} <= one[1].scores.keys()
        ]
        if both:
            higher = tuple(one for one, scores in both if scores[score] > scores[official])
            lower = tuple(one for one, scores in both if scores[score] < scores[official])
            rows.append(Difference(task, score, official, len(both), higher, lower))
    return rows

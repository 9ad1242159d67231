"""The exact distribution of a Sample's valid answers as word-level tokens, and its marginals given
revealed ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import factorial

import numpy as np

from pbcore.tasks import puzzles
from pbcore.tasks.base import Sample
from pbcore.tasks.lists import formatted
from pbcore.tasks.registry import task_spec
from pbcore.tasks.words import tokens
from pbcore.theory.answers import latin_squares, valid_lists
from pbcore.theory.canvas import (
    EOS,
    MASKED,
    AnswerDistribution,
    Ids,
    NoDistribution,
    Probabilities,
    ProductDistribution,
    canvas_tokens,
    check_room,
    given_ids,
    up_to_eos,
)
from pbcore.theory.chains import Chain

# Scorer → the operation of `answers` that lists the answers it accepts; None: only the label's
# text.
SCORERS: Mapping[str, str | None] = {
    "list_match": None,
    "list_sort": None,
    "sudoku": None,
    "list_shuffle": "shuffle_changed",
    "list_permutation": "shuffle",
    "list_insert_random": "insert_random",
    "list_remove_random": "remove_random",
    "list_replace_random": "replace_random",
    "latin_square": "latin_square",
    "questions": "questions",
    "walk": "walk",
}


def supports(task: str) -> bool:
    """Whether the valid answers of a task (by name) are known. Raises ValueError for an unknown
    task.
    """
    return task_spec(task).scorer in SCORERS


def answer_distribution(sample: Sample, length: int | None = None) -> AnswerDistribution:
    """Uniform over the answers that the task's scorer accepts, or over those of a label {"answers":
    [texts]}; a walk's law is that of its kernel.

    `length` is the canvas length in tokens (default: the sample's; for infilling always the
    canvas's own). Raises NoDistribution for tasks such as text writing and for a canvas too short,
    TooManyAnswers for long lists in which people share names.
    """
    given = None if sample.canvas is None else canvas_tokens(sample.canvas)
    if given is not None:
        size = len(given)
    elif length is not None:
        size = length
    else:
        size = sample.max_new_tokens
    label = sample.label
    if isinstance(label, Mapping) and "answers" in label:
        return listed([tokens(text) for text in label["answers"]], size, given)
    scorer = task_spec(sample.task).scorer
    if scorer not in SCORERS:
        raise NoDistribution(
            f"{sample.task}: the valid answers can't be listed for the scorer {scorer}; they can"
            f' for {", ".join(SCORERS)}, and for labels {{"answers": [texts]}}'
        )
    kind = SCORERS[scorer]
    if kind is None:
        if not isinstance(label, str):
            raise NoDistribution(
                f"{sample.task}, sample {sample.index}: the label must be the text of the answer,"
                f" not {label!r}"
            )
        return listed([tokens(label)], size, given)
    if kind == "latin_square":
        return _squares(list(map(str, label["symbols"])), size, given)
    if kind == "walk":
        laws = puzzles.kernel(label["edges"], len(label["nodes"]))
        return Chain(label["nodes"], laws, label["start"], label["length"], size, given)
    if kind == "questions":  # each on a canvas of just its answers' length
        parts = []
        for question in label["questions"]:
            asked = replace(sample, task=question["task"], label=question["label"], canvas=None)
            parts.append(answer_distribution(asked, len(tokens(question["example"]))))
        return ProductDistribution(parts, "\n", size, given)
    people = [tuple(tokens(f'["{item}"]')[1:-1]) for item in label["input"]]
    # By counting where all people have equally many names and each single name identifies its
    # person.
    distinct = all(len(set(part)) == len(people) for part in zip(*people, strict=False))
    if kind.startswith("shuffle") and distinct and len(set(map(len, people))) == 1:
        return Shuffled(people, size, given, identity=kind == "shuffle")
    answers = valid_lists(kind, label["input"], label.get("word"))
    if not answers:
        raise NoDistribution(f"{label['input']} has no other order")
    return listed([tokens(formatted(answer)) for answer in answers], size, given)


class Listed:
    """Uniform over listed answers, so conditioning means filtering. `rows` (A, L) holds distinct
    answers as ids.
    """

    def __init__(
        self, vocabulary: tuple[str, ...], rows: Ids, given: Sequence[str | None] | None = None
    ) -> None:
        self.vocabulary = vocabulary
        self.rows = rows
        self.length = rows.shape[1]
        self.canvas = given_ids(
            given, self.length, {token: i for i, token in enumerate(vocabulary)}
        )
        self._varying = (rows != rows[0]).any(0).nonzero()[0]  # (W,)
        self._fixed = np.zeros((self.length, len(vocabulary)))  # (L, v)
        self._fixed[np.arange(self.length), rows[0]] = 1.0

    def marginals(self, canvas: Ids) -> Probabilities:
        if len(self.rows) == 1:
            return self._fixed.copy()
        answers = self.consistent(canvas)[:, self._varying]  # (a, W)
        v = len(self.vocabulary)
        width = len(self._varying)
        counts = np.bincount((answers + np.arange(width) * v).ravel(), minlength=width * v)
        result = self._fixed.copy()
        result[self._varying] = counts.reshape(width, v) / len(answers)
        return result

    def fits(self, canvas: Ids) -> bool:
        canvas = up_to_eos(canvas, len(self.vocabulary) - 1)
        revealed = canvas != MASKED  # (L,)
        return bool((self.rows[:, revealed] == canvas[revealed]).all(-1).any())

    def consistent(self, canvas: Ids) -> Ids:
        """The answers (a, L), at least one, that agree with the revealed tokens."""
        revealed = self._varying[canvas[self._varying] != MASKED]
        agree = (self.rows[:, revealed] == canvas[revealed]).all(-1)  # (A,)
        if not agree.any():
            agree[:] = True
            for position in revealed:
                narrower = agree & (self.rows[:, position] == canvas[position])
                agree = narrower if narrower.any() else agree
        return np.asarray(self.rows[agree])


class Shuffled:
    """Uniform over the orders of people with distinct names, by counting: a revealed name assigns a
    person to a slot, the rest are free. With f free people there are f! completions; one fewer if
    the list itself is among them and not a valid answer (`identity` False). `slots` (n, w) are the
    canvas positions of each slot's names, `people` (n, w) the ids of each person's in the list.
    """

    def __init__(
        self,
        people: Sequence[Sequence[str]],
        length: int,
        given: Sequence[str | None] | None = None,
        *,
        identity: bool,
    ) -> None:
        joined = [token for person in people for token in ('", "', *person)]
        answer = ['["', *joined[1:], '"]']
        self.length = length
        self.vocabulary = _vocabulary([answer])
        self.identity = identity
        ids = {token: i for i, token in enumerate(self.vocabulary)}
        n = len(people)
        width = len(people[0])
        if n < 2 and not identity:
            raise NoDistribution("a list of one person has no other order")
        self.canvas = given_ids(given, length, ids)
        # (n, w)
        parts = np.array([[ids[part] for part in person] for person in people])
        self.people = parts
        # (n, w): canvas positions.
        self.slots = 1 + np.arange(n)[:, None] * (width + 1) + np.arange(width)
        # Canvas position, slot and part of each name.
        self._places: list[tuple[int, int, int]] = []
        for slot, row in enumerate(self.slots):
            for part, position in enumerate(row):
                self._places.append((int(position), slot, part))
        # Per part: token → person.
        self._person: list[dict[int, int]] = []
        for part in range(width):
            self._person.append({int(token): i for i, token in enumerate(parts[:, part])})
        # (L, v)
        self._fixed = np.zeros((length, len(ids)))
        self._fixed[np.arange(length), [ids[token] for token in _padded(answer, length)]] = 1.0
        self._fixed[self.slots.ravel()] = 0.0
        # (w, n, v): the token of each person's part.
        self._names = np.zeros((width, n, len(ids)))
        self._names[np.arange(width)[:, None], np.arange(n), parts.T] = 1.0

    def marginals(self, canvas: Ids) -> Probabilities:
        result = self._fixed.copy()
        people = self.people_given(self.assigned(canvas.tolist()))  # (n, n)
        result[self.slots.T] = people @ self._names  # (w, n, v)
        return result

    def fits(self, canvas: Ids) -> bool:
        canvas = up_to_eos(canvas, len(self.vocabulary) - 1)
        fixed = self._fixed.any(-1)  # (L,): outside of the slots
        shown = (fixed & (canvas != MASKED)).nonzero()[0]
        if (self._fixed.argmax(-1)[shown] != canvas[shown]).any():
            return False
        people: dict[int, int] = {}  # by slot
        for place, slot, part in self._places:
            if canvas[place] == MASKED:
                continue
            person = self._person[part].get(int(canvas[place]))
            if person is None or people.setdefault(slot, person) != person:
                return False
        if len(set(people.values())) < len(people):
            return False
        # With at most one person left, all in their own slots make the list itself.
        unmoved = all(slot == person for slot, person in people.items())
        only_itself = unmoved and len(people) >= len(self.slots) - 1
        return self.identity or not only_itself

    def assigned(self, canvas: list[int]) -> dict[int, int]:
        """Slot → person, from the revealed names; names that contradict those before them are
        skipped.
        """
        assigned: dict[int, int] = {}
        taken: set[int] = set()
        n = len(self.slots)
        excluded = not self.identity
        for place, slot, part in self._places:
            person = self._person[part].get(canvas[place])
            if person is None or slot in assigned or person in taken:
                continue
            if excluded and slot == person and len(assigned) >= n - 2:
                # With the last but one in its own slot, the last would be in its own too.
                continue
            assigned[slot] = person
            taken.add(person)
            excluded = excluded and slot == person
        return assigned

    def people_given(self, assigned: Mapping[int, int]) -> Probabilities:
        """p(person in slot), (n, n): uniform over the orders of the free people, without the
        excluded order.
        """
        n = len(self.slots)
        free = n - len(assigned)
        matrix = np.zeros((n, n))
        if free:
            forbidden = not self.identity and all(
                slot == person for slot, person in assigned.items()
            )
            total = factorial(free) - forbidden
            slots = [slot for slot in range(n) if slot not in assigned]
            people = sorted(set(range(n)) - set(assigned.values()))
            matrix[np.ix_(slots, people)] = factorial(free - 1) / total
            if forbidden:
                matrix[slots, slots] = (factorial(free - 1) - 1) / total
        for slot, person in assigned.items():
            matrix[slot, person] = 1.0
        return matrix


def listed(
    answers: Sequence[Sequence[str]], length: int, given: Sequence[str | None] | None = None
) -> Listed:
    """The uniform distribution over listed answers; repeated answers count once.

    Args:
        answers: each answer as tokens.
        length: the canvas length L.
        given: the initial canvas, None where masked; None if all is.
    """
    vocabulary = _vocabulary(answers)
    ids = {token: i for i, token in enumerate(vocabulary)}
    padded = dict.fromkeys(tuple(_padded(answer, length)) for answer in answers)
    rows = [[ids[token] for token in answer] for answer in padded]
    return Listed(vocabulary, np.array(rows, dtype=np.int64), given)


def _squares(symbols: Sequence[str], length: int, given: Sequence[str | None] | None) -> Listed:
    side = len(symbols)
    # (A, n, n)
    squares = latin_squares(side)
    if any(len(tokens(symbol)) > 1 for symbol in symbols):
        texts = np.array(symbols)[squares].tolist()
        answers = [tokens("\n".join(map(",".join, square))) for square in texts]
        return listed(answers, length, given)
    vocabulary = (*symbols, ",", "\n", EOS)
    check_room(2 * side * side - 1, length)
    rows = np.full((len(squares), length), side + 2, dtype=np.int64)  # (A, L)
    rows[:, 1 : 2 * side * side - 1 : 2] = side
    rows[:, 2 * side - 1 : 2 * side * side - 1 : 2 * side] = side + 1
    rows[:, 0 : 2 * side * side - 1 : 2] = squares.reshape(len(squares), -1)
    return Listed(vocabulary, rows, given)


def _vocabulary(answers: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return (*sorted({token for answer in answers for token in answer}), EOS)


def _padded(answer: Sequence[str], length: int) -> list[str]:
    check_room(len(answer), length)
    return list(answer) + [EOS] * (length - len(answer))

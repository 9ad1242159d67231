"""Independent answers on one canvas: several questions that are answered together (`questions/…`)."""

from collections.abc import Sequence

import numpy as np

from pbcore.tasks.words import tokens
from pbcore.theory.canvas import EOS, MASKED, AnswerDistribution, Ids, Probabilities, check_room, given_ids


class Product:
    """The answers of `parts`, each independent of the others, joined by `between` and padded with EOS to `length`.
    Every part's canvas has exactly the length of its answers. What is revealed of one tells nothing of another, so k
    questions need the steps of one: the ideal speed-up is k."""

    def __init__(
        self, parts: Sequence[AnswerDistribution], between: str, length: int, given: Sequence[str | None] | None = None
    ) -> None:
        joint = tokens(between)
        self.parts, self.length = tuple(parts), length
        check_room(sum(part.length for part in parts) + len(joint) * (len(parts) - 1), length)
        words = {token for part in parts for token in part.vocabulary} - {EOS}
        self.vocabulary = (*sorted(words | set(joint)), EOS)
        ids = {token: i for i, token in enumerate(self.vocabulary)}
        self.canvas = given_ids(given, length, ids)
        starts = np.cumsum([0, *(part.length + len(joint) for part in parts[:-1])])
        self.slices = tuple(slice(int(at), int(at) + part.length) for at, part in zip(starts, parts, strict=True))
        self._columns = [np.array([ids[token] for token in part.vocabulary]) for part in parts]
        self._local = []  # per part: its id of each token of the vocabulary, an impossible one for those of others
        for part, columns in zip(parts, self._columns, strict=True):
            local = np.full(len(ids), len(part.vocabulary), dtype=np.int64)
            local[columns] = np.arange(len(columns))
            self._local.append(local)
        self._fixed = np.zeros((length, len(ids)))  # (L, v)
        self._fixed[:, ids[EOS]] = 1.0
        for where in self.slices[:-1]:
            for offset, token in enumerate(joint):
                self._fixed[where.stop + offset] = np.eye(len(ids))[ids[token]]

    def local(self, canvas: Ids, number: int) -> Ids:
        """The part of a canvas (L,) that belongs to a question, in its own ids."""
        own = canvas[self.slices[number]]
        known = np.where((own >= 0) & (own < len(self.vocabulary)), own, 0)
        result: Ids = np.where(own == MASKED, MASKED, self._local[number][known])
        result[own >= len(self.vocabulary)] = len(self.parts[number].vocabulary)
        return result

    def marginals(self, canvas: Ids) -> Probabilities:
        result = self._fixed.copy()
        for number, (part, where) in enumerate(zip(self.parts, self.slices, strict=True)):
            result[where] = 0.0
            result[where, self._columns[number]] = part.marginals(self.local(canvas, number))
        return result

"""Walks of a Markov chain as answers: exact marginals by forward–backward, so of any length
(`walk/graph`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pbcore.theory.canvas import EOS, MASKED, Ids, Probabilities, check_room, given_ids, up_to_eos

Kernel = NDArray[np.float64]


def stationary(kernel: Kernel) -> NDArray[np.float64]:
    """The law (s,) with π = πP of an irreducible kernel P (s, s)."""
    states = len(kernel)
    equations = np.vstack([kernel.T - np.eye(states), np.ones(states)])
    law: NDArray[np.float64] = np.linalg.lstsq(
        equations, np.append(np.zeros(states), 1.0), rcond=None
    )[0]
    return law


class Chain:
    """Walks of `steps` nodes from node `first` under the kernel P (s, s); one token per node, then
    EOS. Not uniform: a walk's probability is P(x₁, x₂) P(x₂, x₃) … .
    """

    def __init__(
        self,
        nodes: Sequence[str],
        kernel: Sequence[Sequence[float]],
        first: int,
        steps: int,
        length: int,
        given: Sequence[str | None] | None = None,
    ) -> None:
        check_room(steps, length)
        self.vocabulary = (*nodes, EOS)
        self.length = length
        self.steps = steps
        self.canvas = given_ids(
            given, length, {token: i for i, token in enumerate(self.vocabulary)}
        )
        self.kernel = np.array(kernel, dtype=np.float64)
        self._start = np.eye(len(self.kernel))[first]

    def marginals(self, canvas: Ids) -> Probabilities:
        forward, backward = self.messages(canvas)
        result = np.zeros((self.length, len(self.vocabulary)))
        result[self.steps :, -1] = 1.0
        together = forward * backward
        result[: self.steps, :-1] = together / together.sum(-1, keepdims=True)
        return result

    def fits(self, canvas: Ids) -> bool:
        canvas = up_to_eos(canvas, len(self.kernel))
        rest = canvas[self.steps :]
        if (rest[rest != MASKED] != len(self.kernel)).any():
            return False
        reached = self._start > 0  # (s,) nodes where a walk with the tokens so far can be
        for t in range(self.steps):
            if t:
                reached = reached @ (self.kernel > 0)
            if canvas[t] != MASKED:
                reached = reached & (np.arange(len(reached)) == canvas[t])
        return bool(reached.any())

    def messages(self, canvas: Ids) -> tuple[Probabilities, Probabilities]:
        """p(node at t | tokens up to t) and p(tokens after t | node at t) up to a factor, (n, s)
        each, without tokens that are impossible given those before them.
        """
        states = len(self.kernel)
        seen = np.ones((self.steps, states))
        forward = np.empty_like(seen)
        backward = np.ones_like(seen)
        for t in range(self.steps):
            before = self._start if t == 0 else forward[t - 1] @ self.kernel
            if canvas[t] != MASKED:
                shown = (np.arange(states) == canvas[t]).astype(np.float64)
                seen[t] = shown if before @ shown > 0 else 1.0
            forward[t] = before * seen[t]
            forward[t] /= forward[t].sum()
        for t in range(self.steps - 2, -1, -1):
            backward[t] = self.kernel @ (seen[t + 1] * backward[t + 1])
            backward[t] /= backward[t].sum()
        return forward, backward

    def entropy(self, positions: Sequence[int]) -> float:
        """H in bits of the nodes at these positions, nothing being revealed."""
        law = self.marginals(np.full(self.length, MASKED))[:, :-1]
        total = 0.0
        last = None
        for position in sorted(positions):
            if last is None:
                total += law_entropy(law[position])
            else:
                jumps = np.linalg.matrix_power(self.kernel, position - last)
                total += sum(
                    law[last, node] * law_entropy(jumps[node]) for node in range(len(jumps))
                )
            last = position
        return float(total)

    def bits_lost(self, when: Ids) -> float:
        """L_T in bits of revealing the node at t at step when[t], (n,): the sum over steps of Σᵢ
        H(yᵢ | before) − H(all of the step | before).
        """
        known: list[int] = []
        total = 0.0
        before = 0.0
        for step in np.unique(when):
            here = [int(t) for t in (when == step).nonzero()[0]]
            after = self.entropy([*known, *here])
            total += sum(self.entropy([*known, t]) - before for t in here) - (after - before)
            known = [*known, *here]
            before = after
        return max(0.0, total)


def law_entropy(law: Probabilities) -> float:
    """The entropy of a law (s,) in bits."""
    chances = law[law > 0]
    return float(-(chances * np.log2(chances)).sum())

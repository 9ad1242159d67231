"""A sampler of one's own: the surest places, but never two neighbours in one step.

PYTHONPATH=docs/examples pytest -p my_sampler tiny/shuffle/apart-2
"""

from dataclasses import dataclass

import pbcore


@pbcore.register_policy("apart")
@dataclass(frozen=True)
class Apart:
    """At most `most` positions of highest confidence, no two of them neighbours."""

    most: int = 2

    def select(self, step):
        reveal = step.best(step.confidence, self.most)  # (R, C)
        reveal[:, 1:] &= ~reveal[:, :-1]
        return step.at_least_best(reveal, step.confidence)

"""Scores of a random walk: is it one of the graph, and which share of its steps follows an edge."""

from collections.abc import Sequence
from itertools import pairwise

from pbcore.tasks.base import Sample
from pbcore.tasks.scoring import Scored, register_scorer
from pbcore.tasks.walks import is_walk, walked


class WalkScorer:
    """`accuracy`: the walk begins where it should, has the asked length, and each step follows an edge (its validity
    in arXiv 2606.22976). `edges`: the share of its steps that follow an edge.

    How often it goes where is for many answers together: `metrics.answer_law`.
    """

    metrics = ("accuracy", "edges")

    def score(self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]) -> list[Scored]:
        """One result per answer; `details` tell the first wrong step."""
        return [self._one(text, sample, metrics) for text, sample in zip(predictions, samples, strict=True)]

    def _one(self, text: str, sample: Sample, metrics: frozenset[str]) -> Scored:
        label, nodes = sample.label, walked(sample.label, text)
        edges = {frozenset(edge) for edge in label["edges"]}
        steps = [frozenset(step) in edges for step in pairwise(nodes)]
        right = is_walk(label, nodes)
        scores = {"accuracy": float(right), "edges": sum(steps) / max(1, label["length"] - 1, len(steps))}
        details = {} if right else dict(zip(("failure", "why"), self._fault(label, nodes, steps), strict=True))
        return Scored({metric: score for metric, score in scores.items() if metric in metrics}, details)

    @staticmethod
    def _fault(label: dict[str, object], nodes: list[int], steps: list[bool]) -> tuple[str, str]:
        if len(nodes) != label["length"]:
            return "wrong length", f"{len(nodes)} nodes instead of {label['length']}"
        if nodes[0] != label["start"]:
            return "wrong start", "it begins at another node"
        place = steps.index(False)
        return "no edge", f"no edge leads from node {place + 1} of the walk to the next"


register_scorer("walk", WalkScorer())

"""Independent questions on one canvas: the joint law is the product of the parts', found by
enumeration.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pbcore.tasks import load_task
from pbcore.theory.canvas import MASKED, ProductDistribution
from pbcore.theory.distributions import Listed, answer_distribution
from pbcore.theory.lost import bits_lost, mutual_information
from pbcore.theory.problems import NotExact, structure


def pair(operation: str) -> tuple[ProductDistribution, Listed]:
    """Two questions on lists of three, and all their joint answers, listed."""
    task = load_task(f"questions/{operation}-x2", n=3, limit=1)
    several = answer_distribution(task.samples[0], 32)
    assert isinstance(several, ProductDistribution)
    texts = []
    for part in several.parts:
        rows = part.rows if isinstance(part, Listed) else _shuffles(part)
        texts.append([[part.vocabulary[token] for token in row] for row in rows])
    ids = {token: i for i, token in enumerate(several.vocabulary)}
    joint = [[*one, "\n", *other] for one, other in product(*texts)]
    padded = [[*words, *[several.vocabulary[-1]] * (32 - len(words))] for words in joint]
    return several, Listed(
        several.vocabulary, np.array([[ids[word] for word in words] for words in padded])
    )


def _shuffles(part: object) -> np.ndarray:
    from pbcore.ceilings.table import listed_rows

    return listed_rows(part)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("operation", ["shuffle", "replace_random"])
def test_marginals_are_those_of_the_joint_answers(operation: str) -> None:
    """At any canvas of an answer with some tokens hidden, and also where a revealed token is
    impossible.
    """
    several, joint = pair(operation)
    rng = np.random.default_rng(0)
    for trial in range(60):
        canvas = joint.rows[rng.integers(len(joint.rows))].copy()
        canvas[rng.random(len(canvas)) < 0.7] = MASKED
        if trial % 5 == 0:
            canvas[rng.integers(len(canvas))] = rng.integers(len(several.vocabulary))
            canvas[~((joint.rows == canvas) | (canvas == MASKED)).any(0)] = (
                MASKED  # of no answer: unknown everywhere
            )
            if not ((joint.rows == canvas) | (canvas == MASKED)).all(-1).any():
                continue
        assert np.allclose(several.marginals(canvas), joint.marginals(canvas), atol=1e-12)


@pytest.mark.parametrize("operation", ["shuffle", "replace_random"])
def test_a_canvas_fits_if_some_joint_answer_has_its_tokens(operation: str) -> None:
    """At canvases of an answer with some tokens hidden and up to two replaced."""
    several, joint = pair(operation)
    rng = np.random.default_rng(0)
    for trial in range(60):
        canvas = joint.rows[rng.integers(len(joint.rows))].copy()
        canvas[rng.random(len(canvas)) < 0.7] = MASKED
        for _ in range(trial % 3):
            canvas[rng.integers(len(canvas))] = rng.integers(len(several.vocabulary))
        assert several.fits(canvas) == joint.fits(canvas)


def test_what_one_question_loses_adds_up() -> None:
    """L_T of a joint partition is that of the listed joint answers, by enumeration."""
    several, joint = pair("shuffle")
    rng = np.random.default_rng(1)
    for _ in range(10):
        steps = rng.integers(0, 5, several.length).tolist()
        assert bits_lost(several, steps) == pytest.approx(bits_lost(joint, steps), abs=1e-9)


def test_questions_tell_nothing_of_each_other() -> None:
    """Mutual information is that of the joint answers: 0 between questions."""
    several, joint = pair("replace_random")
    canvas = np.full(several.length, MASKED)
    found = mutual_information(several, canvas)
    assert np.allclose(found, mutual_information(joint, canvas), atol=1e-9)
    one, other = several.slices
    assert not found[one, other].any()


def test_no_ceiling_is_claimed() -> None:
    """The share of right questions isn't a probability of one answer; ceilings are refused by an
    error, not a crash.
    """
    with pytest.raises(NotExact, match="product"):
        structure(pair("shuffle")[0])

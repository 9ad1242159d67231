"""The Monte Carlo bound against a plain sum over every pattern of masks, and against the definition
by orders.
"""

from __future__ import annotations

from itertools import permutations
from math import comb
from pathlib import Path
from typing import Any

import pytest
import torch

import pbcore
from pbcore.base.errors import InputError
from pbcore.extras.lm_eval import likelihood
from pbcore.extras.lm_eval.likelihood import bounds
from pbcore.models.network import Columns
from tests.models.checkpoints import llama_checkpoint
from tests.torch_states import STATES

PROMPT = [2, 7, 8, 9]
ANSWER = [10, 11, 12]


@pytest.fixture(scope="module", params=[False, True], ids=["llada", "dream"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A checkpoint with random weights; Dream's logits are shifted by one."""
    return pbcore.load_model(
        str(llama_checkpoint(tmp_path_factory.mktemp("model"))), shift=request.param
    )


def log_p(model: Any, prompt: list[int], canvas: list[int], place: int, token: int) -> float:
    """The log-probability of a token at one masked place, from a forward of the whole sequence."""
    ids = torch.tensor([prompt + canvas])
    with torch.inference_mode():
        hidden = model.network.hidden(Columns(ids, torch.arange(ids.shape[1])[None]))
        logits = model.network.project(hidden[0, len(prompt) + place - int(model.shift)]).double()
        logits[model.mask_id] = -torch.inf
        return float(logits.log_softmax(-1)[token])


def by_patterns(model: Any, prompt: list[int], answer: list[int]) -> float:
    """The bound, enumerated: the mean over l of the mean over patterns of l masks."""
    length = len(answer)
    total = 0.0
    for pattern in range(1, 2**length):
        masked = [i for i in range(length) if pattern >> i & 1]
        canvas = [model.mask_id if i in masked else token for i, token in enumerate(answer)]
        inner = sum(log_p(model, prompt, canvas, i, answer[i]) for i in masked)
        total += inner * length / len(masked) / comb(length, len(masked)) / length
    return total


def by_orders(model: Any, prompt: list[int], answer: list[int]) -> float:
    """The mean over all orders of the log-likelihood of decoding one token at a time."""
    orders = list(permutations(range(len(answer))))
    total = 0.0
    for order in orders:
        canvas = [model.mask_id] * len(answer)
        for place in order:
            total += log_p(model, prompt, canvas, place, answer[place])
            canvas[place] = answer[place]
    return total / len(orders)


def test_few_tokens_are_exact(model: Any) -> None:
    """With all patterns within the draws the bound is exact, and equals the mean over orders."""
    [found] = bounds(model, [(PROMPT, ANSWER)], draws=7, seeds=[0], size=3)
    assert found.value == pytest.approx(by_patterns(model, PROMPT, ANSWER), abs=1e-4)
    assert found.value == pytest.approx(by_orders(model, PROMPT, ANSWER), abs=1e-4)
    assert (found.error, found.forwards) == (0, 7)


def test_one_token_is_the_likelihood_itself(model: Any) -> None:
    """A continuation of one token takes one forward."""
    [found] = bounds(model, [(PROMPT, ANSWER[:1])], draws=2, seeds=[0], size=8)
    assert found.value == pytest.approx(
        log_p(model, PROMPT, [model.mask_id], 0, ANSWER[0]), abs=1e-4
    )
    assert found.forwards == 1


def test_draws_estimate_the_exact_bound(model: Any) -> None:
    """Over many seeds the estimates' mean is the exact bound, and their spread no more than the
    standard errors say.
    """
    exact = by_patterns(model, PROMPT, ANSWER)
    seeds = range(60)
    found = bounds(model, [(PROMPT, ANSWER)] * len(seeds), draws=6, seeds=list(seeds), size=64)
    values = torch.tensor([one.value for one in found], dtype=torch.float64)
    assert all(one.error > 0 and one.forwards == 6 for one in found)
    assert abs(float(values.mean()) - exact) < 4 * float(values.std()) / len(values) ** 0.5
    errors = torch.tensor([one.error for one in found], dtype=torch.float64)
    assert float(values.std()) < 1.3 * float(errors.pow(2).mean().sqrt())


def test_results_do_not_depend_on_batches(model: Any) -> None:
    """Pairs of other lengths in the same forward change nothing."""
    pairs = [(PROMPT, ANSWER), (PROMPT[:2], [*ANSWER, 13, 14, 15]), ([2], ANSWER[:1])]
    together = bounds(model, pairs, draws=9, seeds=[1, 2, 3], size=16)
    alone = [
        bounds(model, [pair], draws=9, seeds=[seed], size=1)[0]
        for pair, seed in zip(pairs, [1, 2, 3], strict=True)
    ]
    assert [one.value for one in together] == pytest.approx([one.value for one in alone], abs=1e-4)


def test_draws_are_a_number(model: Any) -> None:
    draws: Any = "8"
    with pytest.raises(InputError, match="mc"):
        bounds(model, [(PROMPT, ANSWER)], draws, [0], 4)


def test_checkpoint_is_random(tmp_path: Path) -> None:
    """The exactness above is no accident of a model that predicts all tokens alike."""
    model = pbcore.load_model(str(llama_checkpoint(tmp_path)))
    values = [
        one.value
        for one in bounds(model, [(PROMPT, [token]) for token in range(6, 16)], 2, [0] * 10, 10)
    ]
    assert max(values) - min(values) > 0.5


def test_terms_are_rounded_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With -1 for each masked token's sum, a term is -L / l to the last bit."""
    monkeypatch.setattr(
        likelihood,
        "_log_probabilities",
        lambda _, rows: -torch.ones(len(rows), dtype=torch.float64),
    )
    [found] = bounds(model, [([1], [2] * 49)], draws=64, seeds=[0], size=64)
    masked, _, _ = likelihood._patterns(49, 64, 0)
    terms = torch.tensor([-49 / int(row.sum()) for row in masked], dtype=torch.float64)
    assert (found.value, found.error) == (float((terms / 64).sum()), float(terms.std()) / 8)


def test_every_number_of_masks_has_its_share_of_the_draws() -> None:
    """As many draws as tokens have 1, 2 … L masks, each once; with twice as many, twice."""
    for times in (1, 2):
        masked, weights, whole = likelihood._patterns(64, 64 * times, seed=3)
        assert sorted(masked.sum(-1).tolist()) == sorted([*range(1, 65)] * times)
        assert weights.tolist() == [1 / (64 * times)] * (64 * times)
        assert not whole


@pytest.mark.parametrize("state", ["bfloat16", "meta", "autocast"])
def test_states_of_torch_change_no_bound(model: Any, state: str) -> None:
    """A default dtype, a default device and autocast of the user's leave bounds as they are."""
    expected = bounds(model, [(PROMPT, ANSWER)], draws=4, seeds=[0], size=3)
    with STATES[state]():
        assert bounds(model, [(PROMPT, ANSWER)], draws=4, seeds=[0], size=3) == expected

"""Shadow blocks: judging revealed tokens without seeing them, in one forward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.base import Query
from pbcore.models.masked import with_shadows
from tests.models.checkpoints import llama_checkpoint

MASK = 1


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_model(str(llama_checkpoint(tmp_path_factory.mktemp("deep"))))


def query(canvas: list[list[int]], review: list[list[int]], *, want: bool = True) -> Query:
    """Wants every mask, or none, and reviews the marked tokens hidden."""
    ids = torch.tensor(canvas)
    return Query(
        ids,
        (ids == MASK) & want,
        torch.zeros(len(ids)),
        review=torch.tensor(review).bool(),
        hidden=True,
    )


def context(model: Any, prompts: list[list[int]], length: int) -> Any:
    return model.prepare(
        [model.encode(prompt, length, i) for i, prompt in enumerate(prompts)], cache=None, seed=0
    )


class TestWithShadows:
    def test_who_sees_whom(self) -> None:
        """Against the rule, pair by pair: columns see what the row has, shadows all of it but their
        own column, and each other.
        """
        seen = torch.tensor([[False, True, True, True, True], [True, True, True, True, False]])
        verify = torch.tensor(
            [[False, False, True, False, True], [False, True, False, False, False]]
        )
        ids = torch.arange(10, 20).reshape(2, 5)
        made, *_ = with_shadows(ids, torch.arange(5).repeat(2, 1), seen, verify, MASK)
        assert made.mask is not None
        shadows = [[2, 4], [1]]
        for r in range(2):
            for q in range(7):
                for k in range(7):
                    own = q >= 5 and q - 5 < len(shadows[r]) and shadows[r][q - 5] == k
                    expected = (
                        bool(seen[r, k]) and not own
                        if k < 5
                        else q >= 5 and k - 5 < len(shadows[r])
                    )
                    if q < 5 or q - 5 < len(shadows[r]):
                        assert bool(made.mask[r, q, k]) == expected, (r, q, k)
        assert made.ids[:, 5:].tolist() == [[MASK, MASK], [MASK, MASK]]
        assert [
            made.positions[r, 5 : 5 + len(own)].tolist() for r, own in enumerate(shadows)
        ] == shadows


class TestReview:
    def test_the_canvas_does_not_notice(self, model: Any) -> None:
        """Wanted logits are those of a forward without shadows."""
        canvas = [[7, MASK, 9, MASK], [MASK, 8, MASK, 6]]
        review = [[1, 0, 1, 0], [0, 1, 0, 1]]
        masked, revealed = context(model, [[6, 7, 8], [9]], 4).logits_and_review(
            query(canvas, review)
        )
        without = context(model, [[6, 7, 8], [9]], 4).logits(
            Query(torch.tensor(canvas), torch.tensor(canvas) == MASK, torch.zeros(2))
        )
        assert torch.allclose(masked, without, atol=1e-5)
        assert len(revealed) == 4

    def test_one_layer_one_shadow_leaves_the_token_out(self, tmp_path: Path) -> None:
        """Where columns haven't exchanged anything yet, a lone shadow is exactly a forward with its
        token masked.
        """
        model = load_model(str(llama_checkpoint(tmp_path, layers=1)))
        lone = query([[7, 10, 9, MASK]], [[0, 1, 0, 0]], want=False)
        masked, judged = context(model, [[6, 7, 8]], 4).logits_and_review(lone)
        assert len(masked) == 0
        hidden = torch.tensor([[7, MASK, 9, MASK]])
        alone = context(model, [[6, 7, 8]], 4).logits(
            Query(hidden, torch.tensor([[False, True, False, False]]), torch.zeros(1))
        )
        assert torch.allclose(judged, alone, atol=1e-5)

    def test_deeper_models_only_approximate_it(self, model: Any) -> None:
        """With two layers the others have seen the token, but its shadow still hasn't: another
        token there changes little, not nothing.
        """
        here = torch.tensor([[False, True, False, False]])
        canvases = [[[7, token, 9, MASK]] for token in (10, 11)]
        judged = [
            context(model, [[6, 7, 8]], 4).logits_and_review(query(canvas, here.tolist()))[1][0]
            for canvas in canvases
        ]
        direct = [
            context(model, [[6, 7, 8]], 4).logits(
                Query(torch.tensor(canvas), here, torch.zeros(1))
            )[0]
            for canvas in canvases
        ]
        assert 0 < (judged[0] - judged[1]).norm() < (direct[0] - direct[1]).norm()

    def test_a_batch_changes_nothing(self, model: Any) -> None:
        """Rows of different prompt, in different blocks, are judged as they would be alone."""
        canvas = [[7, 8, MASK, MASK], [7, 8, 9, MASK]]
        review = [[1, 1, 0, 0], [0, 0, 1, 0]]
        together = context(model, [[6, 7, 8], [9]], 4).logits_and_review(query(canvas, review))
        first = context(model, [[6, 7, 8]], 4).logits_and_review(query(canvas[:1], review[:1]))
        second = context(model, [[9]], 4).logits_and_review(query(canvas[1:], review[1:]))
        for both, one, other in zip(together, first, second, strict=True):
            assert torch.allclose(both, torch.cat([one, other]), atol=1e-5)

    def test_the_shadow_block_covers_masks_too(self, model: Any) -> None:
        """As in WINO: a mask among the wanted positions changes what the shadows of the tokens
        say.
        """
        canvas = [[7, 10, 9, MASK]]
        review = [[0, 1, 0, 0]]
        with_mask = context(model, [[6, 7, 8]], 4).logits_and_review(query(canvas, review))[1]
        without = context(model, [[6, 7, 8]], 4).logits_and_review(
            query(canvas, review, want=False)
        )[1]
        assert with_mask.shape == without.shape
        assert not torch.allclose(with_mask, without, atol=1e-5)

    def test_visible_tokens(self, model: Any) -> None:
        """A review of visible tokens is one forward's logits at both kinds of positions, told
        apart.
        """
        canvas = torch.tensor([[7, MASK, 9, MASK], [MASK, 8, MASK, 6]])
        both_kinds = Query(canvas, canvas == MASK, torch.zeros(2), review=canvas != MASK)
        masked, revealed = context(model, [[6, 7, 8], [9]], 4).logits_and_review(both_kinds)
        both = context(model, [[6, 7, 8], [9]], 4).logits(
            Query(canvas, torch.ones_like(both_kinds.want), torch.zeros(2))
        )
        assert torch.allclose(masked, both[(canvas == MASK).flatten()], atol=1e-6)
        assert torch.allclose(revealed, both[(canvas != MASK).flatten()], atol=1e-6)

    @pytest.mark.parametrize(
        "sampler",
        ["wino-0.02-back0.1+b4", "joint-0.02-edit0.02-post3", "joint-0.02-edit0.02-post3+b4+dual"],
    )
    def test_decoding_in_batches(self, model: Any, sampler: str) -> None:
        """Samplers that review decode the same in any batch."""
        prompts = [[6, 7, 8, 9], [10], [11, 12], [13] * 9]
        together, alone = (
            decode(model, prompts, sampler, max_new_tokens=8, record=True, batch_size=size)
            for size in (4, 1)
        )
        assert [(g.token_ids, g.steps, g.nfe) for g in together] == [
            (g.token_ids, g.steps, g.nfe) for g in alone
        ]

    def test_shifted_models_see_only(self, tmp_path: Path) -> None:
        """Where a token is predicted one position earlier, no mask hides it: such models offer no
        hidden review.
        """
        shifted = load_model(str(llama_checkpoint(tmp_path)), shift=True)
        assert shifted.reviews == {"seen"}
        with pytest.raises(ValueError, match="offers only 'seen'"):
            decode(shifted, [[6, 7]], "wino", max_new_tokens=4)

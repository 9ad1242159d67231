"""s2d2 against a replay without caches that predicts token by token, and its law of acceptance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from pbcore.decoding import DecodingError, Move, Probe, Step, decode, register_policy
from pbcore.decoding.policies.drafts import ACCEPT, RESIDUAL
from pbcore.models.counter_rng import categorical, uniform
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns
from tests.decoding.toys import Toy
from tests.models.block_models import MASK, block_model

MODELS = {
    "sdar": block_model(),
    "fast_dllm_v2": block_model("fast_dllm_v2"),
    "llada2": block_model("llada2", block=8),
}
PROMPTS = [[5, 6, 7], [9, 10, 11, 12], [5] * 11, list(range(1, 17))]


def forward(model: MaskedModel, ids: list[int], causal: int) -> torch.Tensor:
    """Logits (T, V) without a cache: attention goes both ways within blocks, and from column
    `causal` on to earlier columns and itself alone.
    """
    columns = torch.arange(len(ids))
    grid = columns // (model.block or 1)
    sees = torch.where(
        (columns >= causal)[:, None], columns <= columns[:, None], grid <= grid[:, None]
    )
    hidden = model.network.hidden(Columns(torch.tensor([ids]), columns[None], sees[None]))
    logits = model.network.project(hidden)[0]
    logits[:, MASK] = -torch.inf
    return logits


def drafted(
    model: MaskedModel, row: list[int], masks: list[int], stop: int
) -> dict[int, torch.Tensor]:
    """The block's predictions (V,) of its masks, from one forward of all up to its end."""
    logits = forward(model, row[:stop], stop)
    return {i: logits[i - int(model.shift)] for i in masks}


def checked(model: MaskedModel, row: list[int], i: int, start: int) -> torch.Tensor:
    """The prediction (V,) of column i from those before it, read one by one."""
    ids = row[:i] if model.shift else [*row[:i], MASK]
    return forward(model, ids, start)[-1]


def replay(
    model: MaskedModel,
    prompt: list[int],
    length: int,
    gamma: float,
    steps: int,
    span: int,
    heat: float,
) -> Any:
    """Tokens and forwards (denoising, checking and storing) of one row, with the loop's random
    numbers.
    """
    size = model.block or 1
    nfe = 0
    end = -(-(len(prompt) + length) // size) * size
    row = [*prompt, *[MASK] * (end - len(prompt))]

    def draw(column: int, salt: int) -> float:
        place = torch.tensor([[column - len(prompt)]])
        return float(uniform(7, torch.tensor([0]), torch.tensor([nfe]), place, salt + 1))

    def law(logits: torch.Tensor) -> torch.Tensor:
        return (logits.double() / (heat or 1.0)).softmax(-1)

    def picked(logits: torch.Tensor, i: int, salt: int) -> int:
        return int(categorical(logits[None], torch.tensor([draw(i, salt)], dtype=torch.double)))

    for start in range(len(prompt) // size * size, end, size):
        masks = [i for i in range(start, start + size) if row[i] == MASK]
        step = 0
        if (
            model.shift and masks and masks[0] == start and start
        ):  # the forward that stores a block predicts the next's
            row[start] = int(forward(model, row[:start], start)[-1].argmax())
            masks = masks[1:]
        while masks:
            p = drafted(model, row, masks, start + size)
            token = {i: picked(p[i] / heat, i, -1) if heat else int(p[i].argmax()) for i in masks}
            sure = {i: float(p[i].softmax(-1)[token[i]]) for i in masks}
            run = [i for i in masks if i - masks[0] == masks.index(i)]
            written: list[int] = []
            for i in run if len(run) >= span else []:
                before = [token.get(j, row[j]) for j in range(i)]
                q = checked(model, before, i, start)
                written.append(i)
                if draw(i, ACCEPT) >= float(law(q)[token[i]] / law(p[i])[token[i]]):
                    token[i] = picked((law(q) - law(p[i])).clamp(min=0).log(), i, RESIDUAL)
                    break
            nfe += 1 + (len(run) >= span)
            count = size // steps + (step < size % steps) if steps else 1
            left = min(max(count, 1), len(masks)) - len(written)
            if left > 0:
                others = sorted(set(masks) - set(written), key=lambda i: (-sure[i], i))
                above = [i for i in others if sure[i] > gamma]
                written += above if len(above) >= left else others[:left]
            for i in written:
                row[i] = token[i]
            masks = [i for i in masks if row[i] == MASK]
            step = step + 1
        nfe += start + size < end
    return row[len(prompt) : len(prompt) + length], nfe


class TestReplay:
    @pytest.mark.parametrize(
        ("family", "sampler", "settings"),
        [
            *((family, "s2d2-0.85", (0.85, 0, 1, 0.0)) for family in MODELS),
            *((family, "s2d2-0.1-steps3-span3", (0.1, 3, 3, 0.0)) for family in MODELS),
            *((family, "s2d2+t1.3", (0.85, 0, 1, 1.3)) for family in ("sdar", "llada2")),
        ],
    )
    def test_equals_the_rule_as_written(
        self, family: str, sampler: str, settings: tuple[float, int, int, float]
    ) -> None:
        """Tokens, forwards and rows; the check reads each prefix on its own, where the policy needs
        one forward.
        """
        model = MODELS[family]
        for prompt in PROMPTS:
            (run,) = decode(model, [prompt], sampler, max_new_tokens=10, seed=7)
            assert (list(run.token_ids), run.nfe, run.rows) == (
                *(r := replay(model, prompt, 10, *settings)),
                r[1],
            )


class TestBatches:
    @pytest.mark.parametrize("family", MODELS)
    @pytest.mark.parametrize("sampler", ["s2d2", "s2d2-0.3-steps3-span2+t0.8"])
    def test_a_row_is_the_same_beside_others(self, family: str, sampler: str) -> None:
        """Rows that check a run beside rows that don't, with prompts of other lengths: tokens,
        forwards and steps.
        """
        together, alone = (
            decode(
                MODELS[family], PROMPTS, sampler, max_new_tokens=19, record=True, batch_size=size
            )
            for size in (4, 1)
        )
        kinds = ("token_ids", "steps", "nfe", "rows", "store", "trajectory")
        assert [[getattr(run, kind) for kind in kinds] for run in together] == [
            [getattr(run, kind) for kind in kinds] for run in alone
        ]


class TestLaw:
    ROWS = 3000

    def exact(
        self, model: MaskedModel, prompt: list[int], heat: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The first token's probabilities when drafted and when checked."""
        row = [*prompt, *[MASK] * 4]
        p = drafted(model, row, [4], 8)[4].double()
        q = checked(model, row, 4, 4).double()
        return (p / (heat or 1.0)).softmax(-1), (q / (heat or 1.0)).softmax(-1)

    def near(self, tokens: list[int], law: torch.Tensor) -> bool:
        """All frequencies within five standard deviations."""
        count = Counter(tokens)
        spread = (law * (1 - law) / len(tokens)).sqrt()
        return all(
            abs(count[i] / len(tokens) - float(law[i])) <= 5 * float(spread[i]) + 1e-9
            for i in range(len(law))
        )

    def test_greedy_keeps_the_likeliest_with_probability_q_by_p(self) -> None:
        """The first token: min(1, q/p) of the likeliest draft, and (q − p)₊ of all others."""
        model = MODELS["sdar"]
        prompt = [9, 10, 11, 12]
        runs = decode(
            model, [prompt] * self.ROWS, "s2d2-0.85", max_new_tokens=4, batch_size=self.ROWS
        )
        p, q = self.exact(model, prompt, 0.0)
        best = int(p.argmax())
        keep = min(1.0, float(q[best] / p[best]))
        law = (q - p).clamp(min=0)
        law = (1 - keep) * law / law.sum()
        law[best] += keep
        assert 0.05 < keep < 0.95
        assert self.near([run.token_ids[0] for run in runs], law)

    def test_drawn_tokens_have_the_law_of_token_by_token(self) -> None:
        """At temperature 1 the first and, summed over the first, the second token."""
        model = MODELS["sdar"]
        prompt = [9, 10, 11, 12]
        runs = decode(
            model, [prompt] * self.ROWS, "s2d2+t1.0", max_new_tokens=4, batch_size=self.ROWS
        )
        _, first = self.exact(model, prompt, 1.0)
        second = sum(
            first[i] * checked(model, [*prompt, i], 5, 4).double().softmax(-1)
            for i in range(len(first))
        )
        assert isinstance(second, torch.Tensor)
        assert self.near([run.token_ids[0] for run in runs], first)
        assert self.near([run.token_ids[1] for run in runs], second)
        assert not self.near([run.token_ids[1] for run in runs], first)


class TestRefusals:
    def test_models_without_blocks(self) -> None:
        """Full attention has no token-by-token mode."""
        with pytest.raises(
            ValueError,
            match="checks a block token by token, which models that decode block by block",
        ):
            decode(Toy(), [[5]], "s2d2")

    def test_a_causal_answer_is_no_forward(self, own_policies: None) -> None:
        """It predicts slots that are filled, so no step can start from it."""

        @register_policy("taker_for_a_test")
        @dataclass(frozen=True)
        class Taker:
            """Takes what it may not."""

            needs = frozenset({"probe", "causal"})

            def select(self, step: Step) -> Move | Probe:
                row = torch.arange(len(step.masked))
                if step.answers is None:
                    return Probe(row, step.masked, step.token, causal=True)
                return Move(step.masked, take=row)

        with pytest.raises(DecodingError, match="names a causal what-if row"):
            decode(MODELS["sdar"], [[5]], "taker_for_a_test", max_new_tokens=8)

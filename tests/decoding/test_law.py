"""Temperature, top-p and top-k: Dream's numbers, a slow twin of the whole decoding for each way of
ranking places, and what else meets them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pytest
import torch

from pbcore.decoding import decode
from pbcore.decoding.job import law_of
from pbcore.decoding.prediction import Law, cut, entropy_nats, margin
from pbcore.decoding.samplers import of_name, resolve
from pbcore.decoding.sharing import reads_numbers
from pbcore.grid.settings import Settings
from pbcore.models import load_model
from pbcore.models.base import Ranks
from pbcore.models.counter_rng import uniform
from pbcore.models.families import FAMILIES
from pbcore.models.registry import presets_of, resolve_model
from pbcore.names import SamplerNameError, parse
from pbcore.tasks import load_task
from tests.decoding.toys import MASK, Toy
from tests.reference import bundled, reference_cases

RANKS: tuple[Ranks, ...] = ("raw", "drawn", "cut")


@dataclass
class Ranking(Toy):
    """A toy of a family that ranks places so."""

    ranks: Ranks = "raw"


def slow_truncated(logits: list[float], heat: float, top_p: float, top_k: int) -> list[float]:
    """Probabilities as Dream's code makes them, token by token."""
    scaled = [value / heat if heat else value for value in logits]
    order = sorted(range(len(scaled)), key=lambda token: (-scaled[token], token))
    weights = [math.exp(value - max(scaled)) for value in scaled]
    kept = []
    before = 0.0
    for token in order:
        if before / sum(weights) <= top_p:
            kept.append(token)
        before += weights[token]
    kept = kept[: top_k or None]
    total = sum(weights[token] for token in kept)
    return [weights[token] / total if token in kept else 0.0 for token in range(len(logits))]


def slow_entropy(logits: list[list[float]], law: Law) -> tuple[int, list[float]]:
    """The place of lowest entropy, and what its token is drawn from."""
    drawn, ranked = [], []
    for row in logits:
        plain = slow_truncated(row, 0.0, 1.0, 0)
        cut = slow_truncated(row, law.temperature, law.top_p, law.top_k)
        drawn.append(cut)
        by_draw = law.ranks == "cut" or (law.ranks == "drawn" and law.temperature > 0)
        ranked.append(cut if by_draw else plain)
    entropies = [-sum(p * math.log(p + 1e-10) for p in row) for row in ranked]
    best = entropies.index(min(entropies))
    return best, drawn[best]


def slow(toy: Ranking, sampler: str, length: int, key: int) -> tuple[int, ...]:
    """A whole decoding of `entropy-k1`, place by place; the mask is no token."""
    law = law_of(toy, parse(sampler))
    canvas = [MASK] * length
    for step in range(length):
        places = [place for place, token in enumerate(canvas) if token == MASK]
        logits = [toy.rule(tuple(canvas), place, key) for place in places]
        best, chances = slow_entropy([row[1:] for row in logits], law)
        token = chances.index(max(chances))
        if law.temperature:
            at = torch.tensor([[places[best]]])
            number = float(uniform(0, torch.tensor([key]), torch.tensor([step]), at))
            ends = list(accumulate(chances))
            token = next(place for place, end in enumerate(ends) if number < end)
        canvas[places[best]] = token + 1
    return tuple(canvas)


class TestTruncated:
    def test_is_what_dreams_code_makes(self) -> None:
        """Probabilities, margin and entropy of 200 places of logits."""
        cases = reference_cases("topp_cases")
        assert len(cases) == 200
        for case in cases:
            given = case["temperature"], case["top_p"] or 1.0, case["top_k"] or 0
            logits = torch.tensor([case["logits"]]).double()  # (1, V)
            chances = torch.softmax(cut(logits, *given), dim=-1)[0]
            expected = torch.tensor(case["probabilities"]).double()
            assert torch.allclose(chances, expected, atol=2e-6), given
            logs = chances.log()[None]
            assert float(margin(logs)) == pytest.approx(case["margin"], abs=3e-6)
            assert float(-entropy_nats(logs)) == pytest.approx(case["neg_entropy"], abs=1e-5)

    def test_the_token_that_crosses_stays(self) -> None:
        """Of .5, .3 and .2 a share of .5 keeps two tokens: before the second lies no more."""
        logits = torch.tensor([[0.5, 0.3, 0.2]]).double().log()
        kept = [int(cut(logits, 1.0, p, 0).isfinite().sum()) for p in (0.01, 0.49, 0.51, 0.81)]
        assert kept == [1, 1, 2, 3]


class TestRanking:
    @pytest.mark.parametrize("ranks", RANKS)
    @pytest.mark.parametrize(
        "ending", ["", "+p0.6", "+top2", "+t0.5", "+t0.7+p0.6", "+t2.0+top3", "+t0.5+p0.9+top4"]
    )
    def test_equals_a_slow_twin(self, ranks: Ranks, ending: str) -> None:
        """Answers of entropy-k1 by each way of ranking places, rows together."""
        toy = Ranking(ranks=ranks)
        sampler = f"entropy-k1{ending}"
        out = decode(toy, [[5]] * 4, sampler, max_new_tokens=6)
        for key, answer in enumerate(out):
            assert answer.token_ids == slow(toy, sampler, 6, key)

    def test_families_differ(self) -> None:
        """The same logits give other answers where places are ranked by what is drawn."""
        answers = set()
        for ranks in RANKS:
            out = decode(Ranking(ranks=ranks), [[5]] * 6, "entropy-k1+p0.5", max_new_tokens=8)
            answers.add(tuple(answer.token_ids for answer in out))
        assert len(answers) == 2  # at temperature 0 only `cut` cuts

    @pytest.mark.parametrize("ranks", RANKS)
    @pytest.mark.parametrize(
        "sampler",
        [
            "margin-k2+b4+t0.5+p0.7",
            "threshold-0.6+top3",
            "freedave-3+t0.5+p0.8",
            "spec-4-lossless+t0.8+top4",
            "threshold-0.3+counts+t0.6+p0.9",
            "threshold-0.3+rounding+t0.6+top3",
            "wino-0.4+t0.4+p0.8",
            "credit-0.5+t0.3+top5",
            "klass-0.6+p0.8",
            "confidence-k2+b4+prefix+t0.5+p0.8",
        ],
    )
    def test_batches_change_nothing(self, ranks: Ranks, sampler: str) -> None:
        """Rows of ragged prompts alone and together."""
        prompts = [[5] * (1 + number % 3) for number in range(5)]
        together = decode(Ranking(ranks=ranks), prompts, sampler, max_new_tokens=8, batch_size=5)
        alone = decode(Ranking(ranks=ranks), prompts, sampler, max_new_tokens=8, batch_size=1)
        assert [a.token_ids for a in together] == [a.token_ids for a in alone]
        assert [a.nfe for a in together] == [a.nfe for a in alone]

    @pytest.mark.parametrize("ranks", RANKS)
    def test_what_if_rows_follow_the_same_law(self, ranks: Ranks) -> None:
        """Greedy, freedave has the answers of confidence-k1 whatever is cut off."""
        for ending in ("+p0.7", "+top2", "+p0.9+top4"):
            toy = Ranking(ranks=ranks)
            drafted = decode(toy, [[5]] * 5, f"freedave-3{ending}", max_new_tokens=8)
            plain = decode(toy, [[5]] * 5, f"confidence-k1{ending}", max_new_tokens=8)
            assert [a.token_ids for a in drafted] == [a.token_ids for a in plain]

    def test_dream_is_ranked_by_what_it_draws_and_llada_is_not(self) -> None:
        """The loaded checkpoints have their family's way, a model of the user's own the raw one."""
        dream: Any = load_model(str(bundled("dream-tiny")))
        llada: Any = load_model(str(bundled("llada-tiny")))
        assert (dream.ranks, llada.ranks) == ("cut", "raw")
        assert law_of(Toy(), parse("confidence-k1")).ranks == "raw"
        prompts = [[7, 8, 9], [11, 12, 13, 14]]
        plain = decode(dream, prompts, "entropy-k1", max_new_tokens=16)
        narrow = decode(dream, prompts, "entropy-k1+p0.3", max_new_tokens=16)
        assert [a.token_ids for a in plain] != [a.token_ids for a in narrow]
        both = [decode(llada, prompts, f"entropy-k1{p}", max_new_tokens=16) for p in ("", "+p0.3")]
        assert [a.token_ids for a in both[0]] == [a.token_ids for a in both[1]]

    def test_a_checkpoints_own_top_k_comes_after_top_p(self) -> None:
        """Dream's order: of all tokens those of top-p, of these the checkpoint's 50 likeliest."""
        dream: Any = load_model(str(bundled("dream-tiny")))
        assert dream.top_k == 50
        assert law_of(dream, parse("confidence-k1+t0.5+p0.9")) == Law(0.5, 0.9, 50, "cut")
        assert law_of(dream, parse("confidence-k1+p0.9+top20")).top_k == 20
        assert law_of(dream, parse("confidence-k1+t0.5")).top_k == 0
        narrow = [
            decode(dream, [[7, 8, 9]], f"entropy-k1+t0.4+p0.7{more}", max_new_tokens=12)
            for more in ("", "+top50", "+top80")
        ]
        assert len({answers[0].token_ids for answers in narrow}) == 1

    def test_no_draw_leaves_what_is_cut_off(self) -> None:
        """On ideal +top1 at a temperature draws the likeliest tokens: as greedy decoding."""
        ideal = load_model("ideal")
        samples = load_task("waiting_line/replace_index", limit=4).samples
        cut = decode(ideal, samples, "left_to_right-k1+t2.0+top1")
        plain = decode(ideal, samples, "left_to_right-k1")
        assert [a.text for a in cut] == [a.text for a in plain]


class TestNames:
    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("entropy-k1+p0", r"\+p0 is a share of probability: write above 0 up to 1"),
            ("entropy-k1+t0.1+p1.1", r"\+p1.1 is a share of probability"),
            ("entropy-k1+top0", r"\+top0 would leave no token: write a number of at least 1"),
            ("entropy-k1+p0.9+p0.8", "sets top_p a second time"),
            ("entropy-k1+top1.5", r"unknown modifier '\+top1.5'"),
        ],
    )
    def test_refused_in_a_line(self, text: str, error: str) -> None:
        with pytest.raises(SamplerNameError, match=error) as caught:
            resolve(text)
        assert "\n" not in str(caught.value)

    def test_order_and_defaults(self) -> None:
        """They stand behind the temperature; all of the probability is left out."""
        assert str(parse("entropy-k1+top50+p0.90+t0.1")) == "entropy-k1+t0.1+p0.9+top50"
        assert str(parse("entropy-k1+p1")) == "entropy-k1"

    def test_models_that_decode_by_themselves_refuse_them(self) -> None:
        """Autoregressive ones and SEDD name the samplers that they have."""
        for model, sampler in (("tiny-ar", "ar+t1.0+p0.9"), ("tiny-sedd", "analytic-s4+top5")):
            with pytest.raises(SamplerNameError):
                decode(load_model(model), [[5]], sampler, max_new_tokens=4)

    def test_forwards_are_not_shared(self) -> None:
        """A store holds numbers of the raw distribution."""
        for text, shared in (("eb-0.1", True), ("eb-0.1+p0.9", False), ("eb-0.1+top5", False)):
            name = parse(text)
            assert reads_numbers(of_name(name).policy, name) == shared


class TestPresets:
    def test_who_has_which(self) -> None:
        """Models of the table have their own; a checkpoint of the family is told both; others have
        none.
        """
        expected = {
            "dream-7b": ("dream",),
            "dream-7b:dummy-l2": ("dream",),
            "Dream-org/Dream-v0-Base-7B": ("dream-base",),
            str(bundled("dream-tiny")): ("dream", "dream-base"),
            "diffucoder-7b-instruct": (),
            "tiny": (),
            str(bundled("llada-tiny")): (),
        }
        for name, presets in expected.items():
            assert presets_of(resolve_model(name)) == presets, name
        assert {name for name, family in FAMILIES.items() if family.presets} == {"dream"}

    def test_a_run_without_a_preset_names_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One line for each such model at the head of a run; none with a preset."""
        from pbcore.plugin import collection

        asked = Settings.of(model=("dream-7b", "tiny", str(bundled("dream-tiny"))))
        monkeypatch.setattr(collection, "settings", lambda config: asked)
        config: Any = None
        first, second = collection._authors_settings(config)
        assert first == "pbcore: dream-7b: its authors decode it with --preset dream"
        assert second.endswith(
            "dream-tiny: its authors decode it with --preset dream or --preset dream-base"
        )
        asked = replace(asked, preset="dream")
        assert list(collection._authors_settings(config)) == []

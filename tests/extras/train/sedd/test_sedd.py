"""SEDD as a model of its own: sampler names, infilling, batches, checkpoints, and the score
entropy.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pbcore.decoding import decode
from pbcore.extras.train.sedd.diffusion import PREDICTORS, Graph, Noise, denoised, draw_tokens
from pbcore.extras.train.sedd.model import OPEN, Sedd, forward_times, save_sedd
from pbcore.extras.train.sedd.network import SeddConfig, SeddNetwork, config_json, read_sedd
from pbcore.grid.capabilities import Capabilities
from pbcore.models import load_model
from pbcore.models.base import Request
from pbcore.models.errors import ModelError
from pbcore.names import SamplerNameError, parse

KINDS = ("absorb", "uniform")


def config(graph: str = "absorb", **changes: Any) -> SeddConfig:
    values: dict[str, Any] = {
        "tokens": 20,
        "graph": graph,
        "noise": "loglinear",
        "sigma_min": 0.0,
        "sigma_max": 0.0,
        "width": 16,
        "condition": 8,
        "blocks": 2,
        "heads": 2,
        "length": 64,
        "scale_by_sigma": graph == "absorb",
    }
    return SeddConfig(**{**values, **changes})


def checkpoint(folder: Path, graph: str = "absorb", **changes: Any) -> Path:
    """A random checkpoint without tokenizer, none of whose layers is 0."""
    torch.manual_seed(3)
    network = SeddNetwork(config(graph, **changes))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save_sedd(network, folder)
    return folder


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Sedd:
    loaded = load_model(str(checkpoint(tmp_path, request.param)), eos_id=1)
    assert isinstance(loaded, Sedd)
    return loaded


class TestSampler:
    @pytest.mark.parametrize(
        "name",
        ["analytic-s32+b8", "euler", "euler-k2", "analytic-s0", "confidence-k2", "euler-s4+t0.5"],
    )
    def test_other_names(self, model: Sedd, name: str) -> None:
        """Only a predictor with its number of steps; the error shows what to write."""
        with pytest.raises(SamplerNameError, match=r"analytic-s32|-s32"):
            decode(model, [[2, 3]], name, max_new_tokens=4)

    @pytest.mark.parametrize("predictor", PREDICTORS)
    def test_forwards(self, model: Sedd, predictor: str) -> None:
        """NFE is the number of steps and one: the denoising step is a forward too."""
        answer = decode(model, [[2, 3]], f"{predictor}-s5", max_new_tokens=8)[0]
        assert answer.nfe == 6
        assert answer.trajectory is not None
        assert len(answer.trajectory) == 7
        assert all(0 <= token < 20 for token in answer.token_ids)
        assert all(0 <= step <= 5 for step in answer.steps)
        assert all(0 < share <= 1 for share in answer.confidences)

    def test_times(self) -> None:
        assert list(forward_times(2)) == pytest.approx([1, 0.500005, 1e-5])


class TestRows:
    def test_given_tokens_stay(self, model: Sedd) -> None:
        """Infilling: given tokens are there before every forward and at the end, with step −1."""
        hole = OPEN if model.mask_id is None else model.mask_id
        row = Request((5, 6), (7, hole, hole, 8, hole), key=4)
        answer = model.answer([row], parse("analytic-s3"), seed=0)[0]
        assert answer.trajectory is not None
        assert {(canvas[0], canvas[3]) for canvas in answer.trajectory} == {(7, 8)}
        assert [step >= 0 for step in answer.steps] == [False, True, True, False, True]

    def test_answers_do_not_depend_on_the_batch(self, model: Sedd) -> None:
        """Ragged prompts and lengths, one by one and together."""
        prompts = [[2, 3], [4, 5, 6, 7, 8, 9], [3], [9, 8, 7]]
        together, alone = (
            decode(model, prompts, "euler-s6", max_new_tokens=7, batch_size=size) for size in (4, 1)
        )
        assert [answer.token_ids for answer in together] == [answer.token_ids for answer in alone]
        assert [answer.steps for answer in together] == [answer.steps for answer in alone]

    def test_draws_depend_on_seed_and_row(self, model: Sedd) -> None:
        prompts = [[2, 3]] * 3
        first, again, other = (
            decode(model, prompts, "analytic-s4", max_new_tokens=12, seed=seed)
            for seed in (0, 0, 1)
        )
        assert [answer.token_ids for answer in first] == [answer.token_ids for answer in again]
        assert first[0].token_ids != other[0].token_ids
        assert first[0].token_ids != first[1].token_ids

    @pytest.mark.parametrize("place", [0, 2, 7])
    def test_text_after_the_first_eos(self, model: Sedd, place: int, tmp_path: Path) -> None:
        """The answer ends at the EOS, and the whole canvas is told beside it, if text follows."""
        (free,) = decode(model, [[2, 3]], "analytic-s3", max_new_tokens=8)
        ids = list(free.token_ids)
        eos = free.token_ids[place]
        (out,) = decode(
            load_model(str(tmp_path), eos_id=eos), [[2, 3]], "analytic-s3", max_new_tokens=8
        )
        before = ids[: ids.index(eos)]
        after = [token for token in ids[ids.index(eos) :] if token != eos]
        assert out.token_ids == free.token_ids
        assert out.text == " ".join(map(str, before))
        assert out.text_after_eos is bool(after)
        assert out.official_text == (" ".join(map(str, before + after)) if after else None)

    @pytest.mark.parametrize(
        ("prompt", "length", "named"),
        [([2] * 60, 8, "64 positions"), ([20], 4, r"\[20\]"), ([2], None, "max_new")],
    )
    def test_rows_that_do_not_fit(
        self, model: Sedd, prompt: list[int], length: int | None, named: str
    ) -> None:
        with pytest.raises(ModelError, match=named):
            decode(model, [prompt], "analytic-s4", max_new_tokens=length)


class TestCheckpoint:
    def test_round_trip(self) -> None:
        for graph in KINDS:
            assert read_sedd(config_json(config(graph)), "x") == config(graph)

    def test_all_problems_of_a_config_at_once(self) -> None:
        raw = config_json(config())
        raw["tokens"], raw["graph"], raw["model"]["n_heads"] = "many", {"type": "masked"}, 0
        with pytest.raises(ModelError) as error:
            read_sedd(raw, "here")
        for part in (
            "here",
            "tokens is 'many'",
            "graph.type is 'masked', not absorb or uniform",
            "model.n_heads is 0",
        ):
            assert part in str(error.value)

    def test_bounds_of_geometric_noise(self) -> None:
        """As they were given."""
        raw = config_json(config()) | {"noise": {"type": "geometric", "sigma_max": "x"}}
        with pytest.raises(
            ModelError, match="sigma_min and sigma_max are None and 'x', not 0 < min < max"
        ):
            read_sedd(raw, "here")

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            (lambda raw: raw["model"].update(n_blocks=3), "blocks.2"),
            (lambda raw: raw["model"].update(cond_dim=4), "size mismatch"),
            (lambda raw: raw.update(tokens=21), "vocab_embed.embedding"),
        ],
    )
    def test_weights_that_do_not_fit(
        self, tmp_path: Path, change: Callable[[dict[str, Any]], None], named: str
    ) -> None:
        raw = json.loads((checkpoint(tmp_path) / "config.json").read_text())
        change(raw)
        (tmp_path / "config.json").write_text(json.dumps(raw))
        with pytest.raises(ModelError, match=named):
            load_model(str(tmp_path), eos_id=1)

    def test_options_without_use(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="quantization=quanto-int8"):
            load_model(str(checkpoint(tmp_path)), eos_id=1, quantization="quanto-int8")

    def test_dummy_of_a_published_shape(self) -> None:
        model = load_model("sedd-small:dummy-l2")
        assert isinstance(model, Sedd)
        assert (model.info["layers"], model.info["dummy"], model.info["remote_code"]) == (
            2,
            True,
            False,
        )
        assert decode(model, [[1, 2, 3]], "euler-s2", max_new_tokens=4)[0].nfe == 3


class TestDistributions:
    @given(st.integers(0, 2**32), st.sampled_from(KINDS), st.floats(0.05, 1.0), st.integers(1, 40))
    def test_the_true_score_gives_the_posterior(
        self, seed: int, kind: str, t: float, steps: int
    ) -> None:
        """With the true scores of a known token the analytic predictor is Bayes' rule, and the
        denoiser returns it.

        Bayes: p(x at t − step | x at t, x₀) ∝ p(x at t | x at t − step) · p(x at t − step | x₀), by
        enumeration.
        """
        graph = Graph(kind, 6)
        noise = Noise("loglinear")
        random = torch.Generator().manual_seed(seed)
        clean = torch.randint(5, (1,), generator=random)
        step = t / steps * 0.9
        before = noise.total(t - step)
        after = noise.total(t)
        start = _transition(graph, before)[clean[0]]  # (N,): p(y at t − step | clean)
        end = _transition(graph, after)[clean[0]]
        token = torch.multinomial(end, 1, generator=random)
        score = (end / end[token]).float()[None]
        posterior = start * _transition(graph, after - before)[:, token[0]]
        posterior = posterior / posterior.sum()
        found = PREDICTORS["analytic"](graph, noise, token, score, t, step)[0]
        torch.testing.assert_close(found.double(), posterior, atol=2e-3, rtol=2e-3)
        last = denoised(graph, noise, token, score, t)[0].clamp(min=0).double()
        assert (last / last.sum())[clean[0]] > 0.99

    def test_draw_takes_negative_probabilities_as_zero(self) -> None:
        probabilities = torch.tensor([[0.5, -0.3, 0.5], [-1.0, 2.0, 0.0]])
        token, share = draw_tokens(probabilities, torch.tensor([0.5, 0.999], dtype=torch.float64))
        assert token.tolist() == [2, 1]
        assert share.tolist() == [0.5, 1.0]


def _transition(graph: Graph, sigma: float) -> torch.Tensor:
    """p(y at noise σ | x) as a matrix (N, N), row x, from the definition of the two kinds of
    noise.
    """
    kept = torch.exp(torch.tensor(-sigma, dtype=torch.float64))
    eye = torch.eye(graph.columns, dtype=torch.float64)
    if graph.mask_id is None:
        return eye * kept + (1 - kept) / graph.columns
    result = eye * kept
    result[:, graph.mask_id] += 1 - kept
    return result


class TestGrid:
    def test_its_own_samplers_stand_for_a_profile(self) -> None:
        """SEDD runs steps of its analytic predictor, and keeps given tokens."""
        sedd = Capabilities("sedd-small")
        assert sedd.own_samplers[0] == "analytic-s32"
        assert sedd.infills

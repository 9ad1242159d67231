"""SEDD against its authors' code: log-scores, noise, every term of a step, and whole decodings by
recorded draws.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from pbcore.extras.train.sedd import model as sedd
from pbcore.extras.train.sedd.diffusion import PREDICTORS, Graph, Noise, denoised
from pbcore.models import load_model
from pbcore.models.base import Generation, Request
from pbcore.names import parse
from tests.reference import bundled, reference_cases

NOISES = {
    "loglinear": Noise("loglinear"),
    "geometric_1e-4_20": Noise("geometric", 1e-4, 20.0),
    "geometric_default": Noise("geometric", 1e-3, 1.0),
}
UNIFORM_COLUMNS = 128  # of sedd-uniform-tiny, whose decodings have recorded first tokens


@cache
def model(name: str) -> sedd.Sedd:
    loaded = load_model(str(bundled(name)), eos_id=0)
    assert isinstance(loaded, sedd.Sedd)
    return loaded


class TestNetwork:
    @pytest.mark.parametrize(
        ("name", "file"),
        [
            ("sedd-tiny", "log_score_sigma0.02"),
            ("sedd-tiny", "log_score_sigma6.9"),
            ("sedd-tiny", "log_score_mixed"),
            ("sedd-uniform-tiny", "log_score"),
        ],
    )
    def test_log_scores(self, name: str, file: str) -> None:
        """Log-scores at low, high and mixed noise levels, in one call and at chosen positions."""
        data = load_file(bundled(name, f"{file}.safetensors"))
        ids = data["input_ids"]
        network = model(name).network
        for key in (key for key in data if key.startswith("log_score")):
            sigma = (
                data["sigma"]
                if key == "log_score"
                else torch.full((len(ids),), float(key.rpartition("_")[2]))
            )
            every = network(ids, sigma, torch.ones_like(ids).bool())[:, ::8]  # (R T, V/8)
            assert (every.view_as(data[key]) - data[key]).abs().max() < 1e-5
            some = torch.zeros_like(ids).bool()
            some[:, 3::7] = True
            torch.testing.assert_close(
                network(ids, sigma, some)[:, ::8], data[key][some], atol=1e-5, rtol=0
            )


class TestSteps:
    def test_noise(self) -> None:
        for name, numbers in reference_cases("sedd_numbers")["noise"].items():
            for t, total, rate in zip(numbers["t"], numbers["total"], numbers["rate"], strict=True):
                assert NOISES[name].total(t) == pytest.approx(total, rel=2e-5)
                assert NOISES[name].rate(t) == pytest.approx(rate, rel=2e-5)

    def test_every_term_of_a_step(self) -> None:
        """Staggered score, transition, reverse rate, both predictors and the denoiser, for each
        recorded case.
        """
        steps = load_file(bundled("sedd_steps.safetensors"))
        cases = reference_cases("sedd_numbers")["cases"]
        assert len(cases) >= 10
        for case in cases:
            found = {key: value[0] for key, value in _terms(case, steps).items()}
            for key, value in found.items():
                expected = steps[f"{case['case']}.{key}"][0]
                scale = expected.abs().clamp(min=1e-3)
                assert ((value - expected).abs() / scale).max() < 3e-4, (case["case"], key)


def _terms(case: dict[str, Any], steps: dict[str, Tensor]) -> dict[str, tuple[Tensor]]:
    tokens = steps[f"{case['case']}.x"][0]
    score = steps[f"{case['case']}.score"][0]
    graph = Graph(case["graph"], score.shape[-1])
    noise = NOISES[case["noise"]]
    t = case["t"]
    step = case["step_size"]
    dsigma = noise.total(t) - noise.total(t - step)
    return {
        "staggered": (graph.staggered(score, dsigma),),
        "transp_transition": (graph.transposed_transition(tokens, dsigma),),
        "reverse_rate": (graph.reverse_rate(tokens, score),),
        "p_analytic": (PREDICTORS["analytic"](graph, noise, tokens, score, t, step),),
        "p_euler": (PREDICTORS["euler"](graph, noise, tokens, score, t, step),),
        "p_denoise": (denoised(graph, noise, tokens, score, t),),
    }


class TestDecodings:
    def test_whole_runs_by_recorded_draws(self) -> None:
        """All reference decodings: tokens after every step, output and NFE."""
        cases = reference_cases("decode_sedd")
        wrong = [number for number, case in enumerate(cases) if not _repeats(case)]
        assert not wrong
        assert len(cases) >= 30


def _repeats(case: dict[str, Any]) -> bool:
    answer = _replayed(case)
    holes = [i for i in range(case["length"]) if i not in case["given_positions"]]
    canvases = [[canvas[i] for i in holes] for canvas in (answer.trajectory or ())[1:]]
    expected = [[canvas[i] for i in holes] for canvas in case["canvases"]]
    return (
        canvases == expected
        and list(answer.token_ids) == case["output"]
        and answer.nfe == case["nfe"]
    )


def _replayed(case: dict[str, Any]) -> Generation:
    """The case decoded with its own draws, first tokens and noise schedule."""
    one = model(case["model"])
    hole = sedd.OPEN if one.mask_id is None else one.mask_id
    given = dict(zip(case["given_positions"], case["given_ids"], strict=True))
    canvas = tuple(given.get(i, hole) for i in range(case["length"]))
    draws = torch.tensor(case["uniforms"], dtype=torch.float64)  # (steps, L)

    def recorded(seed: int, key: Tensor, nfe: Tensor, position: Tensor, salt: int = 0) -> Tensor:
        if int(nfe[0]) == sedd.START:  # the middle of each token's share of (0, 1)
            return (torch.tensor([case["start"]]) + 0.5) / UNIFORM_COLUMNS
        return draws[int(nfe[0])][None]

    sampler = parse(f"{case['predictor']}-s{case['steps']}")
    noise = NOISES[case["noise"]]
    return one.answer([Request((), canvas, 0)], sampler, seed=0, draw=recorded, noise=noise)[0]

"""SEDD as a model with its own decoding loop: given tokens are put back before every update, the rest follows the
reverse process.

R rows, T positions, M open positions, N columns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pbcore.errors import InputError
from pbcore.models.base import Generation, Prompt, Request
from pbcore.models.counter_rng import Draw, uniform
from pbcore.models.errors import ModelError
from pbcore.models.rows import past_eos
from pbcore.models.sedd.diffusion import EARLIEST, PREDICTORS, Graph, Noise, denoised, draw
from pbcore.models.sedd.network import SeddNetwork
from pbcore.models.tokenizer import Tokenizer, canvas_ids, prompt_ids
from pbcore.names import SamplerName
from pbcore.tasks.base import Sample

OPEN = -1  # marks the positions to decode in a canvas of a model without a mask token
START = 1 << 40  # the "step" of the draw of a uniform graph's first tokens, which no real step has


@dataclass(slots=True)
class _Trace:
    """What happened to a batch: canvases before each step, and the last step that changed each position."""

    steps: Tensor  # (R, T)
    confidences: Tensor  # (R, T)
    canvases: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Run:
    """A decoding: its predictor, its steps before the denoising one, its noise, and its random numbers (R, T) by key
    (R,), forward (R,) and position (R, T).
    """

    predictor: str
    steps: int
    noise: Noise
    draw: Callable[[Tensor, Tensor, Tensor], Tensor]


class Sedd:
    """A SEDD checkpoint with the samplers `analytic-s32` and `euler-s32`: so many steps, then one denoising step.

    NFE is steps + 1. Answers are drawn (temperature 1) with numbers that depend on the seed and the sample alone. The
    network attends to all positions, so padding is masked and answers don't depend on their neighbours in a batch.
    """

    def __init__(
        self,
        name: str,
        network: SeddNetwork,
        tokenizer: Tokenizer,
        eos_id: int,
        info: Mapping[str, Any],
    ) -> None:
        config = network.config
        self.name, self.info, self.eos_id, self.mask_id = name, info, eos_id, config.mask_id
        self.network, self.tokenizer = network, tokenizer
        self.hole = OPEN if config.mask_id is None else config.mask_id  # marks an open position of a canvas
        self._graph = Graph(config.graph, config.columns)
        self._noise = Noise(config.noise, config.sigma_min, config.sigma_max)
        self.device = next(network.parameters()).device

    def check(self, sampler: SamplerName) -> None:
        """Raises InputError for a sampler other than `analytic-s…` and `euler-s…`."""
        self._steps(sampler)

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt as a row; open positions of the canvas hold the mask id, or with the uniform graph OPEN.

        Raises ModelError for ids outside the vocabulary, too long rows, and a missing length.
        """
        sample = prompt if isinstance(prompt, Sample) else None
        before = prompt_ids(self.tokenizer, prompt, self.name)
        if sample is not None and sample.canvas is not None:
            canvas = canvas_ids(sample.canvas, self.tokenizer.piece, self.hole)
        else:
            length = max_new_tokens or (sample.max_new_tokens if sample else None)
            if not isinstance(length, int) or length < 1:
                raise ModelError(f"{self.name}: this prompt has no answer length; pass max_new_tokens")
            canvas = [self.hole] * length
        config = self.network.config
        given = (*before, *(i for i in canvas if i != self.hole))
        outside = [i for i in given if not 0 <= i < config.tokens]
        if outside:
            raise ModelError(f"{self.name}: token ids {outside[:8]} are outside its vocabulary 0..{config.tokens - 1}")
        if len(before) + len(canvas) > config.length:
            sizes = f"prompt {len(before)} + answer {len(canvas)} tokens"
            raise ModelError(
                f"{self.name} was trained on {config.length} positions, and {sizes} are more; shorten them"
            )
        return Request(tuple(before), tuple(canvas), key, sample)

    def answer(
        self,
        requests: Sequence[Request],
        sampler: SamplerName,
        *,
        seed: int,
        draw: Draw = uniform,
        noise: Noise | None = None,
    ) -> list[Generation]:
        """One Generation per row. Given tokens (infilling) stay where they are.

        `draw` gives the random numbers (R, T) by which tokens are drawn: forward `nfe` (0, 1, …) uses one for each
        position of the answer, and the first tokens of a uniform graph those of `START`. `noise` is another schedule
        than the checkpoint's.
        """
        run = _Run(sampler.policy, self._steps(sampler), noise or self._noise, partial(draw, seed))
        return self._decode(requests, run)

    def _steps(self, sampler: SamplerName) -> int:
        allowed = f"{self.name} has its own decoding loop: use analytic-s32 or euler-s32 (32 steps and a denoising one)"
        [*arguments] = sampler.arguments
        plain = str(sampler) == "-".join([sampler.policy, *(word + number for word, number in arguments)])
        if sampler.policy not in PREDICTORS or len(arguments) != 1 or arguments[0][0] != "s" or not plain:
            raise InputError(f"sampler {sampler}: {allowed}; blocks, caches, remasking, schedules and +t don't apply")
        number = arguments[0][1]
        if not number.isdigit() or int(number) < 1:
            raise InputError(f"sampler {sampler}: the number of steps is a whole number of at least 1, e.g. -s32")
        return int(number)

    @torch.inference_mode()
    def _decode(self, rows: Sequence[Request], run: _Run) -> list[Generation]:
        length = max(len(row.prompt_ids) + len(row.canvas) for row in rows)
        given = self._padded([(*row.prompt_ids, *row.canvas) for row in rows], length, self.eos_id)  # (R, T)
        is_open = given == self.hole
        seen = self._padded([[True] * (len(row.prompt_ids) + len(row.canvas)) for row in rows], length, False)
        key = torch.tensor([row.key for row in rows], device=self.device)
        first = torch.tensor([len(row.prompt_ids) for row in rows], device=self.device)
        place = (torch.arange(length, device=self.device) - first[:, None]).clamp(min=0)  # (R, T) within the answer
        canvas = torch.where(is_open, self._first_tokens(run, key, place), given)
        trace = _Trace(torch.where(is_open, 0, -1), torch.zeros(canvas.shape, device=self.device))
        for step, t in enumerate(times(run.steps)):
            trace.canvases.append(canvas)
            where = is_open & self._graph.open(canvas)  # other tokens keep their probability of 1
            draws = run.draw(key, torch.full_like(key, step), place)  # (R, T)
            canvas = self._updated(canvas, where, None if bool(seen.all()) else seen, t, run, draws, trace, step)
        trace.canvases.append(canvas)
        return [self._generation(row, i, trace, run.steps + 1) for i, row in enumerate(rows)]

    def _updated(
        self,
        canvas: Tensor,
        where: Tensor,
        seen: Tensor | None,
        t: float,
        run: _Run,
        draws: Tensor,
        trace: _Trace,
        step: int,
    ) -> Tensor:
        """One forward and one draw: a predictor's step, or the last one, the denoiser's."""
        sigma = torch.full((len(canvas),), run.noise.total(t), dtype=torch.float32, device=self.device)
        score = self.network(canvas, sigma, where, seen).exp()  # (M, N)
        tokens = canvas[where]  # (M,)
        if step == run.steps:
            probabilities = denoised(self._graph, run.noise, tokens, score, t)
        else:
            size = (1 - EARLIEST) / run.steps
            probabilities = PREDICTORS[run.predictor](self._graph, run.noise, tokens, score, t, size)
        drawn, confidence = draw(probabilities, draws[where])
        result = canvas.masked_scatter(where, drawn)
        changed = result != canvas
        trace.steps[changed] = step
        trace.confidences = trace.confidences.masked_scatter(where, confidence.float())
        return result

    def _first_tokens(self, run: _Run, key: Tensor, place: Tensor) -> Tensor:
        """Masks, or with the uniform graph random tokens (R, T)."""
        if self.mask_id is not None:
            return torch.full_like(place, self.mask_id)
        return (run.draw(key, torch.full_like(key, START), place) * self._graph.columns).long()

    def _padded(self, rows: Sequence[Sequence[Any]], length: int, fill: Any) -> Tensor:
        return torch.tensor([[*row, *[fill] * (length - len(row))] for row in rows], device=self.device)

    def _generation(self, row: Request, place: int, trace: _Trace, nfe: int) -> Generation:
        span = slice(len(row.prompt_ids), len(row.prompt_ids) + len(row.canvas))
        canvases = [tuple(canvas[place, span].tolist()) for canvas in trace.canvases]
        ids = canvases[-1]
        ends = next((i for i, token in enumerate(ids) if token == self.eos_id), len(ids))
        text = self.tokenizer.decode(ids[:ends])
        return Generation(
            text=text,
            token_ids=ids,
            nfe=nfe,
            answer_tokens=ends,
            steps=tuple(trace.steps[place, span].tolist()),
            confidences=tuple(trace.confidences[place, span].tolist()),
            trajectory=tuple(canvases),
            **past_eos(ids, {self.eos_id}, text, self._whole_text),
        )

    def _whole_text(self, ids: Sequence[int]) -> str:
        """All canvas tokens as text, special tokens left out."""
        return self.tokenizer.decode([i for i in ids if i not in (self.eos_id, self.mask_id)])


def times(steps: int) -> Iterator[float]:
    """The times of the forwards: `steps` from 1 down, evenly spaced, then the denoiser's, close to 0."""
    for step in range(steps + 1):
        yield 1 - (1 - EARLIEST) * step / steps

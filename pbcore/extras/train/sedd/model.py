"""SEDD as a model with its own decoding loop: given tokens are put back before every update, the
rest follows the reverse process. Checkpoints are in their authors' layout.

R rows, T positions, M open positions, N columns.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pbcore.base.errors import InputError
from pbcore.costs.calls import CallShape
from pbcore.extras.train.sedd.diffusion import (
    EARLIEST,
    PREDICTORS,
    Graph,
    Noise,
    denoised,
    draw_tokens,
)
from pbcore.extras.train.sedd.kind import SeddShape, of_config
from pbcore.extras.train.sedd.network import SeddConfig, SeddNetwork, config_json, read_sedd
from pbcore.models.base import Generation, Prompt, Request
from pbcore.models.checkpoints import refuse_odd_numbers, refuse_packed
from pbcore.models.counter_rng import RandomSource, uniform
from pbcore.models.device import find_device, find_dtype
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import read_config
from pbcore.models.hub import locate
from pbcore.models.identity import ModelFiles, model_files
from pbcore.models.info import ModelInfo
from pbcore.models.loading import plain_info
from pbcore.models.shards import shards
from pbcore.models.tokenizer import (
    HashTokenizer,
    NoTokenizer,
    Tokenizer,
    encode_request,
    end_of,
    past_eos,
    read_tokenizer,
)
from pbcore.names import SamplerName

OPEN = -1  # marks the positions to decode in a canvas of a model without a mask token
START = 1 << 40  # the "step" of the draw of a uniform graph's first tokens, which no real step has
TOKENIZER = "openai-community/gpt2"  # of the published checkpoints, which have no tokenizer files
ENDING = "\n\n"  # behind a prompt without a chat template, as the paper's code asks SEDD
_UNUSED = ("quantization", "attn_implementation", "device_map", "mask_id", "shift")


class SeddInfo(ModelInfo, total=False):
    """With the kind of corruption and the noise schedule."""

    graph: str
    noise: str


class Sedd:
    """A SEDD checkpoint with the samplers `analytic-s32` and `euler-s32`: so many steps, then one
    denoising step; NFE is steps + 1. Answers are drawn (temperature 1) with numbers that depend on
    the seed and the sample alone. The network attends to all positions, so padding is masked and
    answers don't depend on their neighbours in a batch.
    """

    def __init__(
        self,
        name: str,
        network: SeddNetwork,
        tokenizer: Tokenizer,
        eos_id: int,
        info: SeddInfo,
        files: ModelFiles | None = None,
    ) -> None:
        config = network.config
        self._graph = Graph(config.graph, config.columns)
        self._noise = Noise(config.noise, config.sigma_min, config.sigma_max)
        self.name = name
        self.info = info
        self.files = files
        self.eos_id = eos_id
        self.mask_id = self._graph.mask_id
        self.network, self.tokenizer, self.device = (
            network,
            tokenizer,
            next(network.parameters()).device,
        )
        # Marks an open position of a canvas.
        self.hole = OPEN if self.mask_id is None else self.mask_id

    @property
    def shape(self) -> SeddShape:
        """What its memory and its seconds depend on."""
        number = next(self.network.parameters()).dtype.itemsize
        return of_config(self.network.config, number)

    def check(self, sampler: SamplerName) -> None:
        self._steps(sampler)

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt as a row; open positions of the canvas hold the mask id, or with the uniform
        graph OPEN.

        Args:
            prompt: a Sample, chat messages, text or token ids.
            max_new_tokens: the canvas length; None: the Sample's.
            key: tells rows' random numbers apart.

        Raises:
            ModelError: for ids outside the vocabulary, too long rows, and a missing length.
        """
        sizes: dict[str, Any] = {
            "tokens": self.network.config.tokens,
            "limit": self.network.config.length,
        }
        return encode_request(
            self.name, self.tokenizer, prompt, max_new_tokens, key, hole=self.hole, **sizes
        )

    def _steps(self, sampler: SamplerName) -> int:
        allowed = (
            f"{self.name} has its own decoding loop: use analytic-s32 or euler-s32 (32 steps and a"
            " denoising one)"
        )
        policy = sampler.policy
        number = "".join(number for word, number in sampler.arguments if word == "s")
        if policy not in PREDICTORS or str(sampler) != f"{policy}-s{number}":
            raise InputError(
                f"sampler {sampler}: {allowed}; blocks, caches, remasking, schedules and +t don't"
                " apply"
            )
        if not number.isdigit() or int(number) < 1:
            raise InputError(
                f"sampler {sampler}: the number of steps is a whole number of at least 1, e.g. -s32"
            )
        return int(number)

    @torch.inference_mode()
    def answer(
        self,
        requests: Sequence[Request],
        sampler: SamplerName,
        *,
        seed: int,
        draw: RandomSource = uniform,
        noise: Noise | None = None,
    ) -> list[Generation]:
        """One Generation per row. Given tokens (infilling) stay where they are.

        Args:
            requests: the rows.
            sampler: one that `check` accepts.
            seed: of the draws.
            draw: gives the random numbers (R, T) by which tokens are drawn: forward `nfe` (0, 1, …)
                uses one for each position of the answer, and the first tokens of a uniform graph
                those
                of `START`.
            noise: another schedule than the checkpoint's.
        """
        steps = self._steps(sampler)
        noise = noise or self._noise
        sizes = [len(row.prompt_ids) + len(row.canvas) for row in requests]
        rows = [
            torch.tensor([*row.prompt_ids, *row.canvas], device=self.device) for row in requests
        ]
        given = pad_sequence(rows, True, self.eos_id)  # (R, T)
        columns = torch.arange(given.shape[1], device=self.device)  # (T,)
        is_open = given == self.hole
        seen = columns < torch.tensor(sizes, device=self.device)[:, None]  # (R, T)
        key = torch.tensor([row.key for row in requests], device=self.device)  # (R,)
        first = torch.tensor([len(row.prompt_ids) for row in requests], device=self.device)
        place = (columns - first[:, None]).clamp(min=0)  # (R, T) within the answer

        def numbers(step: int) -> Tensor:  # (R, T) for each position of a forward
            return draw(seed, key, torch.full_like(key, step), place)

        canvas = torch.where(is_open, self._start(place, numbers), given)
        canvases = [canvas]
        changed = torch.where(is_open, 0, -1)  # (R, T) the last step that changed a token
        confidences = torch.zeros(canvas.shape, device=self.device)
        predicted = []  # of each forward, how many positions (R,) of each row
        for step, t in enumerate(forward_times(steps)):
            where = is_open & self._graph.open(canvas)  # other tokens keep their probability of 1
            predicted.append(where.sum(-1))
            score = self._score(canvas, noise.total(t), where, seen)  # (M, N)
            tokens = canvas[where]  # (M,)
            if step == steps:
                probabilities = denoised(self._graph, noise, tokens, score, t)
            else:
                predict = PREDICTORS[sampler.policy]
                probabilities = predict(
                    self._graph, noise, tokens, score, t, (1 - EARLIEST) / steps
                )
            drawn, confidence = draw_tokens(probabilities, numbers(step)[where])
            confidences = confidences.masked_scatter(where, confidence.float())
            before = canvas
            canvas = canvas.masked_scatter(where, drawn)
            changed[canvas != before] = step
            canvases.append(canvas)
        film = torch.stack(canvases, dim=1)  # (R, steps + 2, T)
        counts = torch.stack(predicted, dim=1).tolist()  # (R, steps + 1)
        generations = []
        for row, (request, size) in enumerate(zip(requests, sizes, strict=True)):
            span = slice(len(request.prompt_ids), size)
            one = self._generation(film[row, :, span], changed[row, span], confidences[row, span])
            generations.append(
                replace(
                    one,
                    calls=dict(Counter(CallShape(1, size, 0, count) for count in counts[row])),
                    tokens_padded=(steps + 1) * (given.shape[1] - size),
                    share_of_calls=(steps + 1) / len(requests),
                )
            )
        return generations

    def _start(self, place: Tensor, numbers: Callable[[int], Tensor]) -> Tensor:
        """The tokens (R, T) before the first forward: masks, or drawn ones of a uniform graph."""
        if self.mask_id is None:
            return (numbers(START) * self._graph.columns).long()
        return torch.full_like(place, self.mask_id)

    def _score(self, canvas: Tensor, total: float, where: Tensor, seen: Tensor) -> Tensor:
        """The score (M, N) of each open position (R, T), at the noise that has come so far; rows
        (R, T) see what is theirs.
        """
        sigma = torch.full((len(canvas),), total, dtype=torch.float32, device=self.device)
        logarithm: Tensor = self.network(canvas, sigma, where, None if bool(seen.all()) else seen)
        return logarithm.exp()

    def _generation(self, film: Tensor, steps: Tensor, confidences: Tensor) -> Generation:
        """An answer, from its canvases (steps + 2, L) and what is known of each position (L,)."""
        canvases = [tuple(canvas) for canvas in film.tolist()]
        ids = canvases[-1]
        end = end_of(ids, {self.eos_id})
        decode = self.tokenizer.decode
        special = (self.eos_id, self.mask_id)
        text = decode(ids[:end])
        return Generation(
            text=text,
            token_ids=ids,
            nfe=len(canvases) - 1,
            answer_tokens=end,
            steps=tuple(steps.tolist()),
            confidences=tuple(confidences.tolist()),
            trajectory=tuple(canvases),
            **past_eos(
                ids, {self.eos_id}, text, lambda ids: decode([i for i in ids if i not in special])
            ),
        )


def forward_times(steps: int) -> list[float]:
    """The times of the forwards: `steps` from 1 down, evenly spaced, then the denoiser's, close to
    0.
    """
    return [1 - (1 - EARLIEST) * step / steps for step in range(steps + 1)]


def load_sedd(entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions) -> Sedd:
    """The SEDD model of a registry entry.

    Args:
        device: such as `cpu` or `cuda:0`.
        dtype: None: float32.
        options: how it is loaded.

    Raises:
        ModelError: says what to do.
    """
    given = [f"{name}={value}" for name in _UNUSED if (value := getattr(options, name)) is not None]
    if given:
        raise ModelError(f"{entry.name}: SEDD has no use for {', '.join(given)}; leave it out")
    place = find_device(device)
    kind = find_dtype(dtype or "float32", place)
    files = None
    if entry.dummy:
        config = read_sedd(entry.shape or {}, entry.name)
        torch.manual_seed(0)
        network = SeddNetwork(replace(config, blocks=entry.layers or config.blocks))
        for parameter in network.parameters():  # so that no layer is left at 0
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)
        tokenizer: Tokenizer = HashTokenizer(config.tokens, eos_id=config.tokens - 1)
    else:
        folder = locate(entry, options)
        files = model_files(entry, folder, options)
        network = _filled(read_sedd(entry.config or read_config(folder), str(folder)), folder)
        tokenizer = read_tokenizer(folder, entry.name, options.chat or entry.chat, ENDING)
        if isinstance(tokenizer, NoTokenizer) and entry.source is not None:
            words = locate(
                ModelEntry(TOKENIZER, loaded_as="tokenizer", source=TOKENIZER, revision="main"),
                LoadOptions(),
            )
            files = files.and_tokenizer(TOKENIZER, words)
            tokenizer = read_tokenizer(words, entry.name, options.chat or entry.chat, ENDING)
    eos_id = next(
        (token for token in (options.eos_id, entry.eos_id, tokenizer.eos_id) if token is not None),
        None,
    )
    if eos_id is None:
        raise ModelError(f"{entry.name}: it has no tokenizer that names its EOS; pass eos_id=…")
    network = network.to(device=place, dtype=kind).eval().requires_grad_(False)
    config = network.config
    info: SeddInfo = {
        **plain_info(entry, options, "sedd", network, kind, files),
        "layers": config.blocks,
        "graph": config.graph,
        "noise": config.noise,
    }
    return Sedd(entry.name, network, tokenizer, eos_id, info, files)


def _filled(config: SeddConfig, folder: Path) -> SeddNetwork:
    """The network with a checkpoint's weights. Raises ModelError naming missing and unexpected
    keys, wrong shapes.
    """
    network = SeddNetwork(config)
    tensors: dict[str, Any] = {}
    files = shards(folder)
    for file in files:
        try:
            tensors |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{file} can't be read ({error}); download it again") from error
    tensors.setdefault("rotary_emb.inv_freq", network.rotary_emb.inv_freq)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        why = re.sub(r"\s+", " ", str(error).partition(":")[2]).strip()
        raise ModelError(f"{folder} doesn't match its config.json: {why}") from error
    refuse_packed(folder, files)
    refuse_odd_numbers(network, folder)
    return network


def save_sedd(network: SeddNetwork, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Writes weights and config.json in the authors' layout.

    Args:
        folder: where.
        dtype: of the weights; None: as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(
        json.dumps(config_json(network.config), indent=2) + "\n", encoding="utf-8"
    )
    weights = {
        key: value.detach().to("cpu", dtype).contiguous()
        for key, value in network.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors")

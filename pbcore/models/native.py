"""DiffusionGemma through transformers' `generate`: block diffusion, accepted by an entropy bound
(arXiv 2505.24857).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pbcore.base.errors import InputError
from pbcore.costs.calls import CallShape
from pbcore.models.base import Generation, Prompt, row_key
from pbcore.models.checkpoints import with_its_keys
from pbcore.models.device import find_device, find_dtype
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.hub import locate
from pbcore.models.identity import ModelFiles, model_files
from pbcore.models.info import ModelInfo
from pbcore.models.loading import plain_info
from pbcore.models.tokenizer import Tokenizer, end_of, past_eos, prompt_ids, read_tokenizer
from pbcore.names import SamplerName
from pbcore.tasks.base import Sample

# Parameters of `eb` → fields of transformers' DiffusionGemmaGenerationConfig (`bound` is its
# sampler's), their types.
_SETTINGS: Mapping[str, tuple[str, Callable[[float], Any]]] = {
    "": ("bound", float),
    "steps": ("max_denoising_steps", int),
    "t_min": ("t_min", float),
    "t_max": ("t_max", float),
    "stable": ("stability_threshold", int),
    "confident": ("confidence_threshold", float),
}


class DiffusionGemma:
    """DiffusionGemma with its own decoding loop: a sampler `eb-0.1` sets the entropy bound of its
    acceptance rule; `-steps48`, `-t_min0.4`, `-t_max0.8`, `-stable1`, `-confident0.005` set the
    rest of its generation config; settings that aren't given keep the checkpoint's values. It
    generates whole canvases (256 tokens in published checkpoints), so a task's length is rounded up
    to a multiple of theirs; a length that was asked for must be one.
    """

    def __init__(
        self,
        name: str,
        module: Any,
        tokenizer: Tokenizer,
        info: ModelInfo,
        files: ModelFiles | None = None,
    ) -> None:
        self.name = name
        self.info = info
        self.files = files
        self._module = module
        self._tokenizer = tokenizer

    def check(self, sampler: SamplerName) -> None:
        self._settings(sampler)

    def generate(
        self,
        prompts: Sequence[Prompt],
        sampler: SamplerName,
        *,
        max_new_tokens: int | None,
        seed: int,
    ) -> list[Generation]:
        """Decodes one prompt at a time: in a batch transformers' `generate` counts padding as
        positions
        and draws for all rows by one generator, so answers would depend on their neighbours.

        Args:
            sampler: one that `check` accepts.
            max_new_tokens: the length of answers; None: the Samples'.
            seed: of the draws.
        """
        settings = self._settings(sampler)
        return [
            self._answer(prompt, settings, max_new_tokens, seed, place)
            for place, prompt in enumerate(prompts)
        ]

    def _settings(self, sampler: SamplerName) -> dict[str, Any]:
        """The sampler as settings of transformers' generation config."""
        options = ", ".join(f"-{word}…" for word in _SETTINGS if word)
        allowed = (
            f"{self.name} has its own decoding loop: use eb-0.1 (entropy bound), optionally with"
            f" {options}"
        )
        plain = "-".join(["eb", *(word + number for word, number in sampler.arguments)])
        if sampler.policy != "eb" or str(sampler) != plain:
            raise InputError(
                f"sampler {sampler}: {allowed}; blocks, caches, remasking, schedules and +t don't"
                " apply"
            )
        settings: dict[str, Any] = {}
        for word, number in sampler.arguments:
            field, kind = _SETTINGS.get(word, ("", float))
            if not field or not number or field in settings:
                raise InputError(
                    f"sampler {sampler}: {word + number!r} is not a parameter of this model."
                    f" {allowed}"
                )
            settings[field] = kind(float(number))
        if settings.get("bound") == 0:
            raise InputError(
                f"sampler {sampler}: the entropy bound is 0; it must be above 0, e.g. eb-0.1"
            )
        return settings

    def _answer(
        self,
        prompt: Prompt,
        settings: Mapping[str, Any],
        max_new_tokens: int | None,
        seed: int,
        place: int,
    ) -> Generation:
        from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
            EntropyBoundSamplerConfig,
        )

        sample = prompt if isinstance(prompt, Sample) else None
        if sample is not None and sample.canvas is not None:
            raise ModelError(
                f"{self.name} can't do infilling (task {sample.task}), since its canvas starts from"
                " noise; leave the task out"
            )
        ids = torch.tensor(
            [prompt_ids(self._tokenizer, prompt, self.name)], device=self._module.device
        )  # (1, P)
        length = self._length(sample, max_new_tokens)
        given = {field: value for field, value in settings.items() if field != "bound"}
        if "bound" in settings:
            given["sampler_config"] = EntropyBoundSamplerConfig(entropy_bound=settings["bound"])
        drafts = _Drafts()
        given |= {"streamer": drafts, "max_new_tokens": length, "return_dict_in_generate": True}
        with torch.random.fork_rng([ids.device] if ids.device.type == "cuda" else []):
            torch.manual_seed(((seed << 20) + row_key(prompt, place)) % (1 << 64))
            encoder = self._module.model.encoder
            with encoder.register_forward_pre_hook(drafts.encoding, with_kwargs=True):
                output = self._module.generate(ids, **given)
        tokens = output.sequences[0, ids.shape[1] :].tolist()
        return self._generation(tokens, drafts, length)

    def _generation(self, tokens: list[int], drafts: "_Drafts", length: int) -> Generation:
        stops = self._stops()
        end = end_of(tokens, stops)
        text = self._tokenizer.decode(tokens[:end])
        return Generation(
            text=text,
            token_ids=tuple(tokens),
            nfe=drafts.number,
            calls=dict(drafts.calls),
            tokens_padded=0,
            share_of_calls=sum(drafts.calls.values()),
            answer_tokens=end,
            **past_eos(
                tokens,
                stops,
                text,
                lambda ids: self._tokenizer.decode([i for i in ids if i not in stops]),
            ),
            extra={"max_new_tokens": length},
        )

    def _length(self, sample: Sample | None, requested: int | None) -> int:
        """Tokens of whole canvases. Raises ModelError for no length, and for one asked for that
        isn't theirs.
        """
        length = requested or (sample.max_new_tokens if sample else None)
        if length is None:
            raise ModelError(f"{self.name}: this prompt has no answer length; pass max_new_tokens")
        canvas: int = self._module.config.canvas_length
        whole = -(-length // canvas) * canvas
        if length != whole and (requested or (sample is not None and sample.limited)):
            raise ModelError(
                f"{self.name}: max_new_tokens {length}: it generates whole canvases of {canvas}"
                f" tokens; give a multiple, such as {whole}"
            )
        return whole

    def _stops(self) -> set[int]:
        """Ids that end an answer."""
        config = self._module.generation_config
        stops = self._module.generation_config.eos_token_id
        if stops is None:
            stops = self._module.config.get_text_config().eos_token_id
        return {config.pad_token_id, *(stops if isinstance(stops, list) else [stops])} - {None}


class _Drafts:
    """A streamer for `generate`: it gets one draft per forward of the decoder, so their number is
    the NFE. The encoder's forwards store the prompt, then each finished canvas; the decoder's run a
    canvas against what is stored.
    """

    def __init__(self) -> None:
        self.number = 0
        self.calls = Counter[CallShape]()
        self._stored = 0

    def encoding(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A hook before each forward of the encoder."""
        tokens = (args[0] if args else kwargs["input_ids"]).shape[1]
        self.calls[CallShape(1, tokens, self._stored, 0, prefill=not self._stored)] += 1
        self._stored += tokens

    def put_draft(self, value: torch.Tensor) -> None:
        self.number += 1
        length = value.shape[1]
        self.calls[CallShape(1, length, self._stored, length)] += 1

    def put(self, value: torch.Tensor) -> None:
        """Ignored: the prompt and finished canvases are in the output too."""

    def end(self) -> None:
        """Nothing to close."""


def load_diffusion_gemma(
    entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions
) -> DiffusionGemma:
    """DiffusionGemma from the hub or a folder.

    Args:
        device: such as `cpu` or `cuda:0`.
        dtype: None: bfloat16 on a GPU, float32 on the CPU.
        options: how it is loaded.

    Raises:
        ModelError: says what to do.
    """
    try:
        from transformers import DiffusionGemmaForBlockDiffusion
    except ImportError as error:
        raise ModelError(
            "the installed transformers has no DiffusionGemma; install a newer one (`pip install -U"
            " transformers`)"
        ) from error
    place = find_device(device)
    kind = find_dtype(dtype, place)
    folder = locate(entry, options)
    files = model_files(entry, folder, options)
    module = (
        with_its_keys(DiffusionGemmaForBlockDiffusion, folder, place, kind, options)[0]
        .eval()
        .requires_grad_(False)
    )
    tokenizer = read_tokenizer(folder, entry.name, options.chat or entry.chat)
    info = plain_info(entry, options, "diffusion_gemma", module, kind, files)
    return DiffusionGemma(entry.name, module, tokenizer, info, files)

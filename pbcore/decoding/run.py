"""`decode`: prompts to generations, in batches that are halved when memory runs out, by the loop or
the model's own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from pbcore.base.errors import InputError
from pbcore.base.lazy_torch import torch
from pbcore.base.printable import counted, shown
from pbcore.base.torch_states import own_states
from pbcore.decoding.batch_size import default_batch, fixed_batch
from pbcore.decoding.engine import denoise
from pbcore.decoding.samplers import Sampler, sampler_of
from pbcore.decoding.sharing import LIVE, ForwardStore, shareable
from pbcore.models.base import (
    BatchDecoder,
    Denoiser,
    Generation,
    Model,
    OwnDecoder,
    Prompt,
    Request,
    complete,
    row_key,
)
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName, SamplerNameError
from pbcore.tasks.base import Sample

DecodeRows = Callable[[list[Request], int], list[Generation]]  # decodes rows in batches of a size


class Batch(NamedTuple):
    """The rows that `decode` takes together, None for as many as it finds, and the prompts as the
    model encodes them, where their lengths had to be known.
    """

    rows: int | None
    requests: Sequence[Request] | None = None


@own_states()
def decode(
    model: Model,
    prompts: Iterable[Prompt],
    sampler: str | SamplerName | Sampler,
    max_new_tokens: int | None = None,
    seed: int = 0,
    record: bool = False,
    batch_size: int | None = None,
    store: ForwardStore | None = None,
    starts: Sequence[Sequence[int]] | None = None,
    requests: Sequence[Request] | None = None,
) -> list[Generation]:
    """Decodes prompts with a sampler.

    A row's random numbers depend on `seed` and its identity alone (a Sample's task, data seed and
    index; else the index in `prompts`), so results don't depend on `batch_size`.

    Args:
        model: a Denoiser, or a model that decodes by itself.
        prompts: Samples, chats (sequences of {"role", "content"}), texts or sequences of token ids.
        sampler: `threshold-0.9+b32`, as text, parsed or whole.
        max_new_tokens: the length of an answer; None: a Sample's own. Samples have their own
            canvas, too.
        seed: a whole number.
        record: True keeps the canvas before each step (`trajectory`).
        batch_size: the most rows decoded together; None: those of the sampler's `+x4`, the model's
            own, else 8 on a CPU, and on a GPU as many as its free memory holds. It halves when
            memory runs out.
        store: shares forwards of this model between calls; answers and NFE stay the same. None:
            none are shared.
        starts: the canvas that each prompt goes on from, as token ids with the mask where none is
            revealed; None: from its empty one. For models whose steps are the loop's.
        requests: the prompts as the model encodes them, of `batch_for`; None: it does so here.

    Returns:
        One Generation per prompt, in order.

    Raises:
        SamplerNameError: for an unknown sampler.
        ModelError: for a prompt that the model can't encode.
        ValueError: for impossible lengths, and arguments of the wrong type.
        DecodingError: for unusable logits, or a policy that breaks its protocol.
    """
    if isinstance(prompts, str | Sample):
        raise InputError(
            f"prompts must be a list with one entry per row, not one {type(prompts).__name__};"
            " write [prompt]"
        )
    prompts = list(prompts)
    sampler = sampler_of(sampler)
    if starts is not None and isinstance(model, OwnDecoder | BatchDecoder):
        raise InputError(f"{model.name} decodes by itself and can't go on from a canvas")
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise InputError(
            "batch_size is the number of rows decoded together: a whole number of at least 1, not"
            f" {batch_size!r}"
        )
    if type(seed) is not int:
        raise InputError(f"seed is a whole number, not {seed!r}")
    if store is not None:
        store.begin(model)
    if isinstance(model, OwnDecoder):
        if sampler.name.at_once and not getattr(model, "served", False):
            raise InputError(
                f"sampler {sampler}: {model.name} decodes by itself, in batches of its own; leave"
                " out +x"
            )
        _check_own(model, sampler.name)
        own = model.generate(prompts, sampler.name, max_new_tokens=max_new_tokens, seed=seed)
        return _generations(f"{model.name}.generate", own, len(prompts))
    at_once = sampler.name.at_once
    sampler = sampler.alone
    model, answered, batches = _decoder(model, sampler, seed, record, store)
    if requests is None:
        requests = _encoded(model, prompts, max_new_tokens)
    if starts is not None:
        pairs = zip(requests, starts, strict=True)
        requests = [replace(request, start=tuple(start)) for request, start in pairs]
    size = batch_size or at_once or default_batch(model, sampler, requests)
    results = dict[int, Generation]()
    for batch in _batches(requests, sampler.name, model):
        results.update(_in_pieces(requests, batch, size, answered, batches))
    return [results[i] for i in range(len(requests))]


def batch_of(
    model: Model,
    prompts: Iterable[Prompt],
    sampler: str | SamplerName | Sampler,
    max_new_tokens: int | None = None,
    workers: int = 1,
) -> int:
    """The rows that `decode` of the same arguments takes together where no `batch_size` is given;
    arguments and errors as of `batch_for`.
    """
    return batch_for(model, prompts, sampler, max_new_tokens, workers).rows or 1


@own_states()
def batch_for(
    model: Model,
    prompts: Iterable[Prompt],
    sampler: str | SamplerName | Sampler,
    max_new_tokens: int | None = None,
    workers: int = 1,
) -> Batch:
    """The rows that `decode` of the same arguments takes together where no `batch_size` is given,
    and the prompts, encoded, if that takes them.

    Args:
        model: as for `decode`.
        prompts: as for `decode`.
        sampler: as for `decode`.
        max_new_tokens: as for `decode`.
        workers: processes on one GPU, each of which takes its share of the memory.

    Raises:
        ModelError: for prompts that can't be encoded.
    """
    sampler = sampler_of(sampler)
    if sampler.name.at_once:
        return Batch(sampler.name.at_once)
    fixed = fixed_batch(model)
    if fixed is not None or isinstance(model, OwnDecoder):
        return Batch(fixed or 1)
    whole = model if isinstance(model, BatchDecoder) else complete(model)
    requests = _encoded(whole, prompts, max_new_tokens)
    return Batch(default_batch(whole, sampler, requests, workers), requests)


def _decoder(
    given: Denoiser | BatchDecoder,
    sampler: Sampler,
    seed: int,
    record: bool,
    store: ForwardStore | None,
) -> tuple[Denoiser | BatchDecoder, DecodeRows, int]:
    """The model with all its members, what decodes rows in batches of a size, and how many of these
    at once.
    """
    name = sampler.name
    if isinstance(given, BatchDecoder):
        _check_own(given, name)

        def answer(rows: list[Request], size: int) -> list[Generation]:
            own = given.answer(rows, name, seed=seed)
            return _generations(f"{given.name}.answer", own, len(rows))

        return given, answer, 1
    model = complete(given)
    if name.policy == "ar":
        raise InputError(
            f"{model.name} is a masked diffusion model; sampler 'ar' is for models with their own"
            " decoding loop; try left_to_right-k1"
        )
    rule = sampler.policy

    def answered(rows: list[Request], size: int) -> list[Generation]:
        return denoise(model, rows, rule, name, seed=seed, record=record, store=store, at_once=size)

    return model, answered, LIVE if store is not None and shareable(model, rule, name) else 1


def _generations(what: str, given: object, count: int) -> list[Generation]:
    """What a model that decodes by itself returned. Raises ModelError unless these are `count`
    Generations.
    """
    expected = f"expected a list of {count} pbcore.models.base.Generation, one for each prompt"
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise ModelError(f"{what} returned {shown(given)}; {expected}")
    answers: list[object] = list(given)
    if len(answers) != count:
        raise ModelError(f"{what} returned {counted(len(answers), 'answer')}; {expected}")
    generations: list[Generation] = []
    for number, answer in enumerate(answers):
        if not isinstance(answer, Generation):
            raise ModelError(f"{what} returned {shown(answer)} as answer {number}; {expected}")
        generations.append(answer)
    return generations


def _check_own(model: OwnDecoder | BatchDecoder, name: SamplerName) -> None:
    """Raises SamplerNameError with the model's own complaint about a sampler that it can't run."""
    try:
        model.check(name)
    except ValueError as error:
        raise SamplerNameError(str(error)) from error


def _encoded(
    model: Denoiser | BatchDecoder, prompts: Iterable[Prompt], max_new_tokens: int | None
) -> list[Request]:
    return [_encode(model, prompt, max_new_tokens, i) for i, prompt in enumerate(prompts)]


def _encode(
    model: Denoiser | BatchDecoder, prompt: Prompt, max_new_tokens: int | None, index: int
) -> Request:
    if not isinstance(prompt, Sample) and (not isinstance(prompt, Sequence) or not prompt):
        given = "empty" if isinstance(prompt, Sequence) else f"a {type(prompt).__name__}"
        raise InputError(
            f"prompt {index} is {given}; give a Sample, chat messages, a text or a list of"
            " token ids"
        )
    request: object = model.encode(prompt, max_new_tokens, row_key(prompt, index))
    if not isinstance(request, Request):
        raise ModelError(
            f"{model.name}.encode returned {shown(request)}; expected a pbcore.models.base.Request"
        )
    return request


def _batches(
    requests: Sequence[Request], name: SamplerName, model: Denoiser | BatchDecoder
) -> list[list[int]]:
    """Rows that may share a batch, sorted by prompt length to keep padding small. With a cache they
    need the same masked positions, except for a block model.
    """
    mask_id = None if isinstance(model, BatchDecoder) or model.block else model.mask_id
    shapes = defaultdict(list)
    for i, request in enumerate(requests):
        shapes[tuple(token == mask_id for token in request.canvas) if name.cache else None].append(
            i
        )
    return [sorted(rows, key=lambda i: len(requests[i].prompt_ids)) for rows in shapes.values()]


def _in_pieces(
    requests: Sequence[Request], rows: list[int], size: int, answered: DecodeRows, batches: int
) -> Iterator[tuple[int, Generation]]:
    """Decodes `rows` in parts of some `batches` of `size`, which is halved whenever memory runs
    out; raises if one row alone doesn't fit.
    """
    start = 0
    while start < len(rows):
        part = rows[start : start + size * batches]
        try:
            generations = answered([requests[i] for i in part], size)
        except torch.OutOfMemoryError:
            if min(size, len(part)) == 1:
                raise
            size = max(1, min(size, len(part)) // 2)
            torch.cuda.empty_cache()
            continue
        yield from zip(part, generations, strict=True)
        start += len(part)

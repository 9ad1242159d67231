"""Checks of what crosses the loop's borders: the model's logits and the policy's answers. R rows, C
slots, V tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pbcore.base.errors import InputError, PbcoreError
from pbcore.base.lazy_torch import Tensor, torch
from pbcore.base.printable import step_number
from pbcore.base.rules import Rule, why_not
from pbcore.decoding.candidates import Candidates
from pbcore.decoding.job import Job
from pbcore.decoding.predicted import Predicted
from pbcore.decoding.protocol import Traits
from pbcore.decoding.rows import Rows
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Answers, Probe
from pbcore.models.base import Denoiser, Request
from pbcore.models.grid import DEFAULT_GRID
from pbcore.names import SamplerName

ROUNDING = 1e-3  # of a probability in the model's dtype


class DecodingError(PbcoreError, RuntimeError):
    """Decoding failed: the model returned unusable logits, or the policy broke its protocol."""


def check_needs(model: Denoiser, traits: Traits, name: SamplerName) -> None:
    """Checks that the model, and the sampler's cache, have what the sampler needs.

    Args:
        model: its caches, reviews, frequencies and blocks count.
        traits: what the policy declares.
        name: the sampler.

    Raises:
        ValueError: for a cache, a review or a table of token frequencies that is missing, and for a
            sampler that can't go with blocks.
    """
    why = lacks(model, traits, name)
    if why is not None:
        raise InputError(f"sampler {name}: {why}")


def lacks(model: Denoiser, traits: Traits, name: SamplerName) -> str | None:
    """What the model, or the sampler's cache, lacks of what the sampler needs; None for nothing.

    Args:
        model: its caches, reviews, frequencies and blocks count.
        traits: what the policy declares.
        name: the sampler.
    """
    why = why_not(IN_BLOCKS, InBlocks(model.block, traits, name)) if model.block else None
    if why is not None:
        return f"{model.name} decodes block by block: {why}"
    return why_not(LACKS, OnModel(model, traits, name))


def check_starts(model: Denoiser, requests: Sequence[Request], name: SamplerName) -> bool:
    """Whether the rows go on from canvases that were begun.

    Args:
        model: says which token is the mask.
        requests: the rows, with a `start` all or none.
        name: the sampler, without a cache where there are starts.

    Raises:
        InputError: for a start that isn't its request's canvas with more tokens, one beside rows
            without, and a cache, which holds what was computed for the tokens before.
    """
    starts = [request.start for request in requests]
    if all(start is None for start in starts):
        return False
    if name.cache and not model.block:
        raise InputError(f"sampler {name}: a canvas that was begun has no cache; leave it out")
    for request in requests:
        start = request.start or ()
        agree = len(start) == len(request.canvas)
        for asked, token in zip(request.canvas, start, strict=False):
            agree = agree and 0 <= token < model.vocab_size and asked in (token, model.mask_id)
        if not agree:
            raise InputError(
                f"{request.label}: the start isn't its canvas of {len(request.canvas)} tokens"
                " with more of them; give one for each row, of that length, with the same given"
                " tokens"
            )
    return True


class OnModel(NamedTuple):
    """A model, what a policy declares, and the sampler."""

    model: Denoiser
    traits: Traits
    name: SamplerName

    @property
    def policy(self) -> str:
        return self.name.policy


# What a sampler needs that a model, or the sampler's cache, lacks.
LACKS: tuple[Rule[OnModel], ...] = (
    Rule(
        lambda s: s.name.cache and s.name.cache not in s.model.caches,
        lambda s: (
            f"{s.model.name} has no {s.name.cache} cache; it has {sorted(s.model.caches) or 'none'}"
        ),
    ),
    Rule(
        lambda s: s.name.ada is not None and not s.model.delimiter_ids,
        lambda s: (
            f"+ada ends blocks at line breaks, and no token of {s.model.name} is known to be one:"
            " it has no tokenizer that says so; load it with delimiter_ids=[…]"
        ),
    ),
    Rule(
        lambda s: s.traits.review and s.traits.review not in s.model.reviews,
        lambda s: (
            f"{s.policy} needs predictions for {_kind(s.traits)} tokens (review"
            f" {s.traits.review!r}), and {s.model.name} offers {_offered(s.model)}; choose another"
            " sampler or model"
        ),
    ),
    Rule(
        lambda s: s.traits.review == "hidden" and s.name.cache,
        lambda s: f"{s.policy}'s two-part forward runs without a cache; leave +{s.name.cache} out",
    ),
    Rule(
        lambda s: "probe" in s.traits.needs and s.name.cache,
        lambda s: (
            f"{s.policy} asks about what-if rows, and a KV cache holds one canvas for each row;"
            f" leave +{s.name.cache} out"
        ),
    ),
    Rule(
        lambda s: "causal" in s.traits.needs and not s.model.block,
        lambda s: (
            f"{s.policy} checks a block token by token, which models that decode block by block"
            f" can do (SDAR, LLaDA2, Fast-dLLM v2), and {s.model.name} isn't one; choose another"
            " sampler or model"
        ),
    ),
    Rule(
        lambda s: (
            s.traits.needs & {"causal", "probe"} and s.model.block and s.model.grid != DEFAULT_GRID
        ),
        lambda s: (
            f"{s.policy} asks about further rows of a block, and {s.model.name} counts or stores"
            " its blocks in a way of its own, for which that isn't exact yet; choose another"
            " sampler or model"
        ),
    ),
    Rule(
        lambda s: "attention" in s.traits.needs and not s.model.attention,
        lambda s: (
            f"{s.policy} reads attention weights, and {s.model.name} gives none; masked models with"
            " full attention do, under the sdpa or eager kernel; choose another sampler or model"
        ),
    ),
    Rule(
        lambda s: s.traits.gaps is not None and "seen" not in s.model.reviews,
        lambda s: (
            f"{s.policy} with an early exit reads the model's logits at revealed tokens, too"
            f" (review 'seen'), and {s.model.name} doesn't offer them; choose another sampler or"
            " model"
        ),
    ),
    Rule(
        lambda s: s.traits.gaps is not None and s.name.cache,
        lambda s: (
            f"{s.policy} with an early exit predicts the whole answer in each forward, which a"
            f" cache doesn't compute; leave +{s.name.cache} out"
        ),
    ),
    Rule(
        lambda s: "attention" in s.traits.needs and s.name.cache,
        lambda s: (
            f"{s.policy} reads the attention of all tokens, which a cache no longer computes; leave"
            f" +{s.name.cache} out"
        ),
    ),
    Rule(
        lambda s: "attention" in s.traits.needs and s.traits.review == "hidden",
        lambda s: f"{s.policy} can't have attention weights and a hidden review from one forward",
    ),
    Rule(
        lambda s: "frequencies" in s.traits.needs and s.model.frequencies is None,
        lambda s: (
            f"{s.policy} needs the background frequency of each token, and {s.model.name} has no"
            " table of them; make one with `pbcore list samplers --frequencies CORPUS --model NAME"
            " --output FILE` and set PBCORE_FREQUENCIES to that file"
        ),
    ),
)


def _kind(traits: Traits) -> str:
    """Which tokens a policy reviews."""
    return "visible" if traits.review == "seen" else "hidden"


def _offered(model: Denoiser) -> str:
    """The reviews of a model in words."""
    return "only " + ", ".join(map(repr, sorted(model.reviews))) if model.reviews else "no reviews"


class InBlocks(NamedTuple):
    """A sampler, what it declares, and the length of a model's blocks."""

    block: int
    traits: Traits
    name: SamplerName


# Samplers that a model with blocks can't run.
IN_BLOCKS: tuple[Rule[InBlocks], ...] = (
    Rule(
        lambda s: s.name.block not in (None, s.block),
        lambda s: (
            f"its blocks have {s.block} tokens; leave +b{s.name.block} out, or load it with"
            f" block={s.name.block} if it was trained so"
        ),
    ),
    Rule(
        lambda s: s.name.adaptive,
        lambda s: (
            f"its blocks have {s.block} tokens, as it was trained; leave"
            f" +{'ada' if s.name.ada is not None else f'blocks_{s.name.blocks}'} out"
        ),
    ),
    Rule(
        lambda s: s.traits.gaps is not None,
        "an early exit fills the whole answer from one forward, and it predicts the active block"
        " alone; leave the exit out",
    ),
    Rule(
        lambda s: s.name.cache == "prefix",
        "its cache between blocks is exact and always on; leave +prefix out",
    ),
    Rule(
        lambda s: s.name.cache and s.traits.part is None,
        lambda s: (
            f"+{s.name.cache} is its cache within a block, for samplers that go through a block in"
            " parts; leave it out"
        ),
    ),
    Rule(
        lambda s: s.traits.reach == "prefix",
        lambda s: (
            f"{s.name.policy} may mask tokens of earlier blocks, whose keys and values are stored;"
            " choose another sampler"
        ),
    ),
    Rule(
        lambda s: s.traits.review == "hidden",
        lambda s: (
            f"{s.name.policy} needs predictions for hidden tokens, which it doesn't have; choose"
            " another sampler"
        ),
    ),
)


def check_logits(model: Denoiser, logits: Any, rows: int, canvas: Tensor, what: str) -> None:
    """Checks what a model returned.

    Args:
        model: named in the error; says V.
        logits: floating-point (rows, V) on the canvas's device, if right.
        rows: positions that were marked.
        canvas: of the query, for its device.
        what: those positions in a word, `masked` or `revealed`.

    Raises:
        DecodingError: for anything else.
    """
    expected = (rows, model.vocab_size)
    if not _fits(logits, expected, torch.float32, canvas.device):
        raise DecodingError(
            f"{model.name} returned {_described(logits)} as logits; expected a floating-point"
            f" tensor of shape {expected} on {canvas.device}: a row for each {what} position marked"
            f" in the query, in row-major order, and a column for each of {model.vocab_size} tokens"
        )


def check_numbers(job: Job, rows: Rows, confidence: Tensor, row: Tensor | None = None) -> None:
    """Rings if a confidence is NaN, as the softmax is for logits with NaN or +inf, or of −inf
    alone.

    Args:
        job: has the alarms.
        confidence: (R, C), or (N,) with `row`.
        row: (N,) the rows of the confidences; None: all, in order.
    """
    bad = confidence.isnan()
    name = job.model.name
    origin, steps = rows.origin, rows.steps

    def error() -> DecodingError:
        first = bad.nonzero()[0, 0]
        at = first if row is None else row[first]
        return DecodingError(
            f"{name} gave logits that are NaN, +inf or all -inf for"
            f" {job.labels[int(origin[at])]} at step {step_number(int(steps[at]))};"
            " try --dtype float32, and check the checkpoint"
        )

    job.alarms.ring(bad, error)


def as_move(name: str, answer: Any, step: Candidates) -> Move:
    """A policy's answer as a Move that reveals masked slots alone.

    Args:
        name: of the policy.
        answer: what `select` returned.
        step: what it got.

    Raises:
        DecodingError: says what is wrong and what is expected.
    """
    shape = tuple(step.masked.shape)
    device = step.masked.device
    if isinstance(answer, Probe):
        raise DecodingError(
            f"policy {name}: it asked about what-if rows {shape[1] + 1} times in one step; return a"
            " Move after that"
        )
    if not isinstance(answer, Move):
        if not _fits(answer, shape, torch.bool, device):
            raise DecodingError(
                f"policy {name}: select returned {_described(answer)}; expected a bool tensor of"
                f" shape {shape} on {device} (like step.masked, True where to reveal) or a Move"
            )
        return Move(answer & step.masked)
    kinds = {"token": torch.int64, "confidence": torch.float32, "take": torch.int64}
    by_row = ("hold", "take", "finish")
    for field in ("reveal", "remask", "revise", "token", "confidence", *by_row):
        value = getattr(answer, field)
        kind = kinds.get(field, torch.bool)
        sizes = shape[:1] if field in by_row else shape
        if not _fits(value, sizes, kind, device) and not (value is None and field != "reveal"):
            raise DecodingError(
                f"policy {name}: Move.{field} is {_described(value)}; expected a {_short(kind)}"
                f" tensor of shape {sizes} on {device}"
            )
    return replace(answer, reveal=answer.reveal & step.masked)


def check_candidates(job: Job, step: Candidates, masked: Tensor) -> None:
    """Rings if a policy changed the step's candidates in place.

    Args:
        job: has the alarms.
        step: what the policy got.
        masked: (R, C) bool, the candidates before.
    """
    job.alarms.ring(
        step.masked != masked,
        lambda: DecodingError(
            f"policy {job.name.policy}: select changed step.masked in place; a step is only read:"
            " change a copy (step.masked.clone())"
        ),
    )


def check_cap(name: str, cap: Any, slots: int) -> int:
    """The policy's cap for a block.

    Args:
        name: of the policy.
        cap: what `cap(slots)` returned.
        slots: of the block.

    Raises:
        DecodingError: unless it is a whole number of at least 1.
    """
    if not isinstance(cap, int) or cap < 1:
        raise DecodingError(
            f"policy {name}: cap({slots}) returned {cap!r}; expected the most steps in a block, a"
            " whole number of at least 1"
        )
    return cap


def check_written(job: Job, move: Move, step: Predicted, written: Tensor) -> None:
    """Checks what a policy writes. Rings if a token is the mask or outside the vocabulary, if a
    confidence is no probability, and if the policy declares `chooses` and writes others than
    predicted.

    Args:
        job: has the alarms.
        move: of the policy.
        step: what it got.
        written: (R, C) bool, the slots that it writes.

    Raises:
        DecodingError: if the policy declares `chooses` and takes tokens back.
    """
    name = job.name.policy
    model = job.model
    chooses = job.traits.chooses
    token = move.token
    if token is not None:
        bad = written & ((token == model.mask_id) | (token < 0) | (token >= model.vocab_size))
        job.alarms.ring(
            bad,
            lambda: DecodingError(
                f"policy {name}: Move.token has {int(token[bad][0])} where it is to be"
                f" written; expected a token id from 0 to {model.vocab_size - 1} other than the"
                f" mask {model.mask_id} (use Move.remask to mask a slot)"
            ),
        )
    confidence = move.confidence
    if confidence is not None:
        odd = written & ~((confidence >= 0) & (confidence <= 1 + ROUNDING))
        job.alarms.ring(
            odd,
            lambda: DecodingError(
                f"policy {name}: Move.confidence has {float(confidence[odd][0]):g} where it is to"
                " be written; expected a probability from 0 to 1"
            ),
        )
    if chooses is None:
        return

    def error(what: str) -> DecodingError:
        return DecodingError(
            f"policy {name} declares chooses = {chooses!r} and {what}; leave the declaration out:"
            " the optimal frontier doesn't bind it"
        )

    if token is not None:
        other = written & (token != step.token)
        job.alarms.ring(other, lambda: error("writes tokens other than the predicted"))
    if move.remask is not None or move.revise is not None:
        job.alarms.check()
        raise error("remasks tokens" if move.remask is not None else "revises tokens")


def check_length_tensor(job: Job, lengths: Any, step: Candidates) -> Tensor:
    """What a rule for blocks returned, as whole numbers.

    Args:
        job: named in the error.
        lengths: what it returned.
        step: what it got.

    Raises:
        DecodingError: unless it is a tensor of whole numbers (R,) on the step's device.
    """
    rows = len(step.masked)
    if (
        not isinstance(lengths, Tensor)
        or tuple(lengths.shape) != (rows,)
        or lengths.dtype not in (torch.int64, torch.int32)
        or lengths.device != step.masked.device
    ):
        raise DecodingError(
            f"sampler {job.name}: its rule for blocks returned {_described(lengths)}; expected an"
            f" int64 tensor of shape ({rows},) on {step.masked.device}, a length for each row of"
            " the step"
        )
    return lengths.long()


def check_lengths(job: Job, lengths: Tensor, left: Tensor, among: Tensor, origin: Tensor) -> None:
    """Rings for a block without a place, or with more than are left.

    Args:
        job: has the alarms.
        lengths: (R,) long, of the next blocks.
        left: (R,) places left.
        among: (R,) bool, the rows that enter one.
        origin: (R,) the requests.
    """
    bad = among & ((lengths < 1) | (lengths > left))

    def error() -> DecodingError:
        row = int(bad.nonzero()[0])
        return DecodingError(
            f"sampler {job.name}: its rule for blocks returned {int(lengths[row])} for"
            f" {job.labels[int(origin[row])]}, which has {int(left[row])} places left; return 1 to"
            f" {int(left[row])}"
        )

    job.alarms.ring(bad, error)


def check_probe(job: Job, probe: Probe, step: Candidates) -> Probe:
    """The probe with rows and tokens that exist, for those that don't would end the process on a
    GPU; rings if it had others.

    Args:
        job: has the alarms.
        probe: of the policy.
        step: what it got.

    Raises:
        DecodingError: for a Probe of a policy that doesn't declare it, or with unusable tensors.
    """
    name = job.name.policy
    needs = job.traits.needs
    if "probe" not in needs:
        raise DecodingError(
            f"policy {name}: select returned a Probe; declare needs = frozenset({{'probe'}})"
        )
    if probe.causal and "causal" not in needs:
        raise DecodingError(
            f"policy {name}: its Probe is causal; declare needs = frozenset({{'probe', 'causal'}})"
        )
    slots = step.masked.shape[1]
    device = step.masked.device
    rows = len(step.masked)
    count = len(probe.row) if isinstance(probe.row, Tensor) and probe.row.dim() == 1 else 0
    for field, kind in (("row", torch.int64), ("write", torch.bool), ("token", torch.int64)):
        value = getattr(probe, field)
        shape = (count,) if field == "row" else (count, slots)
        if not count or not _fits(value, shape, kind, device):
            raise DecodingError(
                f"policy {name}: Probe.{field} is {_described(value)}; expected row (W,) long,"
                f" write (W, {slots}) bool and token (W, {slots}) long on {device} for W what-if"
                " rows, at least one"
            )
    given = probe.row
    job.alarms.ring(
        (given < 0) | (given >= rows),
        lambda: DecodingError(
            f"policy {name}: Probe.row has {given.tolist()}; the step has rows 0 to {rows - 1}"
        ),
    )
    row = given.clamp(0, rows - 1)
    job.alarms.ring(
        probe.write & ~step.inside[row],
        lambda: DecodingError(f"policy {name}: Probe.write marks slots outside of step.inside"),
    )
    token = probe.token
    last = job.model.vocab_size - 1
    wrong = probe.write & ((token < 0) | (token > last))
    job.alarms.ring(
        wrong,
        lambda: DecodingError(
            f"policy {name}: Probe.token has {int(token[wrong][0])} where it is to be written;"
            f" expected a token id from 0 to {last}"
        ),
    )
    return replace(probe, row=row, token=token.clamp(0, last))


def check_taken(job: Job, take: Tensor, step: Step, canvas: Tensor) -> tuple[Answers, Tensor]:
    """What-if rows that a move takes. Rings if a row takes one of another row, or one with tokens
    that don't stand in its canvas.

    Args:
        job: has the alarms.
        take: (R,) what-if rows; −1 for none.
        step: with the answers.
        canvas: (R, L) after the move.

    Returns:
        The step's answers, and `take` as rows of theirs or −1.

    Raises:
        DecodingError: if none were asked about in this step.
    """
    name = job.name.policy
    if step.answers is None:
        raise DecodingError(
            f"policy {name}: Move.take names what-if rows, but none were asked about in this step"
        )
    answers = step.answers
    some = take >= 0  # (R,)
    if answers.causal:
        job.alarms.ring(
            some,
            lambda: DecodingError(
                f"policy {name}: Move.take names a causal what-if row, which can't be a step's"
                " forward"
            ),
        )
    at = take.clamp(0, len(answers.row) - 1)
    own = torch.arange(len(take), device=take.device)
    job.alarms.ring(
        some & ((take > at) | (answers.row[at] != own)),
        lambda: DecodingError(
            f"policy {name}: Move.take is {take.tolist()}; give each row one of its own what-if"
            " rows, by its place in step.answers, or -1"
        ),
    )
    had = answers.canvas[at]  # (R, L)
    job.alarms.ring(
        some[:, None] & (had != step.mask_id) & (had != canvas),
        lambda: DecodingError(
            f"policy {name}: Move.take names a what-if row with tokens that the move doesn't write;"
            " take the row whose tokens it reveals, or -1"
        ),
    )
    return answers, at.where(some, -1)


def _fits(value: Any, shape: tuple[int, ...], kind: torch.dtype, device: torch.device) -> bool:
    """Whether a value is a tensor of that shape, dtype (any floating one for a floating `kind`) and
    device.
    """
    if not isinstance(value, Tensor) or tuple(value.shape) != shape or value.device != device:
        return False
    return value.is_floating_point() if kind.is_floating_point else value.dtype == kind


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return "None" if value is None else f"a {type(value).__name__}"
    return f"a {_short(value.dtype)} tensor of shape {tuple(value.shape)} on {value.device}"


def _short(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")

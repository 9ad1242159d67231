"""Prompts whose decoding no rounding can turn.

A prompt is robust if every margin of its decoding is above a bound, and above three times what it
moves by in bfloat16 and float16; if the decoding stays the same there, and under noise of twice
bfloat16's error on the logits; and if it doesn't depend on whether the probability of the mask
token is left out before confidences are worked out or after.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pbcore.base.errors import InputError
from pbcore.decoding import denoise
from pbcore.decoding.samplers import resolve
from pbcore.extras.check.engine.disturbed import Disturbed
from pbcore.extras.check.engine.margins import FAR, Decisions, Watched
from pbcore.extras.check.engine.setting import setting_of
from pbcore.extras.check.engine.suite import GEN, NEEDED, SamplerChecks
from pbcore.extras.check.engine.varied import Variation, decode_varied
from pbcore.models import load_model
from pbcore.models.base import Generation, Query
from pbcore.names import parse

MARGIN = 0.1  # in logits and log-odds
ERRORS = 4.0  # and so many times bfloat16's error of a logit
SAFETY = 3.0  # times as far as a margin moves in bfloat16 and float16
CHANCE = 0.01  # in probabilities, which some work out in bfloat16
NOISE = 2.0  # times bfloat16's error
DRAWS = 2  # of the noise
AT_ONCE = 256  # candidates drawn together
LOGITS = 2**22  # logits of a place of all rows that are decoded together
SHORT = 512  # prompts of one token
ENOUGH = 4  # times as many; then one prompt for each property is enough
MOST = 24  # then a property without any is left out
ESSENTIAL = ("single", "batch")
LONGEST = 18  # tokens of a prompt
NEAR = 12  # prompts with near ties


@dataclass(frozen=True, slots=True)
class DecodedPrompt:
    """A prompt and its decoding. `answer` ends with its first EOS, `steps` are the steps, from 1,
    at which its tokens were revealed.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    steps: tuple[int, ...]
    forwards: int
    store: int
    prefill: int
    decisions: Decisions


class Models:
    """A checkpoint in three dtypes, in bfloat16 with a second kernel, too, and how large bfloat16's
    error of a logit is.
    """

    def __init__(self, folder: Path, block: int | None) -> None:
        options: dict[str, Any] = {} if block is None else {"block": block}
        kinds = ("float32", "bfloat16", "float16")
        loaded: list[Any] = [load_model(str(folder), "cpu", kind, **options) for kind in kinds]
        low: Any = load_model(
            str(folder), "cpu", "bfloat16", attn_implementation="eager", **options
        )
        self.exact, *self.low = [*loaded, low]
        self.error = self._error()

    @torch.inference_mode()
    def _error(self) -> float:
        """The root mean square of bfloat16's error on the logits of canvases without tokens."""
        exact: Any = self.exact
        prompts = candidates(random.Random(0), ordinary(exact), 32)
        answers = []
        for model in (self.exact, self.low[0]):
            masked: Any = model
            requests = [masked.encode(ids, GEN, row) for row, ids in enumerate(prompts)]
            context = masked.prepare(requests, cache=None, seed=0)
            canvas = torch.tensor([request.canvas for request in requests])
            want = torch.ones_like(canvas, dtype=torch.bool)
            zeros = torch.zeros(len(canvas), dtype=torch.long)
            if masked.block is not None:
                context.store(canvas, zeros, torch.ones(len(canvas), dtype=torch.bool))
                room = [masked.block - masked.grid.lead(len(ids), masked.block) for ids in prompts]
                place = torch.arange(canvas.shape[1])
                want = place < torch.tensor(room)[:, None]
                if masked.shift:
                    want &= place > 0
            query = Query(canvas, want, zeros, block=zeros, blocks=(0,) * len(canvas))
            answers.append(context.logits(query).float())
        one, other = answers
        finite = one.isfinite() & other.isfinite()
        return float((one - other)[finite].pow(2).mean().sqrt())


def ordinary(model: Any) -> list[int]:
    """The ids that prompts are made of: neither masks nor such that end an answer."""
    special = {model.mask_id, *model.stop_ids}
    size = min(model.vocab_size, 100_000)
    return [token for token in range(3, size) if token not in special]


def candidates(
    draw: random.Random, tokens: Sequence[int], count: int, block: int | None = None
) -> list[list[int]]:
    """Random prompts of unequal lengths, many at the borders of blocks.

    Args:
        draw: of lengths and tokens.
        tokens: what prompts are made of.
        count: how many.
        block: the length of a model's own blocks; then half of the prompts are whole blocks, whose
            answers end with one.
    """
    prompts = []
    for _ in range(count):
        length = draw.choice((7, 8, 9, 15, 16, 17, draw.randint(2, LONGEST)))
        if block is not None and draw.random() < 0.5:
            length = block * draw.randint(1, 16 // block)
        prompts.append(draw.choices(tokens, k=length))
    return prompts


def decoded(
    model: Any, prompts: Sequence[Sequence[int]], sampler: str, noise: float = 0.0, seed: int = 0
) -> list[DecodedPrompt]:
    """Prompts decoded by our loop, with the margins of all decisions.

    Args:
        model: a masked model.
        prompts: ids.
        sampler: its name.
        noise: the standard deviation of what is added to the logits.
        seed: of the noise.
    """
    own = resolve(sampler)
    watched = Watched(own)
    disturbed = Disturbed(model, noise, seed)
    requests = [model.encode(list(ids), GEN, row) for row, ids in enumerate(prompts)]
    answers: list[Generation] = []
    at_once = max(1, LOGITS // model.vocab_size)
    for start in range(0, len(requests), at_once):
        answers += denoise(disturbed, requests[start : start + at_once], watched, own.name)
    rows = []
    for number, (ids, answer) in enumerate(zip(prompts, answers, strict=True)):
        decisions = watched.rows.get(number, Decisions())
        decisions.stored = disturbed.stored.get(number, FAR)
        rows.append(_row(tuple(ids), answer, decisions, model))
    return rows


def _row(
    prompt: tuple[int, ...], answer: Generation, decisions: Decisions, model: Any
) -> DecodedPrompt:
    tokens = up_to_eos(answer.token_ids[:GEN], model.stop_ids)
    steps = tuple(step + 1 for step in answer.steps[: len(tokens)])
    store = answer.store or 0
    nfe = answer.nfe or 0
    forwards = nfe if model.grid.along else nfe - store  # that run no forward of their own
    decisions = decisions.until(max(steps))
    return DecodedPrompt(prompt, tokens, steps, forwards, store, answer.prefill or 0, decisions)


def up_to_eos(tokens: Sequence[int], stops: frozenset[int] | Sequence[int]) -> tuple[int, ...]:
    """Tokens up to and with the first one that ends an answer."""
    for place, token in enumerate(tokens):
        if token in stops:
            return tuple(tokens[: place + 1])
    return tuple(tokens)


def same(one: DecodedPrompt, other: DecodedPrompt) -> bool:
    """Whether two rows have the same tokens, revealed at the same steps."""
    return one.answer == other.answer and one.steps == other.steps


def wide(row: DecodedPrompt, error: float) -> bool:
    """Whether a row's margins are above the bounds.

    Args:
        row: with its decisions.
        error: bfloat16's of a logit.
    """
    decisions = row.decisions
    return (
        decisions.smallest > max(MARGIN, ERRORS * error)
        and min(decisions.chance, default=FAR) > CHANCE
        and all(decisions.outside)
    )


def robust(
    models: Models, rows: Sequence[DecodedPrompt], part: SamplerChecks
) -> list[DecodedPrompt]:
    """The rows, all with wide margins, whose decoding no rounding can turn. With blocks of the
    model's own it is also the same whether the last block ends with the answer or with the grid.
    """
    sampler = part.sampler
    kept = list(rows)
    runs: list[tuple[Any, float, int]] = [
        (models.exact, NOISE * models.error, seed) for seed in range(1, DRAWS + 1)
    ]
    runs += [(model, 0.0, 0) for model in models.low]
    for model, noise, seed in runs:
        if not kept:
            return []
        again = decoded(model, [row.prompt for row in kept], sampler, noise, seed)
        pairs = [pair for pair in zip(kept, again, strict=True) if same(*pair)]
        if not noise:
            pairs = [pair for pair in pairs if pair[0].decisions.safety(pair[1].decisions) > SAFETY]
        kept = [row for row, _ in pairs]
    if part.block is None or models.exact.grid.start == "prompt" or not kept:
        return kept
    stops = tuple(models.exact.stop_ids)
    setting = setting_of(sampler, GEN, stops, len(kept), part.block)
    short = decode_varied(
        models.exact, [row.prompt for row in kept], setting, Variation(short=True)
    )
    return [
        row
        for row, canvas in zip(kept, short, strict=True)
        if up_to_eos(canvas, stops) == row.answer
    ]


def kinds_of(row: DecodedPrompt, part: SamplerChecks, model: Any) -> set[str]:
    """The properties that a row serves.

    Args:
        row: with wide margins.
        part: whose blocks it is decoded in.
        model: the checkpoint's.
    """
    if any(row.decisions.masked):
        return {"mask"}
    length = len(row.prompt)
    if length == 1:
        return {"short"}
    block = part.block or parse(part.sampler).block or GEN
    if row.answer[-1] in model.stop_ids:
        place = len(row.answer) - 1
        if place < 2:
            return {"eos-early"}
        lead = 0 if part.block is None else model.grid.lead(length, block)
        return {"eos-border"} if (lead + place + 1) % block == 0 else {"eos-within"}
    border = min(length % block, -length % block) <= 1
    return {"border", "single", "batch"} if border else {"single", "batch"}


def search(
    models: Models, part: SamplerChecks, seed: int
) -> tuple[Mapping[str, list[DecodedPrompt]], list[DecodedPrompt]]:
    """Robust prompts for each property of a part, and prompts with near ties.

    Args:
        models: of the checkpoint.
        part: sampler and properties.
        seed: of the draws.

    Raises:
        InputError: where too few are found.
    """
    model: Any = models.exact
    draw = random.Random(f"{seed} {part.family} {part.name}")
    tokens = ordinary(model)
    needed = {name: NEEDED[name] for name in part.properties if name in NEEDED}
    told = needed.pop("telling", 0)
    found: dict[str, list[DecodedPrompt]] = {name: [] for name in needed}
    near: list[DecodedPrompt] = []

    def lacking(row: DecodedPrompt) -> list[str]:
        kinds = kinds_of(row, part, model)
        return [name for name in needed if name in kinds and len(found[name]) < needed[name]]

    for round_number in range(MOST):
        prompts = candidates(draw, tokens, AT_ONCE, part.block)
        if "short" in needed and round_number == 0:
            prompts += [[token] for token in draw.sample(tokens, min(len(tokens), SHORT))]
        rows = decoded(model, prompts, part.sampler)
        near += [row for row in rows if 0 < row.decisions.smallest < MARGIN / 4][: NEAR - len(near)]
        kept = robust(models, [r for r in rows if wide(r, models.error) and lacking(r)], part)
        masked = [row for row in kept if any(row.decisions.masked)]
        shown = _turned(model, part, masked, Variation(mask="closed"))
        for row in kept:
            names = lacking(row)
            if names and (row in shown or row not in masked):  # the one that lacks most
                most = max(names, key=lambda name: needed[name] - len(found[name]))
                found[most].append(row)
        least = 1 if round_number >= ENOUGH else max(needed.values())
        if all(len(found[name]) >= min(count, least) for name, count in needed.items()):
            break
    if told:
        others = [row for rows in found.values() for row in rows]
        found["telling"] = _telling(models, part, others, told, draw)
    if not all(found[name] for name in ESSENTIAL):
        missing = ", ".join(name for name in ESSENTIAL if not found[name])
        raise InputError(
            f"{part.family}, {part.name}: no robust prompt for {missing}; choose another --seed"
        )
    return found, near


def _telling(
    models: Models,
    part: SamplerChecks,
    others: Sequence[DecodedPrompt],
    count: int,
    draw: random.Random,
) -> list[DecodedPrompt]:
    """Robust prompts that show another ranking, or with the dual cache the prefix one, if fewer
    than two of the other rows do.
    """
    model: Any = models.exact
    name = parse(part.sampler)
    other = Variation(order="confidence" if name.policy == "entropy" else "entropy")
    if name.cache == "dual":
        other = Variation(cache="prefix")
    if len(_turned(model, part, others, other)) > 1:
        return []
    found: list[DecodedPrompt] = []
    for _ in range(MOST):
        drawn = candidates(draw, ordinary(model), AT_ONCE, part.block)
        rows = [row for row in decoded(model, drawn, part.sampler) if wide(row, models.error)]
        plain = [row for row in rows if not any(row.decisions.masked)]
        found += robust(models, _turned(model, part, plain, other), part)
        if len(found) >= count:
            break
    return found[:count]


def _turned(
    model: Any, part: SamplerChecks, rows: Sequence[DecodedPrompt], other: Variation
) -> list[DecodedPrompt]:
    """The rows that have another answer with a variation."""
    if not rows:
        return []
    stops = tuple(model.stop_ids)
    setting = setting_of(part.sampler, GEN, stops, len(rows), part.block)
    canvases = decode_varied(model, [row.prompt for row in rows], setting, other)
    return [
        row
        for row, canvas in zip(rows, canvases, strict=True)
        if up_to_eos(canvas, stops) != row.answer
    ]

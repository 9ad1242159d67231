"""Training rows: samples of the train split as token ids, in batches of like length, decided by seed and step alone."""

from __future__ import annotations

from ast import literal_eval
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from random import Random

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from pbcore.tasks.base import Sample
from pbcore.tasks.registry import generate
from pbcore.train.markers import ASSISTANT, USER

BATCHES_PER_CHUNK = 64  # batches drawn together, so that their rows can be sorted by length
PADDING_WEIGHT = 0.1  # loss weight of the EOS tokens after the first one
SLACK = 4  # the most EOS tokens of a shortened canvas


@dataclass(frozen=True, slots=True)
class Row:
    """A sample as ids: the prompt as the chat template writes it, and the canvas as it should become."""

    task: str
    prompt: tuple[int, ...]
    canvas: tuple[int, ...]
    answer: int  # tokens before the first EOS
    shot: tuple[int, int] = (0, 0)  # where in the prompt the answer of the example stands

    def __len__(self) -> int:
        return len(self.prompt) + len(self.canvas)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows padded on the left: R rows of T tokens, of which the masked ones are to be told."""

    ids: Tensor  # (R, T) long, with masks
    attend: Tensor  # (R, T) bool, false at padding
    masked: Tensor  # (R, T) bool
    targets: Tensor  # (M,) long: the tokens behind the masks, in row-major order
    weights: Tensor  # (M,) float
    tasks: tuple[str, ...]  # of each row


@dataclass(frozen=True, slots=True)
class Draw:
    """What batches are made of: tasks with their shares, rows per batch, and two shares of rows.

    `full_canvas` is the share with the whole canvas; the others have an answer and a few EOS tokens only, which costs less and
    teaches the same answers. `masked_shots` is the share where the example in the prompt is masked as well: a second answer to learn
    from in the same row.
    """

    tasks: Mapping[str, float]
    rows: int
    full_canvas: float
    masked_shots: float
    seed: int


class Batches:
    """Batch number i of a draw, the same whenever it is asked for."""

    def __init__(self, draw: Draw, tokenizer: PreTrainedTokenizerFast) -> None:
        self._draw = draw
        self._tokenizer = tokenizer
        self._chunk = lru_cache(maxsize=1)(self._make_chunk)

    def __getitem__(self, number: int) -> Batch:
        rows = self._chunk(number // BATCHES_PER_CHUNK)[number % BATCHES_PER_CHUNK]
        rng = torch.Generator().manual_seed(self._draw.seed * 1_000_003 + number)
        mask_id, eos_id = int(self._tokenizer.mask_token_id), int(self._tokenizer.eos_token_id)
        return masked_batch(rows, rng, mask_id, eos_id, self._draw.masked_shots)

    def _make_chunk(self, chunk: int) -> list[list[Row]]:
        draw = self._draw
        rng = Random(f"{draw.seed}/{chunk}")
        chosen = Counter(rng.choices(list(draw.tasks), list(draw.tasks.values()), k=BATCHES_PER_CHUNK * draw.rows))
        rows: list[Row] = []
        for name in draw.tasks:
            samples = list(islice(generate(name, "train", seed=draw.seed * 1_000_003 + chunk), chosen[name]))
            rows += encoded(samples, self._tokenizer, rng, draw.full_canvas)
        rng.shuffle(rows)
        rows.sort(key=len)
        batches = [rows[start : start + draw.rows] for start in range(0, len(rows), draw.rows)]
        rng.shuffle(batches)
        return batches


def encoded(
    samples: Sequence[Sample], tokenizer: PreTrainedTokenizerFast, rng: Random, full_canvas: float
) -> list[Row]:
    """Samples as rows. Raises ValueError for a sample without an answer, or one longer than its canvas."""
    rows = []
    for sample in samples:
        chat = str(tokenizer.apply_chat_template(list(sample.messages), tokenize=False, add_generation_prompt=True))
        prompt, answer = ids_of(chat, tokenizer), ids_of(rng.choice(answers(sample)), tokenizer)
        room = sample.max_new_tokens
        if len(answer) > room:
            raise ValueError(f"{sample.task}: an answer of {len(answer)} tokens does not fit {room}: {sample.answer!r}")
        if rng.random() >= full_canvas:
            room = min(room, len(answer) + rng.randint(1, SLACK))
        padding = [int(tokenizer.eos_token_id)] * (room - len(answer))
        rows.append(Row(sample.task, tuple(prompt), (*answer, *padding), len(answer), example_span(prompt, tokenizer)))
    return rows


def ids_of(text: str, tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """The ids of a text's tokens, markers included, nothing added."""
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def example_span(prompt: Sequence[int], tokenizer: PreTrainedTokenizerFast) -> tuple[int, int]:
    """Start and end of the first assistant turn in a prompt, (0, 0) where there is none before the answer's own."""
    ids = tokenizer.get_vocab()
    user, assistant = ids[USER], ids[ASSISTANT]
    if prompt.count(assistant) < 2:
        return 0, 0
    start = prompt.index(assistant) + 1
    return start, prompt.index(user, start)


def answers(sample: Sample) -> list[str]:
    """The correct answers that a label shows. Raises ValueError for a sample that has none."""
    if sample.answer is not None:
        return [sample.answer]
    examples = sample.label.get("examples")  # of a paraphrase: a printed list, as in the official rows
    if not examples:
        raise ValueError(f"{sample.task}: the label has no answer to learn; it has {sorted(sample.label)}")
    return list(literal_eval(examples) if isinstance(examples, str) else examples)


def masked_batch(
    rows: Sequence[Row], rng: torch.Generator, mask_id: int, eos_id: int, masked_shots: float = 0.0
) -> Batch:
    """Absorbing noise: each row draws t ~ U(0, 1), each token of its answer becomes a mask with probability t.

    The EOS tail draws its own t in every second row: decoding settles it early or late as a whole. An example in the prompt has
    its own t in a share `masked_shots` of rows. Every row keeps at least one masked answer token.
    """
    length, count = max(map(len, rows)), len(rows)
    ids = torch.full((count, length), eos_id)  # (R, T)
    for number, row in enumerate(rows):
        ids[number, length - len(row) :] = torch.tensor([*row.prompt, *row.canvas])
    place = torch.arange(length)[None].expand(count, -1)  # (R, T)
    first, start = (
        _column(length - len(row) for row in rows),
        _column(length - len(row.canvas) for row in rows),
    )  # (R, 1)
    end = start + _column(row.answer for row in rows)  # (R, 1)
    shot_start, shot_end = (
        first + _column(row.shot[0] for row in rows),
        first + _column(row.shot[1] for row in rows),
    )  # (R, 1)
    answer, tail = (place >= start) & (place < end), place >= end  # (R, T)
    shot = (place >= shot_start) & (place < shot_end)  # (R, T)
    draws = torch.rand(
        5, count, 1, generator=rng
    )  # t, the tail's t, whether it is used, the example's t, whether it is used
    noise = torch.rand(count, length, generator=rng)  # (R, T)
    masked = answer & (noise < draws[0])
    masked |= tail & (noise < torch.where(draws[2] < 0.5, draws[0], draws[1]))
    masked |= shot & (noise < draws[3]) & (draws[4] < masked_shots)
    masked.scatter_(1, noise.masked_fill(~answer, 2.0).argmin(1, keepdim=True), True)
    weights = torch.where(place > end, PADDING_WEIGHT, 1.0)  # (R, T)
    return Batch(
        ids.masked_fill(masked, mask_id),
        place >= first,
        masked,
        ids[masked],
        weights[masked],
        tuple(row.task for row in rows),
    )


def _column(values: Iterable[int]) -> Tensor:
    return torch.tensor(list(values))[:, None]

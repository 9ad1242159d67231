"""Training rows: samples of the train split as token ids, in batches of similar length, by seed and
step alone.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from random import Random
from typing import cast

import torch
from transformers import PreTrainedTokenizerFast

from pbcore.base.errors import InputError
from pbcore.extras.train.noise import (
    TrainingBatch,
    TrainingRow,
    Words,
    block_batch,
    causal_batch,
    masked_batch,
    noisy_batch,
)
from pbcore.extras.train.recipe import Recipe
from pbcore.extras.train.sedd.diffusion import Graph, Noise
from pbcore.extras.train.vocabulary import ASSISTANT, USER, answers
from pbcore.models.tokenizer import canvas_ids
from pbcore.tasks.base import Sample
from pbcore.tasks.registry import generate

BATCHES_PER_CHUNK = 64  # batches drawn together, so that their rows can be sorted by length
SLACK = 4  # at most this many EOS tokens in a shortened canvas


class Batches:
    """Batches of a recipe's phase by number; a number always gives the same batch. `noise` is that
    of a SEDD model.
    """

    def __init__(
        self,
        recipe: Recipe,
        phase: int,
        tokenizer: PreTrainedTokenizerFast,
        noise: tuple[Graph, Noise] | None = None,
    ) -> None:
        self._phase = recipe.phases[phase]
        self._seed = recipe.seed + phase
        self._causal = recipe.causal
        self._block = recipe.block
        self._shares = self._phase.tasks(recipe.tasks)
        self._tokenizer, self._words, self._noise = tokenizer, Words.of(tokenizer), noise
        self._chunk = lru_cache(maxsize=1)(self._make_chunk)

    def __getitem__(self, number: int) -> TrainingBatch:
        phase = self._phase
        rows = self._chunk(number // BATCHES_PER_CHUNK)[number % BATCHES_PER_CHUNK]
        rng = torch.Generator().manual_seed(self._seed * 1_000_003 + number)
        if self._noise is not None:
            return noisy_batch(rows, self._words.eos_id, *self._noise, rng)
        if self._causal:
            return causal_batch(rows, self._words, rng, phase.masked_shots)
        if self._block is not None:
            return block_batch(
                rows,
                self._words,
                rng,
                self._block,
                phase.masked_shots,
                phase.pairs,
                phase.power,
            )
        return masked_batch(rows, self._words, rng, phase.masked_shots, phase.pairs, phase.power)

    def _make_chunk(self, chunk: int) -> list[list[TrainingRow]]:
        phase = self._phase
        rng = Random(f"{self._seed}/{chunk}")
        names = list(self._shares)
        shares = list(self._shares.values())
        chosen = Counter(rng.choices(names, shares, k=BATCHES_PER_CHUNK * phase.rows))
        rows: list[TrainingRow] = []
        for name in names:
            stream = generate(
                name,
                "train",
                seed=self._seed * 1_000_003 + chunk,
                n=(phase.lengths or {}).get(name),
            )
            rows += encode_rows(
                list(islice(stream, chosen[name])),
                self._tokenizer,
                rng,
                phase.full_canvas,
                self._block,
            )
        rng.shuffle(rows)
        rows.sort(key=len)
        batches = [rows[start : start + phase.rows] for start in range(0, len(rows), phase.rows)]
        rng.shuffle(batches)
        return batches


def encode_rows(
    samples: Sequence[Sample],
    tokenizer: PreTrainedTokenizerFast,
    rng: Random,
    full_canvas: float,
    block: int | None = None,
) -> list[TrainingRow]:
    """Samples as rows, with the solved example in their prompts.

    Args:
        tokenizer: the model's.
        rng: chooses among right answers.
        full_canvas: the share of rows whose canvas EOS fills.
        block: the block length of a block-causal model.

    Raises:
        InputError: as `training_row`.
    """

    def piece(text: str) -> list[int]:
        return cast(list[int], tokenizer(text, add_special_tokens=False)["input_ids"])

    rows = []
    for sample in samples:
        chat = str(
            tokenizer.apply_chat_template(
                list(sample.messages), tokenize=False, add_generation_prompt=True
            )
        )
        prompt = piece(chat)
        ids = tokenizer.get_vocab()
        shot = 0, 0  # start and end of the example's assistant turn, in prompts that have one
        if prompt.count(ids[ASSISTANT]) > 1:
            start = prompt.index(ids[ASSISTANT]) + 1
            shot = start, prompt.index(ids[USER], start)
        eos_id = int(tokenizer.eos_token_id)
        rows.append(training_row(sample, prompt, piece, eos_id, rng, full_canvas, shot, block))
    return rows


def training_row(
    sample: Sample,
    prompt: Sequence[int],
    piece: Callable[[str], list[int]],
    eos_id: int,
    rng: Random,
    full_canvas: float = 1.0,
    shot: tuple[int, int] = (0, 0),
    block: int | None = None,
) -> TrainingRow:
    """A sample with one of its right answers.

    Args:
        prompt: its prompt's ids.
        piece: gives the ids of a text.
        rng: chooses among right answers.
        full_canvas: the share of rows in which EOS fills the canvas behind the answer; in the
            others there are a few. Infilling has the answer's own canvas.
        shot: start and end of the example's answer in the prompt.
        block: with a block length a shortened canvas ends where a block does, as in decoding.

    Raises:
        InputError: for a sample without an answer, or with one that doesn't fit its canvas.
    """
    answer = piece(rng.choice(answers(sample)))
    room = sample.max_new_tokens
    if sample.canvas is not None:
        given = canvas_ids(sample.canvas, piece, None)
        if len(given) != len(answer) or any(
            one not in (None, two) for one, two in zip(given, answer, strict=True)
        ):
            raise InputError(
                f"{sample.task}: the answer {sample.answer!r} does not fit the canvas"
                f" {sample.canvas!r}"
            )
        holes = tuple(one is None for one in given)
        return TrainingRow(sample.task, tuple(prompt), tuple(answer), len(answer), holes=holes)
    if len(answer) > room:
        size = f"an answer of {len(answer)} tokens does not fit the canvas of {room}"
        raise InputError(f"{sample.task}: {size}: {sample.answer!r}")
    if rng.random() >= full_canvas:
        shortened = len(answer) + rng.randint(1, SLACK)
        if block is not None:
            shortened += -(len(prompt) + shortened) % block
        room = min(room, shortened)
    return TrainingRow(
        sample.task, tuple(prompt), (*answer, *[eos_id] * (room - len(answer))), len(answer), shot
    )

"""Training rows: samples of the train split as token ids, in batches of similar length, determined by seed and step
alone.
"""

from ast import literal_eval
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from random import Random

import torch
from transformers import PreTrainedTokenizerFast

from pbcore.models.sedd.diffusion import Graph, Noise
from pbcore.models.tokenizer import canvas_ids
from pbcore.tasks.base import Sample
from pbcore.tasks.registry import generate
from pbcore.train.markers import ASSISTANT, USER
from pbcore.train.noise import Batch, Row, Words, causal_batch, masked_batch
from pbcore.train.sedd import NoisyBatch, noisy_batch

BATCHES_PER_CHUNK = 64  # batches drawn together, so that their rows can be sorted by length
SLACK = 4  # at most this many EOS tokens in a shortened canvas


@dataclass(frozen=True, slots=True)
class Draw:
    """The composition of batches: tasks with their shares, rows per batch, and three shares of rows.

    `full_canvas` is the share with the whole canvas; the others have the answer and a few EOS tokens only, which costs
    less and teaches the same answers. `masked_shots` is the share in which the example in the prompt is masked too: a
    second answer to learn from in the same row. `pairs` is the share masked by pairs of words; `power` as in
    `noise.masked_batch`. `lengths` overrides the values of n of some tasks. With `causal` the batches are those of
    `noise.causal_batch`, and with `noisy` those of `sedd.noisy_batch`; `pairs` and `power` say nothing there.
    """

    tasks: Mapping[str, float]
    rows: int
    full_canvas: float
    masked_shots: float
    seed: int
    pairs: float = 0.0
    power: float = 1.0
    lengths: Mapping[str, Sequence[int]] | None = None
    causal: bool = False
    noisy: tuple[Graph, Noise] | None = None


class Batches:
    """Batches of a draw by number; a number always gives the same batch."""

    def __init__(self, draw: Draw, tokenizer: PreTrainedTokenizerFast) -> None:
        self._draw = draw
        self._tokenizer = tokenizer
        self._words = Words.of(tokenizer)
        self._chunk = lru_cache(maxsize=1)(self._make_chunk)

    def __getitem__(self, number: int) -> Batch | NoisyBatch:
        rows = self._chunk(number // BATCHES_PER_CHUNK)[number % BATCHES_PER_CHUNK]
        rng = torch.Generator().manual_seed(self._draw.seed * 1_000_003 + number)
        if self._draw.noisy is not None:
            return noisy_batch(rows, self._words.eos_id, *self._draw.noisy, rng)
        if self._draw.causal:
            return causal_batch(rows, self._words, rng, self._draw.masked_shots)
        return masked_batch(rows, self._words, rng, self._draw.masked_shots, self._draw.pairs, self._draw.power)

    def _make_chunk(self, chunk: int) -> list[list[Row]]:
        draw = self._draw
        rng = Random(f"{draw.seed}/{chunk}")
        chosen = Counter(rng.choices(list(draw.tasks), list(draw.tasks.values()), k=BATCHES_PER_CHUNK * draw.rows))
        rows: list[Row] = []
        for name in draw.tasks:
            samples = list(islice(_stream(draw, name, chunk), chosen[name]))
            rows += encoded(samples, self._tokenizer, rng, draw.full_canvas)
        rng.shuffle(rows)
        rows.sort(key=len)
        batches = [rows[start : start + draw.rows] for start in range(0, len(rows), draw.rows)]
        rng.shuffle(batches)
        return batches


def _stream(draw: Draw, name: str, chunk: int) -> Iterator[Sample]:
    return generate(name, "train", seed=draw.seed * 1_000_003 + chunk, n=(draw.lengths or {}).get(name))


def encoded(
    samples: Sequence[Sample], tokenizer: PreTrainedTokenizerFast, rng: Random, full_canvas: float
) -> list[Row]:
    """Samples as rows; infilling has the answer's own canvas.

    Raises ValueError for a sample without an answer, or with an answer that doesn't fit its canvas.
    """
    rows = []
    for sample in samples:
        chat = str(tokenizer.apply_chat_template(list(sample.messages), tokenize=False, add_generation_prompt=True))
        prompt, answer = ids_of(chat, tokenizer), ids_of(rng.choice(answers(sample)), tokenizer)
        if sample.canvas is not None:
            holes = _holes(sample, answer, tokenizer)
            rows.append(Row(sample.task, tuple(prompt), tuple(answer), len(answer), holes=holes))
            continue
        room = sample.max_new_tokens
        if len(answer) > room:
            raise ValueError(
                f"{sample.task}: an answer of {len(answer)} tokens does not fit the canvas of {room}: {sample.answer!r}"
            )
        if rng.random() >= full_canvas:
            room = min(room, len(answer) + rng.randint(1, SLACK))
        padding = [int(tokenizer.eos_token_id)] * (room - len(answer))
        rows.append(Row(sample.task, tuple(prompt), (*answer, *padding), len(answer), example_span(prompt, tokenizer)))
    return rows


def _holes(sample: Sample, answer: Sequence[int], tokenizer: PreTrainedTokenizerFast) -> tuple[bool, ...]:
    """Which tokens of an answer its canvas leaves open. Raises ValueError if the two don't go together."""
    given = canvas_ids(str(sample.canvas), lambda text: ids_of(text, tokenizer), None)
    if len(given) != len(answer) or any(one not in (None, two) for one, two in zip(given, answer, strict=True)):
        raise ValueError(f"{sample.task}: the answer {sample.answer!r} does not fit the canvas {sample.canvas!r}")
    return tuple(one is None for one in given)


def ids_of(text: str, tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """The ids of a text's tokens, markers included, without added special tokens."""
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def example_span(prompt: Sequence[int], tokenizer: PreTrainedTokenizerFast) -> tuple[int, int]:
    """Start and end of the example's assistant turn in a prompt; (0, 0) for prompts without an example."""
    ids = tokenizer.get_vocab()
    user, assistant = ids[USER], ids[ASSISTANT]
    if prompt.count(assistant) < 2:
        return 0, 0
    start = prompt.index(assistant) + 1
    return start, prompt.index(user, start)


def answers(sample: Sample) -> list[str]:
    """The correct answers in a sample's label. Raises ValueError if it has none."""
    if sample.answer is not None:
        return [sample.answer]
    examples = sample.label.get("examples")  # of a paraphrase: a printed list, as in the official rows
    if not examples:
        raise ValueError(f"{sample.task}: the label has no answer to learn; it has {sorted(sample.label)}")
    return list(literal_eval(examples) if isinstance(examples, str) else examples)

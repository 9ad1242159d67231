"""Training targets of a batch: the tokens that noise masks, or every next token of the answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerFast

from pbcore.extras.train.sedd.diffusion import EARLIEST, Graph, Noise

PADDING_WEIGHT = 0.1  # loss weight of the EOS tokens after the first one
STRUCTURE_SHOWN = 0.75  # among rows masked by pairs: the share whose punctuation stays visible


# What a position of a batch holds; from GIVEN on it is the canvas, from ANSWER on it is decoded.
PAD, PROMPT, SHOT, GIVEN, ANSWER, EOS, TAIL = range(7)
WEIGHTS = torch.tensor([1.0] * TAIL + [PADDING_WEIGHT])  # in the loss


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A sample as ids: the prompt formatted by the chat template, and the target canvas, whose
    `holes` mark the tokens that are decoded where others are given (infilling; None: all are).
    """

    task: str
    prompt: tuple[int, ...]
    canvas: tuple[int, ...]
    answer: int  # tokens before the first EOS
    shot: tuple[int, int] = (0, 0)  # start and end of the example's answer in the prompt
    holes: tuple[bool, ...] | None = None

    def __len__(self) -> int:
        return len(self.prompt) + len(self.canvas)

    def kinds(self) -> list[int]:
        """What each token is: of the prompt, of its example's answer, given, of the answer, the
        first EOS, or later.
        """
        start, end = self.shot
        prompt = [PROMPT] * len(self.prompt)
        prompt[start:end] = [SHOT] * (end - start)
        holes = (True,) * self.answer if self.holes is None else self.holes
        canvas = [ANSWER if hole else GIVEN for hole in holes]
        canvas += [EOS] + [TAIL] * len(self.canvas)
        return prompt + canvas[: len(self.canvas)]


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """R rows of T tokens; `targets` are to be predicted at the M positions `masked`, in row-major
    order.
    """

    ids: Tensor  # (R, T) long, with noise; complete for next-token prediction
    attend: Tensor  # (R, T) bool, false at padding
    masked: Tensor  # (R, T) bool; for next-token prediction the positions before the targets
    targets: Tensor  # (M,) long: the tokens without noise, or the next ones
    weights: Tensor  # (M,) float
    tasks: tuple[str, ...]  # of each row
    time: Tensor | None = None  # (R,) float, the noise's, for models that are told it

    def inputs(self, device: torch.device) -> list[Tensor]:
        """What a loss is computed from, on a device."""
        parts = (self.ids, self.attend, self.masked, self.targets, self.time)
        return [part.to(device) for part in parts if part is not None]

    def by_row(self, values: Tensor) -> Tensor:
        """The sums (R,) of the targets' values (M,) over each row."""
        return torch.zeros(len(self.ids)).index_add_(0, self.masked.nonzero()[:, 0], values)

    def shares(self, balance: float) -> Tensor:
        """The share (M,) of each target in the loss, 1 in all. A row counts in proportion to the
        sum of its weights to the power of 1 − `balance`.
        """
        sums = self.by_row(self.weights)
        shares = self.weights * sums[self.masked.nonzero()[:, 0]] ** -balance
        return shares / shares.sum()


@dataclass(frozen=True, slots=True)
class Words:
    """The vocabulary's properties that noise needs: which tokens are punctuation, which continue a
    phrase (start with a blank).
    """

    mask_id: int
    eos_id: int
    punctuation: Tensor  # (V,) bool
    continues: Tensor  # (V,) bool

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Words:
        tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        return cls(
            int(tokenizer.mask_token_id),
            int(tokenizer.eos_token_id),
            torch.tensor([not re.search(r"\w", token) for token in tokens]),
            torch.tensor([bool(re.match(r" \w", token)) for token in tokens]),
        )


def masked_batch(
    rows: Sequence[TrainingRow],
    words: Words,
    rng: torch.Generator,
    masked_shots: float = 0.0,
    pairs: float = 0.0,
    power: float = 1.0,
) -> TrainingBatch:
    """Rows with absorbing noise.

    Each row draws t ~ U(0, 1), and each token of its answer, or each hole of it, is masked with
    probability t; at least one is. The EOS tail draws its own t in half of the rows, since decoding
    reveals it as a whole, early or late.

    Args:
        rows: the samples.
        words: which tokens are words.
        rng: the source of random numbers.
        masked_shots: the share of rows in which the example in the prompt is masked with its own t.
        pairs: the share of rows in which two adjacent words are masked together or not at all, and
            punctuation mostly stays visible. Such states occur in decoding, and in them one half of
            a name doesn't reveal the other.
        power: rows with pairs have t ~ U(0, 1)^power; above 1 it favours the last steps of
            decoding, where items must not be repeated.
    """
    ids, kinds, tasks = padded(rows, words.eos_id, "left")
    answer, tail, shot = kinds == ANSWER, kinds >= EOS, kinds == SHOT  # (R, T)
    # t, the tail's t, whether it is used, the example's t, whether it is used
    draws = torch.rand(5, len(rows), 1, generator=rng)
    noise = torch.rand(ids.shape, generator=rng)  # (R, T)
    if pairs > 0:
        noise = _paired(noise, ids, words, answer | shot, pairs, power, rng)
    masked = answer & (noise < draws[0])
    masked |= tail & (noise < torch.where(draws[2] < 0.5, draws[0], draws[1]))
    masked |= shot & (noise < draws[3]) & (draws[4] < masked_shots)
    lowest = noise.masked_fill(~answer, 2.0)  # (R, T)
    masked |= answer & (lowest == lowest.amin(1, keepdim=True))
    noisy = ids.masked_fill(masked, words.mask_id)
    return TrainingBatch(noisy, kinds > PAD, masked, ids[masked], WEIGHTS[kinds[masked]], tasks)


def block_batch(
    rows: Sequence[TrainingRow],
    words: Words,
    rng: torch.Generator,
    block: int,
    masked_shots: float = 0.0,
    pairs: float = 0.0,
    power: float = 1.0,
) -> TrainingBatch:
    """Rows with absorbing noise of each block's own amount, for a loss that shows every block the
    clean blocks before it (block diffusion, arXiv 2503.09573).

    Each block of a row draws t ~ U(0, 1), and each token of the answer and of the EOS after it is
    masked with its block's t; at least one in each block that has any. Blocks are counted from the
    row's first token.

    Args:
        rows: the samples.
        words: which tokens are words.
        rng: the source of random numbers.
        block: the block length B.
        masked_shots: the share of rows in which the example in the prompt is masked, too.
        pairs: as in `masked_batch`.
        power: as in `masked_batch`.
    """
    ids, kinds, tasks = padded(rows, words.eos_id, "left")
    place = ((kinds > PAD).long().cumsum(1) - 1).clamp(min=0)  # (R, T)
    number = place // block  # (R, T): of each token's block
    count = int(number.max()) + 1
    example = torch.rand(len(rows), 1, generator=rng) < masked_shots  # (R, 1)
    where = (kinds >= ANSWER) | (kinds == SHOT) & example  # (R, T)
    amount = torch.rand(len(rows), count, generator=rng).gather(1, number)  # (R, T)
    noise = torch.rand(ids.shape, generator=rng)  # (R, T)
    if pairs > 0:
        noise = _paired(noise, ids, words, where, pairs, power, rng)
    least = torch.full((len(rows), count), 2.0)
    least = least.scatter_reduce(1, number, noise.masked_fill(~where, 2.0), "amin")  # (R, count)
    masked = where & ((noise < amount) | (noise == least.gather(1, number)))
    noisy = ids.masked_fill(masked, words.mask_id)
    return TrainingBatch(noisy, kinds > PAD, masked, ids[masked], WEIGHTS[kinds[masked]], tasks)


def causal_batch(
    rows: Sequence[TrainingRow], words: Words, rng: torch.Generator, masked_shots: float = 0.0
) -> TrainingBatch:
    """Rows for next-token prediction of answers and their first EOS.

    Args:
        rows: the samples.
        words: which tokens are words.
        rng: the source of random numbers.
        masked_shots: the share of rows in which the prompt's example is predicted, too.
    """
    ended = [replace(row, canvas=row.canvas[: row.answer + 1]) for row in rows]
    ids, kinds, tasks = padded(ended, words.eos_id, "left")
    shown = torch.rand(len(rows), 1, generator=rng) < masked_shots  # (R, 1)
    target = (kinds >= GIVEN) | (kinds == SHOT) & shown  # (R, T)
    masked = torch.cat(
        [target[:, 1:], target.new_zeros(len(rows), 1)], dim=1
    )  # (R, T): one position earlier
    return TrainingBatch(
        ids, kinds > PAD, masked, ids[target], torch.ones(int(target.sum())), tasks
    )


def noisy_batch(
    rows: Sequence[TrainingRow], eos_id: int, graph: Graph, noise: Noise, rng: torch.Generator
) -> TrainingBatch:
    """Rows padded on the right, with noise σ(t).

    Each row draws t ~ U(0, 1), evenly spread over the batch. The loss is taken at answers, where
    EOS tokens after the first one weigh less; with the absorbing graph only at masks, of which
    every row has at least one.

    Args:
        rows: the samples.
        graph: how noise changes tokens.
        noise: σ over t.
        rng: the source of random numbers.
    """
    clean, kinds, tasks = padded(rows, eos_id, "right")
    count, answer = len(rows), kinds >= ANSWER  # (R, T)
    time = (torch.rand(1, generator=rng) + torch.randperm(count, generator=rng) / count) % 1  # (R,)
    time = time.clamp(min=EARLIEST)
    kept = torch.tensor([-noise.total(float(t)) for t in time]).exp()[:, None]  # (R, 1)
    draws = torch.rand(clean.shape, generator=rng)
    hit = answer & (draws > kept)
    hit |= answer & (draws == draws.masked_fill(~answer, -1.0).amax(1, keepdim=True))
    if graph.mask_id is None:
        ids = torch.where(hit, torch.randint(graph.columns, clean.shape, generator=rng), clean)
    else:
        ids = clean.masked_fill(hit, graph.mask_id)
    judged = answer & graph.open(ids)
    return TrainingBatch(
        ids, kinds > PAD, judged, clean[judged], WEIGHTS[kinds[judged]], tasks, time
    )


def padded(
    rows: Sequence[TrainingRow], padding: int, side: str
) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """The rows as tensors of one width.

    Args:
        rows: the samples.
        padding: the id of padding.
        side: `left` or `right`.

    Returns:
        Tokens (R, T), what each of them is (R, T), and the rows' tasks.
    """
    ids = pad_sequence(
        [torch.tensor([*row.prompt, *row.canvas]) for row in rows], True, padding, side
    )
    kinds = pad_sequence([torch.tensor(row.kinds()) for row in rows], True, PAD, side)
    return ids, kinds, tuple(row.task for row in rows)


def _paired(
    noise: Tensor,
    ids: Tensor,
    words: Words,
    where: Tensor,
    share: float,
    power: float,
    rng: torch.Generator,
) -> Tensor:
    """Noise (R, T) that in a share of rows is equal for both words of a pair and above every t for
    punctuation. It is raised to 1/power there, since u^(1/power) < t is the same as u < t^power.
    """
    place = torch.arange(ids.shape[1])[None].expand_as(ids)  # (R, T)
    continues = words.continues[ids] & where  # (R, T)
    phrase = torch.where(continues, 0, place).cummax(1).values  # (R, T): the start of the phrase
    leader = place - (place - phrase) % 2  # (R, T): the first word of each pair
    draws = torch.rand(2, len(ids), 1, generator=rng)
    shown = words.punctuation[ids] & where & (draws[1] < STRUCTURE_SHOWN)  # (R, T)
    paired = (noise.gather(1, leader) ** (1 / power)).masked_fill(shown, 1.5)
    return torch.where(draws[0] < share, paired, noise)

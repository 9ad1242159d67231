"""The ideal model: exact conditional marginals of the valid answers, with the zero-mean noise of
the paper's analysis.

It knows each sample's valid answers and treats them as equally likely, so all its errors come from
parallel decoding. It reads the sample, not the prompt; its tokens are words (`pbcore.tasks.words`).
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pbcore.models.base import Attention, Prompt, Query, Ranks, Request
from pbcore.models.counter_rng import high_bits, mixed
from pbcore.models.device import find_device
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.grid import DEFAULT_GRID
from pbcore.models.info import ModelInfo
from pbcore.models.tokenizer import end_of
from pbcore.tasks.base import Sample
from pbcore.tasks.lists import MASK, people
from pbcore.tasks.words import tokens
from pbcore.theory.canvas import EOS, MASKED, AnswerDistribution, canvas_tokens
from pbcore.theory.distributions import answer_distribution
from pbcore.theory.lost import mutual_information

NOISE = 1e-6


class IdealInfo(ModelInfo, total=False):
    """With the size of the noise in the logits."""

    noise: float


class Ideal:
    """A Denoiser whose logits are exact conditional log-marginals plus noise, drawn uniformly from
    (−noise, noise).

    The noise breaks ties at random. It depends on seed, row, forward, position and token alone, so
    neither batch nor order matters. Probabilities whose relative difference is below `noise` count
    as tied: among all tasks only in shuffles of more than 9 people, because of the excluded order.
    Logits are float64; impossible tokens have −inf. The vocabulary holds characters and the people
    of the package's own data, then other words as samples contain them.
    """

    name = "ideal"
    mask_id = 0
    eos_id = 1
    caches: frozenset[str] = frozenset()
    reviews = frozenset({"hidden"})  # exact: the marginal given all other tokens
    stop_ids = frozenset({eos_id})
    deterministic = False  # the noise is drawn anew at each forward
    batch_size: int | None = (
        64  # its forwards are a little arithmetic; larger batches spread what the loop costs
    )
    block = None
    frequencies: Tensor | None = None
    ranks: Ranks = "raw"
    attention = False
    grid = DEFAULT_GRID
    counts_mask = False

    def __init__(self, device: str | torch.device = "cpu", noise: float = NOISE) -> None:
        if not 0 <= noise < 1e-2:
            raise ModelError(
                "ideal: noise is the size of the tie-breaking noise in the logits, from 0 to below"
                f" 0.01, not {noise}"
            )
        self.device = torch.device(device)
        self.noise = noise
        self.info: IdealInfo = {
            "source": "pbcore",
            "revision": None,
            "family": "ideal",
            "embedded": True,
            "dummy": False,
            "parameters": 0,
            "dtype": "float64",
            "noise": noise,
        }
        # Distributions made in `encode` and used in `prepare`; the sample is kept so that its id()
        # isn't reused.
        self._built: dict[tuple[int, int], tuple[Sample, AnswerDistribution]] = {}
        names = sorted({token for person in people() for token in tokens(person)})
        self._ids: dict[str, int] = {}  # the vocabulary
        self._add([MASK, EOS, '["', '", "', '"]', " a", *sorted(string.printable), *names])

    @property
    def vocab_size(self) -> int:
        return len(self._ids)

    @property
    def delimiter_ids(self) -> frozenset[int]:
        """The line break is a token of its own."""
        return frozenset({self._ids["\n"]})

    def _add(self, words: Sequence[str]) -> None:
        for word in words:
            self._ids.setdefault(word, len(self._ids))

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """The canvas of a Sample: its own (infilling), else masks.

        Args:
            prompt: a Sample.
            max_new_tokens: the number of masks; None: the Sample's length.
            key: tells rows' random numbers apart.

        Raises:
            ModelError: for prompts that are not Samples and for tasks whose answers can't be listed
                or
                counted.
        """
        if not isinstance(prompt, Sample):
            raise ModelError(
                "ideal takes Samples only, since it needs their valid answers; give those of "
                f"pbcore.load_task(name).samples, not {type(prompt).__name__}"
            )
        if max_new_tokens is not None and (
            not isinstance(max_new_tokens, int) or max_new_tokens < 1
        ):
            raise ModelError(
                "ideal: max_new_tokens must be a whole number of at least 1, got"
                f" {max_new_tokens!r}"
            )
        distribution = _distribution(prompt, max_new_tokens)
        self._add(distribution.vocabulary)
        self._built[id(prompt), distribution.length] = prompt, distribution
        length = max_new_tokens or prompt.max_new_tokens
        given = [None] * length if prompt.canvas is None else canvas_tokens(prompt.canvas)
        canvas = tuple(self.mask_id if token is None else self._ids[token] for token in given)
        return Request((), canvas, key, prompt)

    def text(self, token_ids: Sequence[int]) -> str:
        return self.whole_text(token_ids[: end_of(token_ids, self.stop_ids)])

    def whole_text(self, token_ids: Sequence[int]) -> str:
        texts = list(self._ids)
        return "".join(texts[i] for i in token_ids if i not in (self.mask_id, self.eos_id))

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> "_Batch":
        if cache is not None:
            raise ModelError(f"ideal has no {cache} cache: it keeps nothing between forwards")
        return _Batch(
            [self._row(request, seed) for request in requests],
            self.vocab_size,
            self.noise,
            self.device,
        )

    def _row(self, request: Request, seed: int) -> "_Row":
        if request.sample is None:
            raise ModelError(
                "ideal decodes requests that its own encode made from a Sample; this one has no"
                " sample"
            )
        length = len(request.canvas)
        built = self._built.pop((id(request.sample), length), None)
        distribution = built[1] if built else _distribution(request.sample, length)
        columns = np.array([self._ids[token] for token in distribution.vocabulary])
        local = np.full(self.vocab_size, len(columns), dtype=np.int64)
        local[columns] = np.arange(len(columns))
        local[self.mask_id] = MASKED
        hashes = np.array([crc32(token.encode()) for token in distribution.vocabulary])
        low = torch.tensor((seed + (1 << 63)) % (1 << 64) - (1 << 63))  # the seed's lower 64 bits
        return _Row(distribution, columns, local, hashes, int(mixed(mixed(low) ^ request.key)))


class IdealDependence(Ideal):
    """`ideal` with an oracle for samplers that read attention: as its weights it gives the mutual
    information of each two positions, given what is revealed, in bits. What such a sampler loses
    here is lost by its selection rule; no attention map can win it back.
    """

    name = "ideal-mi"
    attention = True
    reviews = frozenset({"seen", "hidden"})  # a visible token is certain


def load_ideal(entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions) -> Ideal:
    """The ideal model for the registry.

    Args:
        device: where decoding computes.
        dtype: without effect, since it has no weights.
        options: without effect.
    """
    kind = IdealDependence if entry.name == IdealDependence.name else Ideal
    # Exact in float64, which MPS lacks.
    return kind(find_device("cpu" if device == "mps" else device))


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a batch. v tokens occur in its answers."""

    distribution: AnswerDistribution
    columns: NDArray[np.int64]  # (v,) vocabulary id of each
    local: NDArray[np.int64]  # (V,) inverse of `columns`; v for tokens that occur in no answer
    hashes: NDArray[np.int64]  # (v,)
    noise_key: int


class _Batch:
    """The Context of the ideal model."""

    def __init__(
        self, rows: list[_Row], vocab_size: int, noise: float, device: torch.device
    ) -> None:
        self._rows = rows
        self._vocab_size = vocab_size
        self._noise = noise
        self._device = device

    def keep(self, rows: Tensor) -> None:
        self._rows = [self._rows[i] for i in rows.tolist()]

    def logits(self, query: Query) -> Tensor:
        return self._logits(
            self._rows,
            query.canvas.cpu().numpy(),
            query.want.cpu().numpy(),
            query.nfe.cpu().numpy(),
        )

    def logits_and_review(self, query: Query) -> tuple[Tensor, Tensor]:
        if query.review is None:
            raise ValueError("ideal: logits_and_review needs a query with review")
        if not query.hidden:
            return self.logits(query), self._visible(query.canvas[query.review])
        rows, places = query.review.cpu().numpy().nonzero()  # (N,) each
        canvas = query.canvas.cpu().numpy()[rows]  # (N, L), a copy
        canvas[np.arange(len(rows)), places] = Ideal.mask_id
        alone = np.arange(canvas.shape[1]) == places[:, None]  # (N, L)
        again = self._logits(
            [self._rows[row] for row in rows], canvas, alone, query.nfe.cpu().numpy()[rows]
        )
        return self.logits(query), again

    def logits_and_attention(self, query: Query) -> tuple[Tensor, Tensor | None, Attention]:
        """Logits (M, V) of the wanted positions, and mutual information in bits in the place of
        attention weights; its columns are the canvas alone, and no column is a sink.
        """
        if query.attending is None or query.slots is None:
            raise ValueError(
                "ideal-mi: logits_and_attention needs a query with attending and slots"
            )
        canvas = query.canvas.cpu().numpy()  # (R, L)
        weights = torch.zeros(*canvas.shape, canvas.shape[1], dtype=torch.double)
        for number, row in enumerate(self._rows):
            length = row.distribution.length
            nats = mutual_information(row.distribution, row.local[canvas[number, :length]])
            weights[number, :length, :length] = torch.from_numpy(nats / np.log(2))
        slots = query.slots.cpu()  # (R, C)
        chosen = weights.gather(1, slots[:, :, None].expand(-1, -1, canvas.shape[1]))  # (R, C, L)
        if not query.attending.prompt:
            chosen = chosen.gather(2, slots[:, None, :].expand(-1, slots.shape[1], -1))
        visible = query.canvas != Ideal.mask_id
        sinks = torch.zeros_like(visible, dtype=torch.double) if query.attending.sinks else None
        again = None if query.review is None else self._visible(query.canvas[query.review])
        return self.logits(query), again, Attention(chosen.to(self._device), visible, sinks=sinks)

    def _visible(self, present: Tensor) -> Tensor:
        """Logits (N, V) of tokens (N,) that the model sees: they are certain."""
        certain = torch.full(
            (len(present), self._vocab_size), -torch.inf, dtype=torch.double, device=self._device
        )
        return certain.scatter_(1, present[:, None].to(self._device), 0.0)

    def _logits(
        self,
        rows: list[_Row],
        canvas: NDArray[np.int64],
        want: NDArray[np.bool_],
        nfe: NDArray[np.int64],
    ) -> Tensor:
        """Logits (M, V) of the wanted positions of a canvas (R, L) after `nfe` (R,) forwards."""
        counts = want.sum(-1)  # (R,)
        out = np.full((counts.sum(), self._vocab_size), -np.inf)
        live = counts.nonzero()[0]
        if not len(live):
            return torch.from_numpy(out).to(self._device)
        width = max(len(rows[row].columns) for row in live)  # v of the row with the most tokens
        marginals = np.zeros((len(out), width))  # (M, v)
        # The mask token has probability 0 anyway.
        columns = np.full((len(live), width), Ideal.mask_id)
        hashes = np.zeros((len(live), width), dtype=np.int64)
        start = 0
        for i, number in enumerate(live):
            row = rows[number]
            length = rows[number].distribution.length
            stop = start + counts[number]
            v = len(row.columns)
            columns[i, :v], hashes[i, :v] = row.columns, row.hashes
            known = row.distribution.marginals(row.local[canvas[number, :length]])  # (L, v)
            marginals[start:stop, :v] = known[want[number, :length]]
            start = stop
        of = np.repeat(np.arange(len(live)), counts[live])  # (M,)
        with np.errstate(divide="ignore"):
            logits = np.log(marginals)
        if self._noise:
            keys = mixed(
                torch.from_numpy(np.array([rows[row].noise_key for row in live]) ^ nfe[live])
            )
            places = mixed(torch.from_numpy(want.nonzero()[1]) ^ keys[of])
            numbers = mixed(places[:, None] ^ torch.from_numpy(hashes[of]))  # (M, v)
            # Uniform in (−noise, noise), from row, forward, position and token alone.
            logits += (high_bits(numbers) * (2 * self._noise / (1 << 53)) - self._noise).numpy()
        out[np.arange(len(out))[:, None], columns[of]] = logits
        return torch.from_numpy(out).to(self._device)


def _distribution(sample: Sample, length: int | None) -> AnswerDistribution:
    try:
        return answer_distribution(sample, length)
    except ValueError as error:
        raise ModelError(
            f"ideal can't answer {sample.task}, sample {sample.index}: {error}"
        ) from error

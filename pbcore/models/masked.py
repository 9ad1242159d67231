"""Masked diffusion transformers as Denoisers: prompt encoding, left-padded batches, logits of the wanted positions, KV
caches.

R rows, P prompt columns, L canvas columns, T = P + L, Q columns of one forward, H width, M wanted positions, V tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pbcore.errors import InputError
from pbcore.models.attention import AttentionReader
from pbcore.models.base import Attention, Context, Prompt, Query, Request
from pbcore.models.blocks import BlockContext
from pbcore.models.errors import ModelError
from pbcore.models.network import Columns, Network
from pbcore.models.shadow import with_shadows
from pbcore.models.tokenizer import Tokenizer, canvas_ids, prompt_ids
from pbcore.tasks.base import Sample


@dataclass(frozen=True, slots=True)
class MaskedModel:
    """A masked diffusion model. With `shift` the token at position i is predicted at i − 1 (Dream, Fast-dLLM v2).

    With `block` its attention is block-causal in blocks of that length.

    `stop_ids` end an answer's text; `limit` is the model's maximum sequence length. `top_k`, if the checkpoint's
    generation settings have it, keeps only that many candidate tokens at each position.
    """

    name: str
    network: Network
    tokenizer: Tokenizer
    mask_id: int
    eos_id: int
    vocab_size: int
    shift: bool
    stop_ids: frozenset[int]
    limit: int
    top_k: int | None
    device: torch.device
    info: Mapping[str, Any]
    frequencies: Tensor | None = None  # (V,) background probability of each token, for pc
    deterministic: bool = True
    batch_size: int | None = None
    block: int | None = None

    @property
    def caches(self) -> frozenset[str]:
        """A block model's cache between blocks is exact and always on; `dual` is the one within a block."""
        return self.network.caches if self.block is None else frozenset({"dual"})

    @property
    def reviews(self) -> frozenset[str]:
        """Any model can re-predict visible tokens; hidden ones need a pairwise attention mask and unshifted logits.

        A block model can't hide them, nor re-predict a block's first token with shifted logits.
        """
        if self.block is not None:
            return frozenset() if self.shift else frozenset({"seen"})
        return frozenset({"seen", "hidden"}) if self.network.pairwise and not self.shift else frozenset({"seen"})

    @property
    def attention(self) -> bool:
        """Networks of transformers whose kernel takes pairwise masks, with full attention."""
        return self.network.pairwise and self.block is None

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt as a row.

        A Sample has messages, a length and, for infilling, a canvas in which each `[MASK]` becomes one mask token. The
        chat template is applied to messages; text is tokenized without it; token ids are used unchanged. Raises
        ModelError for words or ids outside the vocabulary, a prompt and answer longer than the model's limit, and a
        missing length.
        """
        sample = prompt if isinstance(prompt, Sample) else None
        ids = prompt_ids(self.tokenizer, prompt, self.name)
        if sample is not None and sample.canvas is not None:
            canvas = canvas_ids(sample.canvas, self.tokenizer.piece, self.mask_id)
        else:
            length = max_new_tokens if max_new_tokens is not None or sample is None else sample.max_new_tokens
            if not isinstance(length, int) or length < 1:
                raise ModelError(
                    f"{self.name}: max_new_tokens is the length of the answer, a whole number of at least 1, not "
                    f"{length!r}"
                )
            canvas = [self.mask_id] * length
        self._check(ids, canvas)
        return Request(tuple(ids), tuple(canvas), key, sample)

    def text(self, token_ids: Sequence[int]) -> str:
        """Canvas tokens as text, up to the first stop token; masks and other special tokens are left out."""
        end = next((i for i, token in enumerate(token_ids) if token in self.stop_ids), len(token_ids))
        return self.whole_text(token_ids[:end])

    def whole_text(self, token_ids: Sequence[int]) -> str:
        """All canvas tokens as text; special tokens are left out, but not what follows them."""
        return self.tokenizer.decode([i for i in token_ids if i != self.mask_id and i not in self.stop_ids])

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> Context:
        """A batch of left-padded prompts. Raises InputError for a cache that the model doesn't support."""
        if cache is not None and cache not in self.caches:
            raise InputError(f"{self.name} has no {cache} cache; it has {', '.join(sorted(self.caches)) or 'none'}")
        if self.block is not None:
            return BlockContext(self, requests, parts=cache is not None)
        return MaskedContext(self, requests, cache)

    def candidates(self, logits: Tensor) -> Tensor:
        """Logits (M, V) with all but the `top_k` largest set to −∞; ties with the last one stay.

        The mask token is excluded first.
        """
        if self.top_k is None or self.top_k >= self.vocab_size or not len(logits):
            return logits
        logits[:, self.mask_id] = -torch.inf
        worst = logits.topk(self.top_k, dim=-1).values[:, -1:]  # (M, 1)
        return logits.masked_fill_(logits < worst, -torch.inf)

    def _check(self, ids: Sequence[int], canvas: Sequence[int]) -> None:
        outside = [i for i in (*ids, *canvas) if not 0 <= i < self.vocab_size]
        if outside:
            raise ModelError(
                f"{self.name}: token ids {outside[:8]} are outside its vocabulary 0..{self.vocab_size - 1}"
            )
        if len(ids) + len(canvas) > self.limit:
            sizes = f"prompt {len(ids)} + answer {len(canvas)} tokens"
            raise ModelError(f"{self.name} has {self.limit} positions, and {sizes} are more; shorten them")
        if not ids and self.shift:
            raise ModelError(f"{self.name} predicts each token from the one before it, so the prompt can't be empty")


class MaskedContext:
    """A batch being decoded.

    Prompts are right-aligned in P columns, followed by L canvas columns; the attention mask and position ids make
    padding invisible. With a cache, `refresh` runs all T columns and stores their K/V. Later forwards run only the
    columns from the window's start to the end of the canvas (prefix) or of the window (dual), and overwrite their slots
    (Fast-dLLM, arXiv 2505.22618). With shifted logits they start one column earlier, whose hidden state predicts the
    window's first token.
    """

    def __init__(self, model: MaskedModel, requests: Sequence[Request], cache: str | None) -> None:
        self._model, self._mode, self._cache = model, cache, None
        width = max(len(request.prompt_ids) for request in requests)
        length = max(len(request.canvas) for request in requests)
        pads = [width - len(request.prompt_ids) for request in requests]
        rows = [[model.eos_id] * pad + list(request.prompt_ids) for pad, request in zip(pads, requests, strict=True)]
        seen = [
            [False] * pad
            + [True] * (len(request.prompt_ids) + len(request.canvas))
            + [False] * (length - len(request.canvas))
            for pad, request in zip(pads, requests, strict=True)
        ]
        self._prompt = torch.tensor(rows, dtype=torch.long, device=model.device).reshape(len(rows), width)  # (R, P)
        self._seen = torch.tensor(seen, device=model.device)  # (R, T)
        self._derive()

    def _derive(self) -> None:
        """Computes the position ids (R, T) and the attention mask (None without padding) from `_seen`."""
        self._positions = (self._seen.long().cumsum(-1) - 1).clamp(min=0)
        self._mask: Tensor | None = None if bool(self._seen.all()) else self._seen

    def logits(self, query: Query) -> Tensor:
        """Logits (M, V). Only the wanted positions go through the output projection."""
        return self._logits(query, query.want)

    def logits_and_review(self, query: Query) -> tuple[Tensor, Tensor]:
        """Logits (M, V) of the wanted positions and (N, V) of the revealed positions in `query.review`, from one
        forward.
        """
        if query.review is None:
            raise ValueError(f"{self._model.name}: logits_and_review needs a query with review")
        if query.hidden:
            return self._shadowed(query, query.review)
        positions = query.want | query.review
        both, wanted = self._logits(query, positions), query.want[positions]  # row-major, both kinds mixed
        return both[wanted], both[~wanted]

    def logits_and_attention(self, query: Query) -> tuple[Tensor, Tensor | None, Attention]:
        """One forward's logits, with those of a visible review, and the attention weights of the query's slots."""
        assert query.attending is not None
        assert query.slots is not None
        prompt = self._prompt.shape[1]
        reader = AttentionReader(query.attending, query.slots + prompt, self._seen)
        positions = query.want if query.review is None else query.want | query.review
        both, wanted = self._logits(query, positions, reader), query.want[positions]
        none = torch.zeros_like(self._prompt, dtype=torch.bool)
        masked = torch.cat([none, query.canvas == self._model.mask_id], dim=-1)
        review = None if query.review is None else both[~wanted]
        return both[wanted], review, reader.attention(self._seen & ~masked, prompt)

    def _logits(self, query: Query, positions: Tensor, reader: AttentionReader | None = None) -> Tensor:
        """Logits of the given canvas positions (R, L), in row-major order."""
        columns = torch.cat([self._prompt, query.canvas], dim=-1)  # (R, T)
        prompt, shift, total = self._prompt.shape[1], int(self._model.shift), columns.shape[1]
        first, last = (0, query.canvas.shape[1]) if query.window is None or query.refresh else query.window
        start, stop = 0, total
        if self._mode is not None:
            if query.refresh:
                self._cache = self._model.network.cache(total)
            elif self._cache is None or query.window is None:
                raise InputError(
                    f"{self._model.name}: the {self._mode} cache needs a window, and a refresh at the window's first "
                    "step"
                )
            else:
                start = prompt + first - shift
                stop = prompt + last if self._mode == "dual" else total
        lead = prompt - shift - start  # column, of those that run, that predicts canvas position 0
        skip = max(0, lead)  # the columns before it aren't read
        ids, places = columns[:, start:stop], self._positions[:, start:stop]
        run = Columns(ids, places, self._mask, self._cache, start, skip, reader)
        hidden = self._model.network.hidden(run)  # (R, Q − skip, H)
        offset = lead - skip
        wanted = hidden[:, offset + first : offset + last][positions[:, first:last].to(hidden.device)]  # (M, H)
        return self._model.candidates(self._model.network.project(wanted).to(self._model.device))

    def _shadowed(self, query: Query, review: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (M, V) of the wanted positions and (N, V) of the shadows of the revealed positions in `review` (R, L).

        As in WINO the shadow block covers both kinds of positions, although only the shadows of revealed ones are read.
        """
        model, prompt = self._model, self._prompt.shape[1]
        columns = torch.cat([self._prompt, query.canvas], dim=-1)  # (R, T)
        none = torch.zeros_like(self._prompt, dtype=torch.bool)  # prompt tokens are not reviewed
        part = with_shadows(
            columns, self._positions, self._seen, torch.cat([none, query.want | review], dim=-1), model.mask_id
        )
        hidden = model.network.hidden(Columns(part.ids, part.positions, part.sees))  # (R, T + S, H)
        wanted = hidden[:, prompt : columns.shape[1]][query.want.to(hidden.device)]  # (M, H)
        read = part.real & torch.cat([none, review], dim=-1).gather(-1, part.of)  # (R, S)
        shadows = hidden[:, columns.shape[1] :][read.to(hidden.device)]  # (N, H)
        logits = model.candidates(model.network.project(torch.cat([wanted, shadows])).to(model.device))
        return logits[: len(wanted)], logits[len(wanted) :]

    def keep(self, rows: Tensor) -> None:
        """Drops all rows but these.

        Without a KV cache, prompt columns that are now padding in every row are dropped too.
        """
        self._prompt, self._seen = self._prompt[rows], self._seen[rows]
        if self._cache is not None:
            self._cache.reorder_cache(rows)
        elif self._prompt.shape[1]:
            padding = int(self._seen.int().argmax(-1).min())
            padding = min(padding, self._prompt.shape[1])
            self._prompt, self._seen = self._prompt[:, padding:], self._seen[:, padding:]
        self._derive()

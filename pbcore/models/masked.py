"""Masked diffusion transformers as Denoisers: prompts, left-padded batches, logits of the wanted
positions, KV caches.

R rows, P prompt columns, L canvas columns, T = P + L, S shadows, Q columns of one forward, H width,
M wanted positions, V tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pbcore.base.errors import InputError
from pbcore.costs.calls import RowSize
from pbcore.models.attention import AttentionReader
from pbcore.models.base import Attention, Context, Prompt, Query, Ranks, Request
from pbcore.models.blocks import BlockCausalContext, PositionReader
from pbcore.models.errors import ModelError
from pbcore.models.identity import ModelFiles
from pbcore.models.info import ModelInfo
from pbcore.models.network import Columns, Predictor, cache_of_rows
from pbcore.models.tokenizer import Tokenizer, encode_request, end_of
from pbcore.models.transfer import gather_entries, on_device, places


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedModel(Predictor):
    """A masked diffusion model. `stop_ids` end an answer's text; `limit` is the model's maximum
    sequence length.
    """

    name: str
    tokenizer: Tokenizer
    stop_ids: frozenset[int]
    limit: int
    info: ModelInfo
    frequencies: Tensor | None = None  # (V,) background probability of each token, for pc
    deterministic: bool = True
    batch_size: int | None = None
    files: ModelFiles | None = None  # None: random weights
    ranks: Ranks = "raw"  # the family's
    delimiter_ids: frozenset[int] = frozenset()  # of a line break
    counts_mask: bool = False  # the family's

    @property
    def caches(self) -> frozenset[str]:
        """A block model's cache between blocks is exact and always on; `dual` is the one within a
        block.
        """
        return self.network.caches if self.block is None else frozenset({"dual"})

    @property
    def reviews(self) -> frozenset[str]:
        """Any model can re-predict visible tokens; hidden ones need a pairwise attention mask and
        unshifted logits. A block model can't hide them, nor re-predict a block's first token with
        shifted logits.
        """
        if self.block is not None:
            return frozenset() if self.shift else frozenset({"seen"})
        return (
            frozenset({"seen", "hidden"})
            if self.network.pairwise and not self.shift
            else frozenset({"seen"})
        )

    @property
    def attention(self) -> bool:
        """Networks of transformers whose kernel takes pairwise masks, with full attention."""
        return self.network.pairwise and self.block is None

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt as a row. In a Sample's canvas each `[MASK]` is one mask token. The chat
        template is
        applied to messages, not to text; token ids are used unchanged.

        Args:
            prompt: a Sample, chat messages, text or token ids.
            max_new_tokens: the number of masks; None: the Sample's length.
            key: tells rows' random numbers apart.

        Raises:
            ModelError: for words or ids outside the vocabulary, too long rows, a missing length,
                and
                with shifted logits for an empty prompt.
        """
        sizes: dict[str, Any] = {
            "hole": self.mask_id,
            "tokens": self.vocab_size,
            "limit": self.limit,
        }
        request = encode_request(self.name, self.tokenizer, prompt, max_new_tokens, key, **sizes)
        leads = self.block is not None and self.grid.leads
        if not request.prompt_ids and (self.shift or leads):
            raise ModelError(
                f"{self.name} predicts {'each' if self.shift else 'the first'} token from the one"
                " before it, so the prompt can't be empty"
            )
        return request

    def text(self, token_ids: Sequence[int]) -> str:
        return self.whole_text(token_ids[: end_of(token_ids, self.stop_ids)])

    def whole_text(self, token_ids: Sequence[int]) -> str:
        return self.tokenizer.decode(
            [i for i in token_ids if i != self.mask_id and i not in self.stop_ids]
        )

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> Context:
        """A batch of left-padded prompts.

        Args:
            requests: the rows.
            cache: `prefix`, `dual` or None.
            seed: of the draws.

        Raises:
            InputError: for a cache that the model doesn't support.
        """
        if cache is not None and cache not in self.caches:
            raise InputError(
                f"{self.name} has no {cache} cache; it has"
                f" {', '.join(sorted(self.caches)) or 'none'}"
            )
        if self.block is not None:
            return BlockCausalContext(self, requests, parts=cache is not None)
        return MaskedContext(self, requests, cache)


class MaskedContext(PositionReader):
    """A batch being decoded: prompts right-aligned in P columns, then L canvas columns; the
    attention mask and position ids make padding invisible. With a cache, `refresh` runs all T
    columns and stores their K/V. Later forwards run only the columns from the window's start to the
    end of the canvas (prefix) or of the window (dual), and overwrite their slots (Fast-dLLM, arXiv
    2505.22618); with shifted logits from one column earlier, which predicts the window's first
    token.
    """

    knows_rows = True

    def __init__(self, model: MaskedModel, requests: Sequence[Request], cache: str | None) -> None:
        self._model = model
        self._mode = cache
        self._cache: Any = None
        self._sizes = [(len(row.prompt_ids), len(row.canvas)) for row in requests]
        sizes = on_device(self._sizes, model.device)
        prompt, canvas = sizes[:, :1], sizes[:, 1:]  # (R, 1) each
        width = max(prompt for prompt, _ in self._sizes)
        self._length = max(canvas for _, canvas in self._sizes)
        columns = torch.arange(width + self._length, device=model.device)  # (T,)
        self._seen = (columns >= width - prompt) & (columns < width + canvas)  # (R, T)
        ids = [
            [model.eos_id] * (width - len(row.prompt_ids)) + list(row.prompt_ids)
            for row in requests
        ]
        self._prompt = on_device(ids, model.device).reshape(len(ids), width)  # (R, P)
        self._derive()

    def _derive(self) -> None:
        """Computes the position ids and the attention mask (R, T; None without padding) from
        `_seen`.
        """
        self._positions = (self._seen.long().cumsum(-1) - 1).clamp(min=0)  # (R, T)
        full = self._prompt.shape[1], self._length
        padded = any(size != full for size in self._sizes)
        self._mask: Tensor | None = self._seen if padded else None

    def logits_and_review(self, query: Query) -> tuple[Tensor, Tensor]:
        if query.hidden and query.review is not None:
            return self._shadowed(query, query.review)
        return super().logits_and_review(query)

    def logits_and_attention(self, query: Query) -> tuple[Tensor, Tensor | None, Attention]:
        """One forward's logits, with those of a visible review, and the attention weights of the
        query's slots.
        """
        assert query.attending is not None
        assert query.slots is not None
        prompt = self._prompt.shape[1]
        reader = AttentionReader(query.attending, query.slots + prompt, self._seen)
        masked = self._behind_prompt(query.canvas == self._model.mask_id)
        review: Tensor | None = None
        if query.review is None:
            logits = self._logits(query, query.want, query.count, reader)
        else:
            logits, review = self._both(query, query.review, reader)
        return logits, review, reader.attention(self._seen & ~masked, prompt)

    def _behind_prompt(self, positions: Tensor) -> Tensor:
        """Canvas positions (R, L) as columns (R, T), none of them the prompt's."""
        return torch.cat([torch.zeros_like(self._prompt, dtype=torch.bool), positions], dim=-1)

    def _logits(
        self,
        query: Query,
        positions: Tensor,
        count: int | None,
        reader: AttentionReader | None = None,
    ) -> Tensor:
        """Logits of the given canvas positions (R, L), in row-major order, whose `count` the host
        may know.
        """
        columns = torch.cat([self._prompt, query.canvas], dim=-1)  # (R, T)
        prompt = self._prompt.shape[1]
        shift = int(self._model.shift)
        total = columns.shape[1]
        first, last = (
            (0, query.canvas.shape[1]) if query.window is None or query.refresh else query.window
        )
        if self._mode is not None:
            if query.refresh:
                self._cache = self._model.network.cache(total)
            elif self._cache is None or query.window is None:
                raise InputError(
                    f"{self._model.name}: the {self._mode} cache needs a window, and a refresh at"
                    " the window's first step"
                )
        start, stop = self._range(query)
        lead = prompt - shift - start  # column, of those that run, that predicts canvas position 0
        skip = max(0, lead)  # the columns before it aren't read
        ids = columns[:, start:stop]
        order = self._positions[:, start:stop]
        run = Columns(
            ids,
            order,
            self._mask,
            self._cache,
            start,
            skip,
            reader,
            keys=self._positions,
            lengths=self._lengths(),
        )
        hidden = self._model.network.hidden(run)  # (R, Q − skip, H)
        offset = lead - skip
        at = places(positions[:, first:last], count).to(hidden.device)
        wanted = gather_entries(hidden[:, offset + first : offset + last], at)  # (M, H)
        return self._model.read(wanted)

    def _lengths(self) -> list[int]:
        """The tokens of each row, prompt and canvas."""
        return [prompt + canvas for prompt, canvas in self._sizes]

    def _range(self, query: Query) -> tuple[int, int]:
        """The first column of the T that a forward runs, and the one after its last."""
        prompt = self._prompt.shape[1]
        total = prompt + self._length
        if self._mode is None or query.refresh or query.window is None:
            return 0, total
        first, last = query.window
        stop = prompt + last if self._mode == "dual" else total
        return prompt + first - int(self._model.shift), stop

    def sizes(self, query: Query) -> list[RowSize]:
        """What a forward that answers the query computes for each row, by numbers of the host."""
        start, stop = self._range(query)
        width = self._prompt.shape[1]
        shadows = [0] * len(self._sizes)
        read = query.wanted or shadows
        if query.review is not None and query.shown is not None:
            read = [wanted + shown for wanted, shown in zip(read, query.shown, strict=True)]
            if query.hidden:
                shadows = list(read)
        sizes = []
        for (prompt, canvas), shadow, wanted in zip(self._sizes, shadows, read, strict=True):
            begin = max(start, width - prompt)
            end = min(stop, width + canvas)
            tokens = end - begin + shadow
            sizes.append(
                RowSize(
                    tokens,
                    prompt + canvas - (end - begin),
                    tokens if self._model.network.reads_all else wanted,
                    stop - start + max(shadows) - tokens,
                )
            )
        return sizes

    def _shadowed(self, query: Query, review: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (M, V) of the wanted positions and (N, V) of the shadows of `review` (R, L); both
        have one.
        """
        columns = torch.cat([self._prompt, query.canvas], dim=-1)  # (R, T)
        prompt = self._prompt.shape[1]
        end = columns.shape[1]
        most = None
        if query.wanted is not None and query.shown is not None:
            pairs = zip(query.wanted, query.shown, strict=True)
            most = max(wanted + shown for wanted, shown in pairs)
        run, of, real = with_shadows(
            columns,
            self._positions,
            self._seen,
            self._behind_prompt(query.want | review),
            self._model.mask_id,
            most,
        )
        run = replace(run, lengths=self._lengths())
        hidden = self._model.network.hidden(run)  # (R, T + S, H)
        at = places(query.want, query.count).to(hidden.device)
        wanted = gather_entries(hidden[:, prompt:end], at)  # (M, H)
        read = real & self._behind_prompt(review).gather(-1, of)  # (R, S)
        shadows = gather_entries(
            hidden[:, end:], places(read, query.reviewed).to(hidden.device)
        )  # (N, H)
        logits = self._model.read(torch.cat([wanted, shadows]))
        return logits[: len(wanted)], logits[len(wanted) :]

    def keep(self, rows: Tensor, numbers: Sequence[int] | None = None) -> None:
        """Without a KV cache, prompt columns that are now padding in every row are dropped, too.
        `numbers` are the `rows` on the host.
        """
        self._sizes = [
            self._sizes[number] for number in (rows.tolist() if numbers is None else numbers)
        ]
        self._prompt = self._prompt[rows]
        self._seen = self._seen[rows]
        if self._cache is not None:
            self._cache = cache_of_rows(self._cache, rows)
        elif self._prompt.shape[1]:
            padding = self._prompt.shape[1] - max(prompt for prompt, _ in self._sizes)
            self._prompt = self._prompt[:, padding:]
            self._seen = self._seen[:, padding:]
        self._derive()


def with_shadows(
    ids: Tensor,
    positions: Tensor,
    seen: Tensor,
    review: Tensor,
    mask_id: int,
    most: int | None = None,
) -> tuple[Columns, Tensor, Tensor]:
    """Adds WINO's shadow block: mask tokens that re-predict revealed tokens without attending to
    them,
    in the same forward (arXiv 2507.18578).

    A shadow stands at its column's position and attends to its row's other columns and to all
    shadows of its row; no column attends to a shadow. The columns do attend to the token in
    question, so the shadow only approximates a forward without it.

    Args:
        ids: (R, T).
        positions: (R, T).
        seen: (R, T), false at padding.
        review: the columns (R, T) that get a shadow.
        mask_id: the mask token.

    Returns:
        The T + S columns to run, the column (R, S) that each shadow re-predicts, and which shadows
        are real (R, S): rows with fewer are padded on the right.
    """
    count = review.sum(-1)  # (R,)
    shadows = int(count.max()) if most is None else most
    columns = ids.shape[1]
    of = review.int().argsort(dim=-1, descending=True, stable=True)[:, :shadows]  # (R, S)
    real = torch.arange(shadows, device=ids.device) < count[:, None]  # (R, S)
    sees = torch.zeros(
        len(ids), columns + shadows, columns + shadows, dtype=torch.bool, device=ids.device
    )
    sees[:, :, :columns] = seen[:, None, :]
    own = torch.arange(columns, device=ids.device) == of[..., None]  # (R, S, T)
    sees[:, columns:, :columns] &= ~own
    sees[:, columns:, columns:] = real[:, None, :]
    both = torch.cat([ids, torch.full_like(of, mask_id)], dim=-1)
    return Columns(both, torch.cat([positions, positions.gather(-1, of)], dim=-1), sees), of, real

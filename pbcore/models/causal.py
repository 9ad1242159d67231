"""Autoregressive models: any `AutoModelForCausalLM` of transformers, decoded by the library's own `generate`.

R rows, P prompt columns, L answer tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from pbcore.models import ar
from pbcore.models.base import Generation, Prompt, Request
from pbcore.models.errors import ModelError
from pbcore.models.token_recorder import Limits, Watch
from pbcore.models.tokenizer import Tokenizer, prompt_ids
from pbcore.names import SamplerName, SamplerNameError
from pbcore.tasks.base import Sample

ANSWER_TOKENS = 1024  # the paper's limit for autoregressive models (Tables 5 to 7)
_OPEN = -1  # in a request's canvas: a token to generate


@dataclass(frozen=True, slots=True)
class CausalModel:
    """An autoregressive model, a BatchDecoder.

    An answer ends with one of `stop_ids`, or after as many tokens as were asked for, else `length` (None: as many as
    the sample's canvas has), at most as many as `limit`, the model's maximum sequence length, leaves. `draft` is the
    model whose drafts `ar-draftN` verifies.
    """

    name: str
    module: Any
    tokenizer: Tokenizer
    stop_ids: tuple[int, ...]
    limit: int | None
    length: int | None
    vocab_size: int
    device: torch.device
    info: Mapping[str, Any]
    draft: Any | None = None

    @property
    def eos_id(self) -> int | None:
        return self.stop_ids[0] if self.stop_ids else None

    def check(self, sampler: SamplerName) -> None:
        """Raises SamplerNameError for a sampler other than ar with what this model has."""
        if sampler.policy != ar.POLICY:
            raise SamplerNameError(
                f"sampler {sampler}: {self.name} is autoregressive, one token after the other: use ar, ar-lookup10 or "
                "ar-draft5"
            )
        if ar.drafts(sampler).draft and self.draft is None:
            raise SamplerNameError(
                f"sampler {sampler}: {self.name} has no model that drafts; name a smaller one with the same tokenizer "
                "(--draft MODEL, load_model(…, draft=MODEL))"
            )

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt as a row; its canvas has as many places as the answer may have tokens.

        Raises ModelError for infilling, words or ids outside the vocabulary, a prompt and answer longer than the
        model's limit, an empty prompt and a missing length.
        """
        sample = prompt if isinstance(prompt, Sample) else None
        if sample is not None and sample.canvas is not None:
            raise ModelError(
                f"{self.name} can't do infilling (task {sample.task}): it writes from left to right and does not see "
                "the tokens given further on; leave the task out"
            )
        ids = prompt_ids(self.tokenizer, prompt, self.name)
        outside = [i for i in ids if not 0 <= i < self.vocab_size]
        if outside or not ids:
            what = f"token ids {outside[:8]} are outside" if outside else "the prompt is empty; give at least one id of"
            raise ModelError(f"{self.name}: {what} its vocabulary 0..{self.vocab_size - 1}")
        return Request(tuple(ids), (_OPEN,) * self._length(sample, max_new_tokens, len(ids)), key, sample)

    def _length(self, sample: Sample | None, requested: int | None, prompt: int) -> int:
        least = requested if requested is not None else sample.max_new_tokens if sample else self.length
        if not isinstance(least, int) or least < 1:
            raise ModelError(
                f"{self.name}: max_new_tokens is the most tokens of an answer, a whole number of at least 1, not "
                f"{least!r}"
            )
        room = least if self.limit is None else self.limit - prompt
        if room < least:
            sizes = f"prompt {prompt} + answer {least} tokens"
            raise ModelError(f"{self.name} has {self.limit} positions, and {sizes} are more; shorten them")
        longest = least if requested is not None or sample is None else sample.answer_limit(self.length or 0)
        return longest if self.limit is None else min(longest, room)

    def text(self, token_ids: Sequence[int]) -> str:
        """Tokens as text, up to the first stop token; special tokens are left out."""
        end = next((i for i, token in enumerate(token_ids) if token in self.stop_ids), len(token_ids))
        return self.tokenizer.decode(list(token_ids[:end]))

    def answer(self, requests: Sequence[Request], sampler: SamplerName, *, seed: int) -> list[Generation]:
        """A batch of rows. With drafts one row after the other, as transformers can't verify drafts of several rows.

        Raises SamplerNameError as `check`, and ModelError if the model's logits have no largest one.
        """
        self.check(sampler)
        wanted = ar.drafts(sampler)
        size = 1 if wanted else max(1, len(requests))
        parts = (requests[start : start + size] for start in range(0, len(requests), size))
        return [one for part in parts for one in self._answer(part, wanted, sampler.temperature, seed)]

    def _answer(
        self, requests: Sequence[Request], wanted: ar.Drafts, temperature: float, seed: int
    ) -> list[Generation]:
        ids, seen = self._padded(requests)
        limits = self._tensor([len(request.canvas) for request in requests])  # (R,)
        watch = Watch(
            keys=self._tensor([request.key for request in requests]),
            limits=limits,
            prompt=ids.shape[1],
            stops=self._tensor(self.stop_ids),
            temperature=temperature,
            seed=seed,
        )
        config = GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=int(limits.max()),
            do_sample=False,  # `watch` draws
            eos_token_id=list(self.stop_ids) or None,
            pad_token_id=self.eos_id or 0,
            prompt_lookup_num_tokens=wanted.lookup or None,
        )
        draft = self.draft if wanted.draft else None
        if draft is not None:
            draft.generation_config.num_assistant_tokens = wanted.draft
        with watch.counting(self.module, draft):
            output = self.module.generate(
                ids,
                attention_mask=seen,
                generation_config=config,
                logits_processor=LogitsProcessorList([watch]),
                stopping_criteria=StoppingCriteriaList([Limits(limits, ids.shape[1])]),
                **({} if draft is None else {"assistant_model": draft}),
            )  # (R, P + L)
        if not bool(watch.confidences.isfinite().all()):
            raise ModelError(
                f"{self.name}: its logits hold NaN or infinity; another dtype may help (float16 overflows where "
                "bfloat16 does not)"
            )
        answers = output[:, ids.shape[1] :].tolist()
        return [self._generation(request, row, answers[row], watch) for row, request in enumerate(requests)]

    def _generation(self, request: Request, row: int, tokens: list[int], watch: Watch) -> Generation:
        tokens = tokens[: len(request.canvas)]
        end = next((i for i, token in enumerate(tokens) if token in self.stop_ids), None)
        kept = tokens if end is None else tokens[: end + 1]  # what follows is padding
        return Generation(
            text=self.text(kept),
            token_ids=tuple(kept),
            nfe=int(watch.nfe[row]),
            answer_tokens=len(kept) if end is None else end,
            steps=tuple(watch.steps[row, : len(kept)].tolist()),
            confidences=tuple(watch.confidences[row, : len(kept)].tolist()),
            text_after_eos=False,
            extra={
                "finish_reason": "length" if end is None else "stop",
                "max_new_tokens": len(request.canvas),
                **({"draft_forwards": watch.draft_forwards} if watch.draft_forwards else {}),
            },
        )

    def _padded(self, requests: Sequence[Request]) -> tuple[Tensor, Tensor]:
        """The prompts (R, P), padded on the left, and their attention mask (R, P)."""
        width = max(len(request.prompt_ids) for request in requests)
        pads = [width - len(request.prompt_ids) for request in requests]
        rows = zip(pads, requests, strict=True)
        ids = self._tensor([[self.eos_id or 0] * pad + list(request.prompt_ids) for pad, request in rows])
        return ids, self._tensor([[0] * pad + [1] * (width - pad) for pad in pads])

    def _tensor(self, values: Any) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self.device)

"""Autoregressive models: any `AutoModelForCausalLM` of transformers, decoded by the library's own `generate`.

R rows, P prompt columns, L answer tokens, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from pbcore.models import ar
from pbcore.models.base import Generation, Prompt, Request
from pbcore.models.counter_rng import categorical, uniform
from pbcore.models.errors import ModelError
from pbcore.models.tokenizer import Tokenizer, end_of, prompt_ids
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
        """A prompt as a row; its canvas has as many places as the answer may have tokens. Raises ModelError for
        infilling, words or ids outside the vocabulary, too long rows, an empty prompt and a missing length.
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
        return self.tokenizer.decode(list(token_ids[: end_of(token_ids, self.stop_ids)]))

    def answer(self, requests: Sequence[Request], sampler: SamplerName, *, seed: int) -> list[Generation]:
        """A batch of rows. With drafts one row after the other, as transformers can't verify drafts of several rows.

        Raises SamplerNameError as `check`, and ModelError if the model's logits have no largest one.
        """
        self.check(sampler)
        if ar.drafts(sampler):
            return [one for request in requests for one in self._answer([request], sampler, seed)]
        return self._answer(requests, sampler, seed) if requests else []

    def _answer(self, requests: Sequence[Request], sampler: SamplerName, seed: int) -> list[Generation]:
        prompt = max(len(request.prompt_ids) for request in requests)
        pads = [prompt - len(request.prompt_ids) for request in requests]
        rows = zip(pads, requests, strict=True)
        ids = self._tensor([[self.eos_id or 0] * pad + list(request.prompt_ids) for pad, request in rows])  # (R, P)
        limits = self._tensor([len(request.canvas) for request in requests])  # (R,)
        watch = _Watch(
            keys=self._tensor([request.key for request in requests]),
            limits=limits,
            prompt=prompt,
            stops=self._tensor(self.stop_ids),
            temperature=sampler.temperature,
            seed=seed,
        )
        wanted = ar.drafts(sampler)
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
        with ExitStack() as hooks:
            hooks.enter_context(self.module.register_forward_hook(watch.counter("forwards")))
            if draft is not None:
                hooks.enter_context(draft.register_forward_hook(watch.counter("draft_forwards")))
            output = self.module.generate(
                ids,
                attention_mask=self._tensor([[0] * pad + [1] * (prompt - pad) for pad in pads]),
                generation_config=config,
                logits_processor=LogitsProcessorList([watch]),
                stopping_criteria=StoppingCriteriaList([_Limits(limits, prompt)]),
                **({} if draft is None else {"assistant_model": draft}),
            )  # (R, P + L)
        if not bool(watch.confidences.isfinite().all()):
            raise ModelError(
                f"{self.name}: its logits hold NaN or infinity; another dtype may help (float16 overflows where "
                "bfloat16 does not)"
            )
        answers = output[:, prompt:].tolist()
        return [self._generation(request, row, answers[row], watch) for row, request in enumerate(requests)]

    def _generation(self, request: Request, row: int, tokens: list[int], watch: "_Watch") -> Generation:
        tokens = tokens[: len(request.canvas)]
        end = end_of(tokens, self.stop_ids)
        kept = tokens[: end + 1]  # what follows is padding
        return Generation(
            text=self.text(kept),
            token_ids=tuple(kept),
            nfe=int(watch.nfe[row]),
            answer_tokens=end,
            steps=tuple(watch.steps[row, : len(kept)].tolist()),
            confidences=tuple(watch.confidences[row, : len(kept)].tolist()),
            text_after_eos=False,
            extra={
                "finish_reason": "length" if end == len(tokens) else "stop",
                "max_new_tokens": len(request.canvas),
                **({"draft_forwards": watch.draft_forwards} if watch.draft_forwards else {}),
            },
        )

    def _tensor(self, values: Any) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self.device)


class _Watch(LogitsProcessor):
    """Called by `generate` with the logits of each next token: chooses it, and records its probability and forwards.

    With a temperature it draws the token, by numbers that depend on (seed, row, position) alone: not on the batch, nor
    on drafts, which therefore change no answer. It raises the token's score above all others instead of ruling those
    out, because prompt lookup asks which tokens are ruled out. A position of a draft that is not accepted is looked at
    again after a later forward, so the last note of each position holds.
    """

    def __init__(self, keys: Tensor, limits: Tensor, prompt: int, stops: Tensor, temperature: float, seed: int) -> None:
        self._keys, self._limits, self._prompt, self._stops = keys, limits, prompt, stops
        self._temperature, self._seed = temperature, seed
        self.forwards = self.draft_forwards = self._counted = 0
        size = (len(keys), int(limits.max()))
        self.nfe = torch.zeros_like(keys)  # (R,) forwards of each row up to its end
        self.steps = torch.zeros(size, dtype=torch.long, device=keys.device)  # (R, L)
        self.confidences = torch.zeros(size, device=keys.device)  # (R, L)

    def counter(self, name: str) -> Any:
        """A hook that counts a model's forwards."""
        return lambda *_: setattr(self, name, getattr(self, name) + 1)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores (R, V) whose largest is the next token's; `input_ids` (R, P + tokens so far)."""
        place = input_ids.shape[1] - self._prompt
        if self.forwards > self._counted:
            ended = torch.isin(input_ids[:, self._prompt :], self._stops).any(-1) | (place >= self._limits)  # (R,)
            self.nfe += torch.where(ended, 0, self.forwards - self._counted)
            self._counted = self.forwards
        if place >= self.steps.shape[1]:  # a draft may be longer than the answer
            return scores
        token = scores.argmax(-1)  # (R,)
        if self._temperature:
            none, places = torch.zeros_like(self._keys), torch.full_like(token, place)
            numbers = uniform(self._seed, self._keys, none, places[:, None])
            token = categorical(scores / self._temperature, numbers[:, 0])
        chosen = scores.gather(-1, token[:, None])  # (R, 1)
        self.confidences[:, place] = (chosen[:, 0] - scores.logsumexp(-1)).exp()
        self.steps[:, place] = self.nfe - 1
        if self._temperature:
            scores = scores.scatter(-1, token[:, None], scores.amax(-1, keepdim=True) + 1)
        return scores


class _Limits(StoppingCriteria):
    """Ends each row at its own length (R,)."""

    def __init__(self, limits: Tensor, prompt: int) -> None:
        self._limits, self._prompt = limits, prompt

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        return input_ids.shape[1] - self._prompt >= self._limits

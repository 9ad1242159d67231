"""Hooks into transformers' `generate`: they choose the tokens and record their probabilities and forwards.

R rows, P prompt columns, L answer tokens, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessor, StoppingCriteria

from pbcore.models.counter_rng import categorical, uniform


class Watch(LogitsProcessor):
    """Called by `generate` with the logits of each next token.

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

    @contextmanager
    def counting(self, model: Any, draft: Any | None) -> Iterator[None]:
        """Counts the forwards of the model, and of the one that drafts, while the block runs."""

        def count(name: str) -> Any:
            return lambda *_: setattr(self, name, getattr(self, name) + 1)

        hooks = [model.register_forward_hook(count("forwards"))]
        hooks += [draft.register_forward_hook(count("draft_forwards"))] if draft is not None else []
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

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
            number = uniform(
                self._seed, self._keys, torch.zeros_like(self._keys), torch.full_like(token, place)[:, None]
            )
            token = categorical(scores / self._temperature, number[:, 0])
        chosen = scores.gather(-1, token[:, None])  # (R, 1)
        self.confidences[:, place] = (chosen[:, 0] - scores.logsumexp(-1)).exp()
        self.steps[:, place] = self.nfe - 1
        if self._temperature:
            scores = scores.scatter(-1, token[:, None], scores.amax(-1, keepdim=True) + 1)
        return scores


class Limits(StoppingCriteria):
    """Ends each row at its own length (R,)."""

    def __init__(self, limits: Tensor, prompt: int) -> None:
        self._limits, self._prompt = limits, prompt

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        return input_ids.shape[1] - self._prompt >= self._limits

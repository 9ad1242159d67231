"""The network of engine.py as a module that is called like one of transformers.

R rows, T columns.
"""

from pathlib import Path
from types import SimpleNamespace

import torch
from engine import DTYPE, Network


class Module(torch.nn.Module):
    """Logits of all columns. With `block`, columns see no block behind their own."""

    def __init__(self, checkpoint, block=None):
        super().__init__()
        self.network = Network(Path(checkpoint))
        self.block = block
        self.place = torch.nn.Parameter(torch.zeros(1, dtype=DTYPE))  # says device and dtype

    @property
    def device(self):
        return self.place.device

    @property
    def dtype(self):
        return self.place.dtype

    def forward(self, ids, attention_mask=None, position_ids=None):
        """Logits (R, T, V) of ids (R, T), as `logits`.

        Columns whose `attention_mask` (R, T) is 0 are hidden. Positions are those given, or count
        what isn't hidden.
        """
        length = ids.shape[1]
        real = torch.ones_like(ids) if attention_mask is None else attention_mask
        if position_ids is None:
            position_ids = (real.cumsum(-1) - 1).clamp(min=0)
        sees = real.bool()[:, None, :].repeat(1, length, 1)  # (R, T, T)
        if self.block is not None:
            number = torch.arange(length) // self.block
            sees &= number <= number[:, None]
        sees |= torch.eye(length, dtype=torch.bool)
        states = self.network.states(ids, position_ids, sees, {}, 0)
        return SimpleNamespace(logits=self.network.logits(states))


def padded(prompts, pad):
    """Ids (R, T) of prompts, padded on the left, and which of them are real."""
    width = max(map(len, prompts))
    ids = [[pad] * (width - len(prompt)) + list(prompt) for prompt in prompts]
    real = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids), torch.tensor(real)

"""Rotary embeddings whose frequencies depend on the length of a row: longrope and dynamic NTK.

transformers takes the length of the longest row of a batch, and dynamic NTK remembers earlier
batches, so an answer would depend on its neighbours. Here each row gets what transformers computes
for it alone.

R rows, Q columns of one forward, D width of a head.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pbcore.models.transfer import on_device


def rules_by_length(module: nn.Module) -> list[Any]:
    """A model's rotary embeddings whose frequencies depend on the length, told as transformers'
    `dynamic_rope_update` tells them: by the rope types that config.json declares.
    """
    return [
        part
        for part in module.modules()
        if any("dynamic" in kind or kind == "longrope" for kind in _rope_types(part))
    ]


def _rope_types(part: Any) -> list[str]:
    declared = getattr(part, "rope_type", None)
    kinds = declared.values() if isinstance(declared, dict) else [declared]
    return [kind for kind in kinds if isinstance(kind, str)]


def forget_lengths(module: nn.Module) -> None:
    """Makes dynamic NTK forget the lengths that it met, as transformers itself does at a short
    row.
    """
    for rotary in rules_by_length(module):
        device = next(rotary.buffers()).device
        row = torch.zeros(1, device=device), torch.zeros(1, 1, dtype=torch.long, device=device)
        if isinstance(rotary.rope_type, dict):
            for kind in rotary.rope_type:
                rotary(*row, layer_type=kind)
        else:
            rotary(*row)


class RowRotary:
    """A forward hook of a rotary embedding: cosines and sines of each row by its own length.

    Args:
        rotary: transformers' rotary embedding.
    """

    def __init__(self, rotary: Any) -> None:
        self.rotary = rotary
        self._rule: dict[int, bytes] = {}  # length → what tells its frequencies from others

    def __call__(
        self,
        rotary: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
        *,
        lengths: Sequence[int] | None,
    ) -> tuple[Tensor, Tensor]:
        """Cosines and sines (R, Q, D), in place of the module's own `output`.

        Args:
            rotary: the module.
            args: the states, then (R, Q) positions unless `kwargs` has them.
            kwargs: of the call.
            output: of the module.
            lengths: tokens of each row; None: up to its last position, for which the host waits.
        """
        states = args[0] if args else kwargs["x"]
        positions = kwargs["position_ids"] if "position_ids" in kwargs else args[1]
        if lengths is None:
            lengths = (positions.amax(-1) + 1).tolist()
        groups = defaultdict[bytes, list[int]](list)
        for row, length in enumerate(lengths):
            groups[self._rule_of(length)].append(row)
        cosines, sines = torch.empty_like(output[0]), torch.empty_like(output[1])
        for rows in groups.values():
            some = on_device(rows, positions.device)
            own = on_device([lengths[row] for row in rows], positions.device)[:, None]  # (R', 1)
            cosine, sine = self._alone(states, positions[some], own)
            cosines[some], sines[some] = cosine, sine
        return cosines, sines

    def _rule_of(self, length: int) -> bytes:
        if length not in self._rule:
            place = torch.ones(1, 1, dtype=torch.long)
            states = torch.zeros(1, dtype=torch.float32)
            cosine, sine = self._alone(states, place, torch.tensor([[max(length, 2)]]))
            self._rule[length] = torch.cat([cosine, sine]).cpu().numpy().tobytes()
        return self._rule[length]

    def _alone(self, states: Tensor, positions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of rows (R', Q) of one rule, of `lengths` (R', 1), as a fresh module
        computes them. What lies past a row's end is padding.
        """
        self.rotary.forward(states, torch.zeros_like(positions[:1, :1]))  # forgets other lengths
        last = lengths - 1
        both = torch.cat([positions.minimum(last), last], dim=-1)  # (R', Q + 1)
        cosine, sine = self.rotary.forward(states, both)
        return cosine[:, :-1], sine[:, :-1]

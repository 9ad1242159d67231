"""WINO's shadow block: mask tokens that re-predict revealed tokens without attending to them, in the same forward
(arXiv 2507.18578).

R rows, T columns (prompt and canvas), S shadows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A forward's columns followed by S shadows; `sees` is the pairwise mask: True where column q (second axis) attends
    to t (third).
    """

    ids: Tensor  # (R, T + S)
    positions: Tensor  # (R, T + S)
    sees: Tensor  # (R, T + S, T + S) bool
    of: Tensor  # (R, S) the column that each shadow re-predicts
    real: Tensor  # (R, S) bool: rows with fewer shadows are padded on the right


def with_shadows(ids: Tensor, positions: Tensor, seen: Tensor, review: Tensor, mask_id: int) -> Shadowed:
    """Adds a shadow for each column in `review` (R, T) to ids, positions and seen (R, T).

    A shadow is a mask token at its column's position. It attends to its row's columns except that one, and to all
    shadows of its row; no column attends to a shadow. The columns do attend to the token in question, so the shadow
    only approximates a forward without it.
    """
    count = review.sum(-1)  # (R,)
    shadows, columns = int(count.max()), ids.shape[1]
    of = review.int().argsort(dim=-1, descending=True, stable=True)[:, :shadows]  # (R, S)
    real = torch.arange(shadows, device=ids.device) < count[:, None]  # (R, S)
    sees = torch.zeros(len(ids), columns + shadows, columns + shadows, dtype=torch.bool, device=ids.device)
    sees[:, :, :columns] = seen[:, None, :]
    own = torch.arange(columns, device=ids.device) == of[..., None]  # (R, S, T)
    sees[:, columns:, :columns] &= ~own
    sees[:, columns:, columns:] = real[:, None, :]
    return Shadowed(
        torch.cat([ids, torch.full_like(of, mask_id)], dim=-1),
        torch.cat([positions, positions.gather(-1, of)], dim=-1),
        sees,
        of,
        real,
    )

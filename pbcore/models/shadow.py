"""WINO's shadow block: mask tokens that judge revealed tokens without seeing them, in the same forward (arXiv 2507.18578).

R rows, T columns (prompt and canvas), S shadows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A forward's columns with S shadows after them; `sees` says which column (third axis) each column (second axis) attends to."""

    ids: Tensor  # (R, T + S)
    positions: Tensor  # (R, T + S)
    sees: Tensor  # (R, T + S, T + S) bool
    of: Tensor  # (R, S) the column that each shadow stands for
    real: Tensor  # (R, S) bool: rows with fewer shadows are padded on the right


def with_shadows(ids: Tensor, positions: Tensor, seen: Tensor, verify: Tensor, mask_id: int) -> Shadowed:
    """Adds a shadow for each column in `verify` (R, T) to ids, positions and seen (R, T).

    A shadow is a mask token at its column's position. It sees what its row sees but for that column, and all shadows of its row; no column
    sees a shadow. Since the columns that it sees have themselves seen the token it judges, this only approximates leaving that token out.
    """
    count = verify.sum(-1)  # (R,)
    shadows, columns = int(count.max()), ids.shape[1]
    of = verify.int().argsort(dim=-1, descending=True, stable=True)[:, :shadows]  # (R, S)
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

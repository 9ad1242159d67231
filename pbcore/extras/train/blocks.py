"""The loss of a block-causal model: the clean rows, followed by a noised copy of their blocks
(vectorised training of block diffusion, arXiv 2503.09573; SDAR and Fast-dLLM v2 train alike).

R rows, T columns, N columns of the noised copy, B block length, H width, M masked positions, V
tokens.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pbcore.models.network import Columns, NativeNetwork


@dataclass(frozen=True, slots=True)
class NoisedCopy:
    """The blocks of a batch that hold masks, a second time."""

    of: Tensor  # (R, N) long: the column of each, ascending
    real: Tensor  # (R, N) bool: false where a row has fewer


def block_numbers(attend: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Positions (R, T), counted from each row's own start, and the numbers (R, T) of their blocks.

    Args:
        attend: (R, T), false at padding.
        block: the block length.
    """
    positions = (attend.long().cumsum(-1) - 1).clamp(min=0)
    return positions, positions // block


def noised_copy(masked: Tensor, attend: Tensor, blocks: Tensor) -> NoisedCopy:
    """The columns of the blocks that hold at least one mask.

    Args:
        masked: (R, T).
        attend: (R, T), false at padding.
        blocks: the number of each column's block (R, T).
    """
    holds = masked.new_zeros(len(masked), int(blocks.max()) + 1, dtype=torch.long)  # (R, blocks)
    holds.scatter_add_(1, blocks, masked.long())
    noised = (holds.gather(1, blocks) > 0) & attend  # (R, T)
    count = noised.sum(-1)  # (R,)
    width = int(count.max())
    of = noised.long().argsort(dim=-1, descending=True, stable=True)[:, :width]  # (R, N)
    real = torch.arange(width, device=masked.device) < count[:, None]  # (R, N)
    return NoisedCopy(of, real)


def attention_mask(blocks: Tensor, attend: Tensor, copy: NoisedCopy) -> Tensor:
    """Which columns (R, T + N, T + N) attend to which: clean ones to the clean ones up to their own
    block's end, noised ones to their own noised block and to the clean blocks before it.

    Args:
        blocks: the number of each clean column's block (R, T).
        attend: (R, T), false at padding.
        copy: the noised columns.
    """
    own = blocks.gather(1, copy.of)  # (R, N)
    clean_clean = blocks[:, None, :] <= blocks[:, :, None]  # (R, T, T)
    clean_noised = clean_clean.new_zeros(*blocks.shape, own.shape[1])  # (R, T, N)
    noised_clean = blocks[:, None, :] < own[:, :, None]  # (R, N, T)
    noised_noised = own[:, None, :] == own[:, :, None]  # (R, N, N)
    sees = torch.cat(
        [
            torch.cat([clean_clean, clean_noised], dim=2),
            torch.cat([noised_clean, noised_noised], dim=2),
        ],
        dim=1,
    )
    return sees & torch.cat([attend, copy.real], dim=1)[:, None]


class BlockLoss(nn.Module):
    """The cross-entropy of masked tokens under block-causal attention, as one module. It predicts
    each block from the noised block and the clean blocks before it, as decoding with the cache of
    finished blocks does; blocks are counted from a row's first token.
    """

    def __init__(self, network: NativeNetwork, adapted: nn.Module, block: int) -> None:
        super().__init__()
        self.adapted = adapted
        self._network = network
        self._block = block

    def forward(self, ids: Tensor, attend: Tensor, masked: Tensor, targets: Tensor) -> Tensor:
        """The loss (M,) of each masked position, in row-major order.

        Args:
            ids: the noised rows (R, T).
            attend: (R, T), false at padding, which is on the left.
            masked: which positions (R, T) are masked.
            targets: their tokens (M,).
        """
        logits = self.logits(ids, attend, masked, targets)
        return F.cross_entropy(logits.float(), targets, reduction="none")

    def logits(self, ids: Tensor, attend: Tensor, masked: Tensor, targets: Tensor) -> Tensor:
        """Logits (M, V) of the masked positions.

        Args:
            ids: the noised rows (R, T).
            attend: (R, T), false at padding, which is on the left.
            masked: which positions (R, T) are masked.
            targets: their tokens (M,), which the clean rows hold.
        """
        clean = ids.masked_scatter(masked, targets)  # (R, T)
        positions, blocks = block_numbers(attend, self._block)
        copy = noised_copy(masked, attend, blocks)
        both = torch.cat([clean, ids.gather(1, copy.of)], dim=1)  # (R, T + N)
        places = torch.cat([positions, positions.gather(1, copy.of)], dim=1)
        sees = attention_mask(blocks, attend, copy)
        run = Columns(both, places, sees, skip=ids.shape[1])
        hidden = self._network.hidden(run)  # (R, N, H)
        read = masked.gather(1, copy.of) & copy.real  # (R, N)
        return self._network.project(hidden[read])

"""How many tokens a schedule reveals at a step (quota), and a block's steps. R rows."""

from functools import lru_cache
from typing import NamedTuple

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.models.transfer import on_device
from pbcore.names import SamplerName


def quota(name: SamplerName, total: Tensor, index: Tensor, left: Tensor) -> Tensor | None:
    """Tokens to reveal now, per row (R,), or None without a schedule.

    `counts` are used as given, zeros included. `linear` over S steps gives ⌊m/S⌋ + [i < m mod S]
    (the reference's static schedule), `cosine` leaves ⌊m·cos(π/2·(i+1)/S)⌋ masks after step i
    (MaskGIT, arXiv 2202.04200). The last step of every schedule reveals all that is left.

    Args:
        name: the sampler.
        total: (R,) m, the number of slots in the block.
        index: (R,) i, the steps taken in it.
        left: (R,) the masks left in it.
    """
    if name.counts is not None:
        counts = on_device(name.counts, total.device)  # (S,)
        now = counts[index.clamp(max=len(name.counts) - 1)]
        last = index >= len(name.counts) - 1
    elif name.schedule == "linear":
        steps = name.schedule_steps
        now = share(total, steps, index)
        last = index >= steps - 1
    elif name.schedule == "cosine":
        progress = ((index + 1).double() / name.schedule_steps).clamp(max=1)
        keep = (total * torch.cos(torch.pi / 2 * progress) + 1e-9).floor().long()
        now = (left - keep).clamp(min=0)
        last = index >= name.schedule_steps - 1
    else:
        return None
    return torch.where(last, left, torch.minimum(now, left))


def share(total: int | Tensor, steps: int | Tensor, index: Tensor) -> Tensor:
    """The part (R,) that a step gets of a number spread evenly over steps, earlier ones more.

    Args:
        total: what is spread, one number or (R,).
        steps: over how many, one number or (R,).
        index: (R,) the step, from 0.
    """
    return total // steps + (index < total % steps)


class Steps(NamedTuple):
    """Steps of a block where each reveals as many tokens as k or a schedule says: `taken` until
    none is masked; `idle`, those of a schedule that reveal nothing, however many masks are left.
    """

    taken: int
    idle: int


def steps_of(name: SamplerName, k: int | None, slots: int) -> Steps:
    """The steps of a block.

    Args:
        name: the sampler, with its schedule.
        k: tokens a step where it has none.
        slots: in the block, all masked.
    """
    if k is not None:
        return Steps(-(-slots // k), 0)
    schedule = SamplerName(
        name.policy,
        counts=name.counts,
        schedule=name.schedule,
        schedule_steps=name.schedule_steps,
    )
    return _scheduled(schedule, slots)


@lru_cache(maxsize=4096)
def _scheduled(name: SamplerName, slots: int) -> Steps:
    last = name.schedule_steps if name.counts is None else len(name.counts)
    left = slots
    taken = 0
    idle = 0
    for index in range(last):
        # Masks that stayed since earlier steps revealed fewer take the place of none left.
        now = quota(name, *(torch.tensor([number]) for number in (slots, index, max(1, left))))
        assert now is not None
        idle += not int(now)
        taken += left > 0
        left -= min(left, int(now))
    return Steps(taken, idle)

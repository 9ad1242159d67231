"""torch's settings of a process belong to whoever imports pbcore. What decodes, loads or scores
steps out of them here, and leaves them as they were.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pbcore.base.lazy_torch import torch

_AUTOCAST = ("cpu", "cuda", "xpu", "mps")  # devices that the user may have switched autocast on for


@contextmanager
def own_states() -> Iterator[None]:
    """Steps out of the default dtype, the default device and autocast: numbers made without a dtype
    are float32, tensors made without a device lie on the CPU, and what a model computes has the
    dtype of its weights. Also a decorator. Before torch is imported there is nothing to step out
    of.
    """
    if "torch" not in sys.modules:
        yield
        return
    with ExitStack() as states:
        dtype = torch.get_default_dtype()
        if dtype != torch.float32:
            states.callback(torch.set_default_dtype, dtype)
            torch.set_default_dtype(torch.float32)
        if torch.get_default_device().type != "cpu":
            states.enter_context(torch.device("cpu"))
        for kind in _AUTOCAST:
            if torch.is_autocast_enabled(kind):
                states.enter_context(torch.autocast(kind, enabled=False))
        yield


@contextmanager
def loading_states() -> Iterator[None]:
    """`own_states`, out of inference mode, whose tensors can't be trained, and with random numbers
    drawn on the way that don't count.
    """
    if "torch" not in sys.modules:
        yield
        return
    with own_states(), torch.inference_mode(False), torch.random.fork_rng(devices=[]):
        yield

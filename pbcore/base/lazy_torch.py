"""torch, imported at its first use, so that samplers and cells are listed without it: `from
pbcore.base.lazy_torch import Tensor, torch` stands for the imports of the same names.
"""

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    import torch as torch
    from torch import Tensor as Tensor
else:

    class _Torch:
        def __getattr__(self, name: str) -> Any:
            # The loop asks some seventy times a step: `import_module` takes longer than a look-up.
            return getattr(sys.modules.get("torch") or import_module("torch"), name)

    class _TensorType(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, torch.Tensor)

    class Tensor(metaclass=_TensorType):
        """Stands for torch.Tensor in annotations and isinstance."""

    torch = _Torch()


def inference(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: calls run under `torch.inference_mode`."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with torch.inference_mode():
            return function(*args, **kwargs)

    return run

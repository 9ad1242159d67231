"""Measures parallel decoding in diffusion LLMs. The public API: names are imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pbcore import analysis, results, theory
    from pbcore.base.errors import PbcoreError
    from pbcore.decoding import decode, register_blocks, register_policy
    from pbcore.models import load_model, model_names, register_model
    from pbcore.tasks import load_task, register_task, task_names

_WHERE = {
    "PbcoreError": "pbcore.base.errors",
    **dict.fromkeys(("decode", "register_blocks", "register_policy"), "pbcore.decoding"),
    **dict.fromkeys(("load_model", "model_names", "register_model"), "pbcore.models"),
    **dict.fromkeys(("load_task", "register_task", "task_names"), "pbcore.tasks"),
}
_PACKAGES = ("analysis", "results", "theory")

__all__ = [
    "PbcoreError",
    "analysis",
    "decode",
    "load_model",
    "load_task",
    "model_names",
    "register_blocks",
    "register_model",
    "register_policy",
    "register_task",
    "results",
    "task_names",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"pbcore.{name}")
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'pbcore' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)

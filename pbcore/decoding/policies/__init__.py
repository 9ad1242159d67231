"""Policies: a family of samplers per file, behind one protocol. Users register their own in the
same way.
"""

from importlib import import_module
from pkgutil import iter_modules

from pbcore.decoding.policies.registry import policies, register_policy
from pbcore.decoding.protocol import Policy

__all__ = ["Policy", "policies", "register_policy"]

for module in iter_modules(__path__):  # each registers its policies
    import_module(f"{__name__}.{module.name}")

"""Policies: one sampler per file, behind one protocol. A user's own registers the same way."""

from pbcore.decoding.policies import (
    confidence,
    dus,
    eb,
    entropy,
    factor,
    frechet,
    klass,
    left_to_right,
    localleap,
    margin,
    origin,
    random,
    threshold,
)
from pbcore.decoding.policies.registry import Policy, build, policies, register_policy

__all__ = [
    "Policy",
    "build",
    "confidence",
    "dus",
    "eb",
    "entropy",
    "factor",
    "frechet",
    "klass",
    "left_to_right",
    "localleap",
    "margin",
    "origin",
    "policies",
    "random",
    "register_policy",
    "threshold",
]

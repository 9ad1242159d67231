"""Policies: one sampler per file, behind one protocol. A user's own registers the same way."""

from pbcore.decoding.policies import confidence, entropy, factor, left_to_right, margin, random, threshold
from pbcore.decoding.policies.registry import Policy, build, policies, register_policy

__all__ = [
    "Policy",
    "build",
    "confidence",
    "entropy",
    "factor",
    "left_to_right",
    "margin",
    "policies",
    "random",
    "register_policy",
    "threshold",
]

"""Decoding: one batched loop and many policies."""

from pbcore.decoding.block_rules import register_blocks
from pbcore.decoding.checks import DecodingError
from pbcore.decoding.engine import denoise
from pbcore.decoding.policies import Policy, register_policy
from pbcore.decoding.run import decode
from pbcore.decoding.samplers import Sampler, resolve
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Probe

__all__ = [
    "DecodingError",
    "Move",
    "Policy",
    "Probe",
    "Sampler",
    "Step",
    "decode",
    "denoise",
    "register_blocks",
    "register_policy",
    "resolve",
]

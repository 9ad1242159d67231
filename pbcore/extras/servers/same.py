"""What sets a sampler on a server, for those that found one here and serve the model elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pbcore.base.errors import InputError
from pbcore.extras.servers.declared import MODELS
from pbcore.extras.servers.spec import fields_of, why_not
from pbcore.names import SamplerName

# Servers that take the sampler with each request: policy → part of its name → field.
REQUESTS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "dlmserve": {"confidence": {"steps": "num_denoising_steps", "b": "block_length"}},
    "NeMo-RL's LLaDA server": {
        "threshold": {"number": "threshold", "b": "block_length"},
        "factor": {"number": "factor", "b": "block_length"},
    },
}
# SGLang's algorithms, which are set when it starts.
SGLANG = {"threshold": "LowConfidence", "joint": "JointThreshold"}


def same_on_servers(model: str, sampler: SamplerName, tokens: int) -> list[str]:
    """Lines that say how a server is told to decode by a sampler.

    Args:
        model: the model's name; of a declared one its own `sampler_fields` count.
        tokens: how many an answer has.
    """
    declared = MODELS.specs().get(model)
    if declared is not None:
        if declared.sampler_fields and why_not(declared.sampler_fields, sampler) is None:
            fields = fields_of(declared.sampler_fields, sampler, tokens, model)
            return [f"in requests to {model}: {json.dumps(fields)}"]
        return []
    lines = []
    for server, policies in REQUESTS.items():
        if why_not(policies, sampler) is not None:
            continue
        try:
            fields = fields_of(policies, sampler, tokens, server)
        except InputError:  # its steps don't come out even
            continue
        lines.append(f"in requests to {server}: {json.dumps(fields)}")
    algorithm = SGLANG.get(sampler.policy)
    number = str(sampler).removeprefix(f"{sampler.policy}-")
    if algorithm is not None and sampler.arguments == (("", number),):  # without modifiers
        lines.append(
            f"SGLang: --dllm-algorithm {algorithm} --dllm-algorithm-config FILE with threshold:"
            f" {number}"
        )
    return lines

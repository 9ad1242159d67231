"""The declared sampler of a server against what the server says that it runs."""

from typing import Any

from pbcore.integrations.servers.reported import counters, settings
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.ar import POLICY as AR
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName, parse

UNNAMED = "server"  # the declared sampler that says nothing of how the server decodes
# SGLang's algorithms: the policy that each is, and its parameters without --dllm-algorithm-config.
_SGLANG = {"LowConfidence": ("threshold", "0.95"), "JointThreshold": ("joint", "0.5"), "Gemma4Renoise": ("eb", "0.1")}


def check_sampler(spec: ServerSpec) -> None:
    """Asks the server how it decodes. Raises ModelError where that contradicts the declaration; a server that takes its
    sampler with each request, or doesn't tell, contradicts nothing.
    """
    if spec.sampler_fields:
        return
    said = settings(spec)
    name = parse(spec.sampler)
    wrong = _sglang(name, said) if spec.kind == "sglang" else _vllm(spec, name, said) if spec.kind == "vllm" else None
    if wrong is not None:
        says, advice = wrong
        raise ModelError(
            f"model {spec.name} is declared with sampler {spec.sampler}, and {spec.base_url} says {says}; {advice}"
        )


def _sglang(name: SamplerName, said: dict[str, Any]) -> tuple[str, str] | None:
    """What SGLang's /server_info says otherwise, and what to do."""
    if "dllm_algorithm" not in said or name.policy == UNNAMED:
        return None
    algorithm, config = said["dllm_algorithm"], said.get("dllm_algorithm_config")
    if algorithm is None:
        advice = "declare sampler: ar, or start the server with --dllm-algorithm"
        return None if name.policy == AR else ("dllm_algorithm None: it decodes one token at a time", advice)
    policy, default = _SGLANG.get(algorithm, (None, ""))
    declared = f"sampler: {policy}-{default}" if policy else f"sampler: {UNNAMED}"
    if name.policy == AR or (policy is not None and name.policy != policy):
        return f"dllm_algorithm {algorithm}", f"declare {declared} with its parameters, or start it with another one"
    numbers = [value for word, value in name.arguments if not word]
    if policy is not None and config is None and numbers and float(numbers[0]) != float(default):
        return (
            f"dllm_algorithm {algorithm} without dllm_algorithm_config, whose number is {default}",
            f"declare {declared}, or start it with --dllm-algorithm-config",
        )
    return None


def _vllm(spec: ServerSpec, name: SamplerName, said: dict[str, Any]) -> tuple[str, str] | None:
    """What vLLM's configuration or counters say otherwise, and what to do."""
    canvas = said.get("canvas_length")
    if name.policy == AR and (canvas is not None or counters(spec)):
        says = f"canvas_length {canvas}" if canvas is not None else "that it counts denoising steps (/metrics)"
        return says, f"declare the sampler of the diffusion model, or sampler: {UNNAMED}"
    if name.block is not None and canvas is not None and name.block != canvas:
        return f"canvas_length {canvas}", f"declare +b{canvas}, or start it with another --diffusion-config"
    return None

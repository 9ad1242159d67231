"""What engines say of themselves and return beside the text, in the forms of their own schemas.

SGLang 0.5.23: `srt/entrypoints/http_server.py` (server_info), `srt/entrypoints/openai/protocol.py`,
and pull request 27943 (`step_maps`). vLLM 0.33: `entrypoints/serve/dev/server_info`,
`v1/spec_decode/metrics.py`, `config/diffusion.py`. LMDeploy 0.18: `serve/openai/protocol.py`, and
pull request 4057 (`step_map`).
"""

from __future__ import annotations

from typing import Any


def sglang_info(algorithm: str | None, config: str | None = None) -> dict[str, Any]:
    """SGLang's `/server_info`: resolved arguments, flat, and its version."""
    return {
        "model_path": "JetLM/SDAR-8B-Chat",
        "served_model_name": "the-model",
        "dllm_algorithm": algorithm,
        "dllm_algorithm_config": config,
        "dllm_fdfo": False,
        "max_running_requests": None,
        "launch_command": "python -m sglang.launch_server …",
        "internal_states": [{}],
        "version": "0.5.23",
        "frontend": "python",
    }


def sglang_choice(steps: list[int], ids: list[int]) -> dict[str, Any]:
    """What `return_meta_info`, `return_token_ids` and `return_step_maps` add to SGLang's choice."""
    return {
        "logprobs": None,
        "matched_stop": None,
        "response_token_ids": ids,
        "meta_info": {"id": "x", "completion_tokens": len(ids), "step_maps": steps},
    }


def lmdeploy_choice(steps: list[int], ids: list[int]) -> dict[str, Any]:
    """What `return_token_ids` adds to LMDeploy's choice, with the step map of its open change
    beside it.
    """
    return {"logprobs": None, "output_ids": ids, "step_map": steps}


def vllm_config(canvas: int | None) -> dict[str, Any]:
    """vLLM's `/server_info?config_format=json`."""
    diffusion = None if canvas is None else {"canvas_length": canvas, "max_denoising_steps": 48}
    return {
        "vllm_config": {"diffusion_config": diffusion, "scheduler_config": {"max_num_seqs": 8}},
        "vllm_env": {},
        "system_env": {},
    }


def vllm_metrics(steps: int, tokens: int) -> str:
    """vLLM's counters of diffusion models on `/metrics`."""
    name = "vllm:diffusion_num"
    labels = '{engine="0",model_name="the-model"}'
    return (
        f"# TYPE {name}_denoising_steps_total counter\n{name}_denoising_steps_total{labels}"
        f" {steps}.0\n{name}_canvas_positions_total{labels}"
        f" {32 * steps}.0\n{name}_committed_tokens_total{labels} {tokens}.0\n"
    )

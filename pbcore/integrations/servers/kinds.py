"""Kinds of servers: through which SDK they are asked, and what they accept and report beside the answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """What the servers of a kind have in common.

    `sdk` is the package that asks them; `base_url` where they are unless declared. `stream_usage`: a streamed answer
    counts its tokens only if `stream_options` asks for it. `version_path` and `version_field` say where the server
    tells its version, relative to the host. `counters` maps what a record keeps to counters of the Prometheus page
    `/metrics`. `loads`: the server loads whatever model it is asked for, so that no list of its models is complete.
    """

    sdk: str = "openai"
    base_url: str | None = None
    stream_usage: bool = True
    version_path: str | None = None
    version_field: str | None = None
    counters: tuple[tuple[str, str], ...] = ()
    loads: bool = False


# Counters of vLLM for diffusion models; commit forwards are not among them.
_VLLM = (
    ("denoising_steps", "vllm:diffusion_num_denoising_steps"),
    ("canvas_positions", "vllm:diffusion_num_canvas_positions"),
    ("committed_tokens", "vllm:diffusion_num_committed_tokens"),
)

KINDS = {
    "openai": Kind(),
    "anthropic": Kind(sdk="anthropic", base_url="https://api.anthropic.com"),
    "vllm": Kind(version_path="/version", version_field="version", counters=_VLLM),
    "sglang": Kind(version_path="/get_server_info", version_field="version"),
    "lmdeploy": Kind(),
    "llamacpp": Kind(version_path="/props", version_field="build_info"),
    "transformers": Kind(stream_usage=False, loads=True),
}

"""Kinds of servers: the SDK for requests to each, and what it accepts and reports beside the answer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """What the servers of a kind have in common.

    `sdk` is the package that asks them; `base_url` where they are unless declared. `stream_usage`: a streamed answer
    counts its tokens only if `stream_options` asks for it. `version_paths` (the first that is there) and
    `version_field` say where the server tells its version, relative to the host; `settings_paths` where it tells how it
    decodes, and `settings` which places of that page a record keeps. `counters` maps what a record keeps to counters of
    the Prometheus page `/metrics`. `loads`: the server loads whatever model it is asked for, so that no list of its
    models is complete.
    """

    sdk: str = "openai"
    base_url: str | None = None
    stream_usage: bool = True
    version_paths: tuple[str, ...] = ()
    version_field: str = "version"
    settings_paths: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    counters: tuple[tuple[str, str], ...] = ()
    loads: bool = False


# Counters of vLLM for diffusion models; commit forwards are not among them.
_VLLM = (
    ("denoising_steps", "vllm:diffusion_num_denoising_steps"),
    ("canvas_positions", "vllm:diffusion_num_canvas_positions"),
    ("committed_tokens", "vllm:diffusion_num_committed_tokens"),
)

# SGLang's page of resolved arguments; the second address is that of versions before it, deprecated since.
_SGLANG = ("/server_info", "/get_server_info")
_SGLANG_SETTINGS = ("dllm_algorithm", "dllm_algorithm_config", "max_running_requests")
# vLLM's configuration, which it tells with VLLM_SERVER_DEV_MODE=1.
_VLLM_CONFIG = "/server_info?config_format=json"
_VLLM_SETTINGS = (
    "vllm_config.diffusion_config.canvas_length",
    "vllm_config.diffusion_config.max_denoising_steps",
    "vllm_config.scheduler_config.max_num_seqs",
)

KINDS = {
    "openai": Kind(),
    "anthropic": Kind(sdk="anthropic", base_url="https://api.anthropic.com"),
    "vllm": Kind(version_paths=("/version",), settings_paths=(_VLLM_CONFIG,), settings=_VLLM_SETTINGS, counters=_VLLM),
    "sglang": Kind(version_paths=_SGLANG, settings_paths=_SGLANG, settings=_SGLANG_SETTINGS),
    "lmdeploy": Kind(),
    "llamacpp": Kind(version_paths=("/props",), version_field="build_info"),
    "dlmserve": Kind(stream_usage=False),  # refuses fields that it doesn't know
    "transformers": Kind(stream_usage=False, loads=True),
}

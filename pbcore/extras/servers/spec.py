"""What a server's model is declared to be, what servers of a kind accept and report beside their
answers, and a named sampler as fields of the request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from pbcore.base.check import checked
from pbcore.base.errors import InputError
from pbcore.extras.servers import values
from pbcore.names import SamplerName, parse


@dataclass(frozen=True, slots=True)
class ServerKind:
    """What the servers of a kind have in common.

    `sdk` is the package that asks them; `base_url` where they are unless declared. `stream_usage`:
    a streamed answer counts its tokens only if `stream_options` asks for it. `version_paths` (the
    first that is there) and `version_field` say where the server tells its version, relative to the
    host; `settings_paths` where it tells how it decodes, and `settings` which places of that page a
    record keeps. `counters` maps what a record keeps to counters of the Prometheus page `/metrics`.
    `loads`: the server loads whatever model it is asked for, so that no list of its models is
    complete. `own_schedule`: its diffusion models have a temperature schedule of their own and
    refuse any temperature but 1, so that none is sent unless declared. `generates`: it is asked at
    `/generate`, in Diffulex's form, for a prompt as ids or as text, and streams the canvas after
    each forward.
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
    own_schedule: bool = False
    generates: bool = False


# The second address is that of versions before it, deprecated since.
_SGLANG = ("/server_info", "/get_server_info")
KINDS = {
    "openai": ServerKind(),
    "anthropic": ServerKind(
        sdk="anthropic", base_url="https://api.anthropic.com", stream_usage=False
    ),
    "vllm": ServerKind(
        own_schedule=True,
        version_paths=("/version",),
        settings_paths=("/server_info?config_format=json",),  # there with VLLM_SERVER_DEV_MODE=1
        settings=(
            "vllm_config.diffusion_config.canvas_length",
            "vllm_config.diffusion_config.max_denoising_steps",
            "vllm_config.scheduler_config.max_num_seqs",
        ),
        counters=(  # of diffusion models; commit forwards are not among them
            ("denoising_steps", "vllm:diffusion_num_denoising_steps"),
            ("canvas_positions", "vllm:diffusion_num_canvas_positions"),
            ("committed_tokens", "vllm:diffusion_num_committed_tokens"),
        ),
    ),
    "sglang": ServerKind(
        version_paths=_SGLANG,
        settings_paths=_SGLANG,
        settings=("dllm_algorithm", "dllm_algorithm_config", "max_running_requests"),
    ),
    "lmdeploy": ServerKind(),
    "llamacpp": ServerKind(version_paths=("/props",), version_field="build_info"),
    "dlmserve": ServerKind(stream_usage=False),  # refuses fields that it doesn't know
    "transformers": ServerKind(stream_usage=False, loads=True),
    "diffulex": ServerKind(stream_usage=False, generates=True),
}


@checked
@dataclass(frozen=True)
class ServerSpec:
    """A model behind a server. Holds no key: only the name of the variable that does.

    `kind` is one of KINDS; `model` the id that the server knows it by; `key` the name of the
    environment variable with the key, if it needs one. `extra_body` is added to every request.
    `max_tokens` limits an answer (`task_max_tokens` by task or category) and is sent as
    `max_tokens_field`. `concurrency` is the number of requests at once, `timeout` the seconds of
    one, `retries` how often the SDK repeats a request that failed. `temperature` and `seed` say
    whether they may be sent. `sampler` is `ar` for autoregressive models, and for others what the
    server's own setting is declared to be, or with `sampler_fields` (policy → part of its name →
    place in the request) the default. `nfe_field` is the place in an answer of its number of
    forwards, e.g. `usage.num_forwards`, `step_map_field` that of the step (1-based, in its block)
    of each token, `tokens_field` that of the tokens' texts or ids; `tokenizer` a folder with the
    model's.
    """

    name: str
    model: values.Id
    base_url: values.Address
    kind: str = "openai"
    key: values.Variable = None
    extra_body: values.Body = field(default_factory=dict)
    max_tokens: values.TokenLimit = 1024
    task_max_tokens: values.Limits = field(default_factory=dict)
    max_tokens_field: values.LimitField = "max_tokens"
    prices: values.DeclaredPrices | None = None
    concurrency: Annotated[int, values.between(1, 1024)] = 8
    timeout: Annotated[float, values.between(0.1, 86_400)] = 120.0
    retries: Annotated[int, values.between(0, 100)] = 4
    temperature: bool = True
    seed: bool = False
    stream: bool = True
    sampler: str = "ar"
    sampler_fields: dict[str, dict[str, str]] = field(default_factory=dict)
    nfe_field: values.BodyPath | None = None
    step_map_field: values.BodyPath | None = None
    tokens_field: values.BodyPath | None = None
    tokenizer: str | None = None

    @property
    def provider(self) -> str:
        """The server's host, as records name it."""
        return urlsplit(self.base_url).netloc

    @property
    def root(self) -> str:
        """The server's address without the path of its OpenAI-compatible part."""
        return self.base_url.removesuffix("/v1")

    @property
    def canvases(self) -> bool:
        """Whether a reply has the whole canvas after each forward."""
        return self.stream and (self.diffusing or KINDS[self.kind].generates)

    @property
    def diffusing(self) -> bool:
        """Whether each piece of a streamed answer is the whole canvas so far, as Mercury's
        `diffusing` asks for.
        """
        return self.stream and self.extra_body.get("diffusing") is True

    def answer_limit(self, task: str) -> int:
        """The declared limit of an answer to a task (its full name)."""
        category, _, short = task.partition("/")
        limits = self.task_max_tokens
        for name in (task, short, category):
            if name in limits:
                return limits[name]
        return self.max_tokens

    def refusal(self, sampler: SamplerName) -> str | None:
        """Why the model can't run a sampler; None if it can."""
        declared = parse(self.sampler).alone
        sampler = sampler.alone
        if self.sampler_fields:
            reason = why_not(self.sampler_fields, sampler)
            if reason is not None:
                return reason
        elif replace(sampler, temperature=declared.temperature) != declared:
            return f"{self.name} decodes behind its server; its sampler is {declared}"
        if sampler.temperature != declared.temperature and not self.temperature:
            return f"{self.name} takes no temperature; its sampler is {declared}"
        return None

    def usd(self, tokens_in: int | None, tokens_out: int | None) -> float | None:
        """What so many tokens cost; None without prices or counts."""
        if self.prices is None or tokens_in is None or tokens_out is None:
            return None
        return (tokens_in * self.prices.input + tokens_out * self.prices.output) / 1_000_000


# Parts of a sampler's name, as `sampler_fields` have them.
NUMBER = "number"  # a bare one
BLOCK = "b"  # the block length
STEPS = "steps"  # of the whole answer
# Sent as false where the name lacks them.
FLAGS = ("prefix", "dual", "eos_stop", "no_early_eos", "eos_last")
_PART = re.compile(r"([a-z_]*)([0-9.]*)")


def why_not(fields: Mapping[str, Mapping[str, str]], sampler: SamplerName) -> str | None:
    """Why these fields can't say a sampler; None if they can. Every part of its name has a field,
    and every field a value in the name.
    """
    if sampler.policy not in fields:
        return f"its sampler_fields have {', '.join(fields)}, and no {sampler.policy}"
    places = fields[sampler.policy]
    named = _parts(sampler)
    stepped = {"k", "linear"} if STEPS in places else set()
    for part in named:
        if part not in places and part not in stepped:
            return f"its sampler_fields have no field for {part!r} of {sampler.policy}"
    implied = {BLOCK, *FLAGS}
    if stepped & named.keys():
        implied.add(STEPS)
    for part in places:
        if part not in named and part not in implied:
            return f"its field for {part!r} has no value in that name; write it out"
    return None


def fields_of(
    fields: Mapping[str, Mapping[str, str]], sampler: SamplerName, tokens: int, model: str
) -> dict[str, Any]:
    """The sampler's fields of a request.

    Without `+b8` the block is the whole answer. The steps are those of the whole answer: k tokens
    each, or in every block those of `linear8`.

    Args:
        fields: policy → part of a sampler's name → place in the request, as declared.
        sampler: its policy is one of them.
        tokens: the most tokens of the answer.
        model: named in the error.

    Returns:
        Place in the request → value.

    Raises:
        InputError: where blocks or steps don't come out even.
    """
    places = fields[sampler.policy]
    block = sampler.block or tokens
    values = {**dict.fromkeys(FLAGS, False), **_parts(sampler), BLOCK: block}
    if STEPS in places:
        k: Any = values.get("k")
        linear = values.get("linear")
        if tokens % block or (linear is None and block % k):
            steps = "" if k is None else f", or these none of steps of {k}"
            raise InputError(
                f"sampler {sampler} of {model}: an answer of {tokens} tokens has no whole number of"
                f" blocks of {block}{steps}; choose another sampler or --max-new-tokens"
            )
        values[STEPS] = tokens // block * (linear or block // k)
    return {place: values[part] for part, place in places.items()}


def with_fields(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """A request's body with values at places such as `vllm_xargs.diffusion_max_steps`."""
    whole = dict(body)
    for place, value in fields.items():
        head, _, rest = place.partition(".")
        whole[head] = with_fields(whole.get(head, {}), {rest: value}) if rest else value
    return whole


def _parts(sampler: SamplerName) -> dict[str, Any]:
    """The parts of a name with their values: those of `threshold-0.9+b32+dual` are number 0.9, b 32
    and dual true. The temperature has a field of its own in every request, and `+x4` is no part of
    it.
    """
    parts = {word or NUMBER: _value(text) for word, text in sampler.arguments}
    _, *modifiers = str(sampler).split("+")
    for modifier in modifiers:
        match = _PART.fullmatch(modifier)
        word, text = (match[1], match[2]) if match else (modifier, "")
        if word not in ("t", "x"):
            parts[word] = _value(text)
    return parts


def _value(text: str) -> bool | int | float:
    """The number of a part; true for a part without one."""
    if not text:
        return True
    return float(text) if "." in text else int(text)

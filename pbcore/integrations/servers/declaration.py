"""What a server's model is declared to be. Holds no key: only the name of the variable that does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pydantic import ConfigDict


@dataclass(frozen=True)
class Prices:
    """USD per million tokens of prompts (`input`) and of answers (`output`)."""

    input: float
    output: float
    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}


@dataclass(frozen=True)
class ServerSpec:
    """A model behind a server.

    `kind` is one of KINDS; `model` the id that the server knows it by; `key` the name of the environment variable with
    the key, if it needs one. `extra_body` is added to every request. `max_tokens` limits an answer (`task_max_tokens`
    by task or category) and is sent as `max_tokens_field`. `concurrency` is the number of requests at once, `timeout`
    the seconds of one, `retries` how often the SDK repeats a request that failed. `temperature` and `seed` say whether
    they may be sent. `sampler` is `ar` for autoregressive models, and for others what the server's own setting is
    declared to be, or with `sampler_fields` (policy → part of its name → place in the request) the default. `nfe_field`
    is the place in an answer of its number of forwards, e.g. `usage.num_forwards`, `step_map_field` that of the step
    (1-based, in its block) of each token, `tokens_field` that of the tokens' texts or ids; `tokenizer` a folder with
    the model's.
    """

    name: str
    model: str
    base_url: str
    kind: str = "openai"
    key: str | None = None
    extra_body: dict[str, Any] = field(default_factory=dict)
    max_tokens: int = 1024
    task_max_tokens: dict[str, int] = field(default_factory=dict)
    max_tokens_field: str = "max_tokens"
    prices: Prices | None = None
    concurrency: int = 8
    timeout: float = 120.0
    retries: int = 4
    temperature: bool = True
    seed: bool = False
    stream: bool = True
    sampler: str = "ar"
    sampler_fields: dict[str, dict[str, str]] = field(default_factory=dict)
    nfe_field: str | None = None
    step_map_field: str | None = None
    tokens_field: str | None = None
    tokenizer: str | None = None
    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    @property
    def provider(self) -> str:
        """The server's host, as records name it."""
        return urlsplit(self.base_url).netloc

    @property
    def diffusing(self) -> bool:
        """Whether each piece of a streamed answer is the whole canvas so far, as Mercury's `diffusing` asks for."""
        return self.stream and self.extra_body.get("diffusing") is True

    def answer_limit(self, task: str) -> int:
        """The declared limit of an answer to a task (its full name)."""
        category, _, short = task.partition("/")
        limits = [self.task_max_tokens[name] for name in (task, short, category) if name in self.task_max_tokens]
        return limits[0] if limits else self.max_tokens

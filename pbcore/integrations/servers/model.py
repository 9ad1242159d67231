"""A model behind a server: concurrent requests, each answer kept as it comes, and what the session measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from pbcore.errors import InputError
from pbcore.integrations.servers.generation import AnswerTokens, generation
from pbcore.integrations.servers.keys import check_answer, mask_logs, told
from pbcore.integrations.servers.kinds import KINDS
from pbcore.integrations.servers.money import Budget, CostLimitError, cost, most
from pbcore.integrations.servers.reply import Ask, Client, Reply, ask_of
from pbcore.integrations.servers.reported import counters, settings, version
from pbcore.integrations.servers.spec import ServerSpec, refusal, server_specs
from pbcore.integrations.servers.store import AnswerStore
from pbcore.models.base import Generation, Prompt
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName
from pbcore.tasks.base import Sample

if TYPE_CHECKING:
    from pbcore.models.tokenizer import Tokenizer


@dataclass
class Session:
    """The answers of one cell: where they are kept, what they may cost, and what was measured.

    `seconds` is wall-clock time of the requests, up to `concurrency` at once; `kept` counts answers that were on disk
    before. `settings` is how the server says that it decodes, `sent` the values of the fields that said the sampler.
    """

    spec: ServerSpec
    store: AnswerStore
    concurrency: int
    budget: Budget | None = None
    asked: int = 0
    kept: int = 0
    seconds: float = 0.0
    version: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    sent: dict[str, list[Any]] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)


class ServerModel:
    """One declared model. `info` is what decides its answers; a session adds what the server reports."""

    served = True

    def __init__(self, spec: ServerSpec) -> None:
        self.spec, self.name = spec, spec.name
        self.info: Mapping[str, Any] = {
            "source": spec.base_url,
            "revision": None,
            "family": "server",
            "kind": spec.kind,
            "model_id": spec.model,
            "declared_sampler": spec.sampler,
            "max_tokens": spec.max_tokens,
            **({"task_max_tokens": dict(spec.task_max_tokens)} if spec.task_max_tokens else {}),
            "extra_body": dict(spec.extra_body),
            **({"sampler_fields": dict(spec.sampler_fields)} if spec.sampler_fields else {}),
            "temperature_sent": spec.temperature,
            "seed_sent": spec.seed,
            "dummy": False,
        }
        self._client: Client | None = None
        self._session: Session | None = None
        self._tokens = AnswerTokens(spec)

    def check(self, sampler: SamplerName) -> None:
        """Raises InputError for a sampler that is neither declared nor said by `sampler_fields`."""
        reason = refusal(self.spec, sampler)
        if reason is not None:
            raise InputError(f"sampler {sampler}: {reason}")

    @contextmanager
    def session(
        self, store: AnswerStore, budget: Budget | None = None, concurrency: int | None = None
    ) -> Iterator[Session]:
        """Within it `generate` takes answers from `store` and adds new ones to it, with so many requests at a time
        (None: as declared) unless the sampler says how many (`+x4`).
        """
        self._session = Session(self.spec, store, concurrency or self.spec.concurrency, budget)
        try:
            yield self._session
        finally:
            self._session = None

    def generate(
        self, prompts: Sequence[Prompt], sampler: SamplerName, *, max_new_tokens: int | None, seed: int
    ) -> list[Generation]:
        """One Generation per prompt; up to `concurrency` requests at once.

        The first request that fails for good ends it: those under way are waited for and kept, and no other is sent.
        Raises ModelError, CostLimitError.
        """
        session = self._session or Session(self.spec, AnswerStore(None), self.spec.concurrency)
        session.concurrency = sampler.at_once or session.concurrency
        asks = [self.request(prompt, sampler, max_new_tokens, seed, place) for place, prompt in enumerate(prompts)]
        digests = [ask.digest(self.spec) for ask in asks]
        before = set(session.store.known)
        new = [(ask, digest) for ask, digest in zip(asks, digests, strict=True) if digest not in before]
        if new:
            self._ask_all(new, session)
        session.kept += len(asks) - len(new)
        for place, value in chain.from_iterable(ask.fields.items() for ask in asks):
            if value not in session.sent.setdefault(place, []):
                session.sent[place].append(value)
        answers = [
            generation(self._tokens, session.store.known[digest], digest in before, ask, prompt, sampler)
            for ask, digest, prompt in zip(asks, digests, prompts, strict=True)
        ]
        # A filtered answer, say, has no forwards: a mean needs those of all.
        told = all(answer.nfe is not None for answer in answers)
        return answers if told else [replace(answer, nfe=None, rows=None) for answer in answers]

    def text(self, ids: Sequence[int]) -> str:
        """The text of tokens that answers had."""
        return self._tokens.text(ids)

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The declared tokenizer. Raises ModelError for a folder without one."""
        return self._tokens.tokenizer

    def request(self, prompt: Prompt, sampler: SamplerName, max_new_tokens: int | None, seed: int, place: int) -> Ask:
        """A prompt as a request. Raises ModelError for prompts that no server can be asked."""
        if isinstance(prompt, Sample):
            if prompt.canvas is not None:
                raise ModelError(f"{self.name} can't do infilling (task {prompt.task}); leave the task out")
            messages, place = prompt.messages, prompt.index
        elif isinstance(prompt, str):
            messages = ({"role": "user", "content": prompt},)
        elif all(isinstance(item, Mapping) for item in prompt):
            messages = tuple(
                {"role": item["role"], "content": item["content"]} for item in prompt if isinstance(item, Mapping)
            )
        else:
            raise ModelError(f"{self.name} takes samples, chats and texts; it can't be sent token ids")
        sample = prompt if isinstance(prompt, Sample) else None
        return ask_of(self.spec, messages, sample, sampler, max_new_tokens, seed, place)

    def _ask_all(self, new: Sequence[tuple[Ask, str]], session: Session) -> None:
        client = self._client = self._client or client_of(self.spec)
        session.version = session.version or version(self.spec)
        session.settings = session.settings or settings(self.spec)
        earlier = counters(self.spec)
        start, stop = time.perf_counter(), threading.Event()
        pool = ThreadPoolExecutor(min(session.concurrency, len(new)), thread_name_prefix=f"pbcore-{self.name}")
        futures = [pool.submit(self._ask_one, client, ask, digest, session, stop) for ask, digest in new]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException as error:
            # After Ctrl-C answers under way are still kept when they come, but nobody waits for them.
            stop.set()
            pool.shutdown(wait=not isinstance(error, KeyboardInterrupt), cancel_futures=True)
            if not isinstance(error, ModelError):
                raise
            done = sum(digest in session.store.known for _, digest in new)
            raise type(error)(f"{error}; {done} of {len(new)} answers came and are kept for --resume") from None
        pool.shutdown()
        session.seconds += time.perf_counter() - start
        session.asked += len(new)
        for name, value in counters(self.spec).items():
            session.counters[name] = session.counters.get(name, 0.0) + value - earlier.get(name, 0.0)

    def _ask_one(self, client: Client, ask: Ask, digest: str, session: Session, stop: threading.Event) -> None:
        if stop.is_set():
            return
        try:
            self._ask_and_keep(client, ask, digest, session, stop)
        except BaseException:
            stop.set()
            raise

    def _ask_and_keep(self, client: Client, ask: Ask, digest: str, session: Session, stop: threading.Event) -> None:
        reserved = most(self.spec, ask)
        if session.budget is not None and not session.budget.reserve(reserved, self.spec, stop):
            return
        spent: float | None = 0.0  # a request that failed is not known to have cost anything
        try:
            reply = client.ask(ask)
            spent = cost(self.spec, reply)
            reply = _clean(reply, self.spec)
            session.store.add(digest, reply, {"sample": ask.place, "seed": ask.seed, "cost": spent})
        finally:
            if session.budget is not None:
                session.budget.settle(reserved, spent)


def _clean(reply: Reply, spec: ServerSpec) -> Reply:
    """The reply, its text as it is. Raises ModelError if the text repeats the key."""
    check_answer(reply.text, spec)
    return replace(reply, model=told(reply.model, spec), finish=told(reply.finish, spec))


def client_of(spec: ServerSpec) -> Client:
    """The client of a server, through its SDK. Raises ModelError without the SDK or the key."""
    mask_logs(spec)
    if KINDS[spec.kind].sdk == "anthropic":
        from pbcore.integrations.servers.anthropic_client import AnthropicClient

        return AnthropicClient(spec)
    from pbcore.integrations.servers.openai_client import OpenAIClient

    return OpenAIClient(spec)


def load_server(entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions) -> ServerModel:
    """The model of a registry entry; nothing is asked of the server yet. Device, dtype and options are the server's."""
    return ServerModel(server_specs()[entry.name])


__all__ = ["CostLimitError", "ServerModel", "Session", "client_of", "load_server"]

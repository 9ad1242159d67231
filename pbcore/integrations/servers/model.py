"""A model behind a server: concurrent requests, each answer kept as it comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from pbcore.errors import InputError
from pbcore.integrations.servers.budget import Budget, most
from pbcore.integrations.servers.clients import Client, client_of
from pbcore.integrations.servers.declared import MODELS
from pbcore.integrations.servers.engines import counters, settings, version
from pbcore.integrations.servers.generation import AnswerTokens, generation
from pbcore.integrations.servers.keys import check_answer, told
from pbcore.integrations.servers.reply import Ask, ask_of
from pbcore.integrations.servers.session import AnswerStore, Session
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.base import Generation, Prompt
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName

if TYPE_CHECKING:
    from pbcore.models.tokenizer import Tokenizer


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
        reason = self.spec.refusal(sampler)
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
        asks = [ask_of(self.spec, one, sampler, max_new_tokens, seed, place) for place, one in enumerate(prompts)]
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

    def _ask_all(self, new: Sequence[tuple[Ask, str]], session: Session) -> None:
        client = self._client = self._client or client_of(self.spec)
        session.version = session.version or version(self.spec)
        session.settings = session.settings or settings(self.spec)
        earlier = counters(self.spec)
        start, stop = time.perf_counter(), threading.Event()
        pool = ThreadPoolExecutor(min(session.concurrency, len(new)), thread_name_prefix=f"pbcore-{self.name}")
        futures = [pool.submit(self._ask_and_keep, client, ask, digest, session, stop) for ask, digest in new]
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

    def _ask_and_keep(self, client: Client, ask: Ask, digest: str, session: Session, stop: threading.Event) -> None:
        """One request, unless others have failed. Raises ModelError also if the answer repeats the key."""
        spec, budget, reserved = self.spec, session.budget, most(self.spec, ask)
        try:
            if stop.is_set() or (budget is not None and not budget.reserve(reserved, spec, stop)):
                return
            spent: float | None = 0.0  # a request that failed is not known to have cost anything
            try:
                reply = client.ask(ask)
                spent = reply.cost(spec)
                check_answer(reply.text, spec)
                reply = replace(reply, model=told(reply.model, spec), finish=told(reply.finish, spec))
                session.store.add(digest, reply, {"sample": ask.place, "seed": ask.seed, "cost": spent})
            finally:
                if budget is not None:
                    budget.settle(reserved, spent)
        except BaseException:
            stop.set()
            raise


def load_server(entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions) -> ServerModel:
    """The model of a registry entry; nothing is asked of the server yet. Device, dtype and options are the server's."""
    return ServerModel(MODELS.specs()[entry.name])

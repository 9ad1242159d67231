"""A model behind a server: concurrent requests, each answer kept as it comes, and answers for the
record.
"""

import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pbcore.base.errors import InputError
from pbcore.base.printable import counted, printable
from pbcore.extras.servers.clients import Client, client_of
from pbcore.extras.servers.crew import Crew
from pbcore.extras.servers.declared import MODELS
from pbcore.extras.servers.engines import counters, server_settings, version
from pbcore.extras.servers.field_states import field_states
from pbcore.extras.servers.generations import Generations
from pbcore.extras.servers.keys import check_answer, told
from pbcore.extras.servers.money import Budget, most
from pbcore.extras.servers.record import Served, served_part
from pbcore.extras.servers.reply import (
    AnswerStore,
    Ask,
    LeftOutWarning,
    Reply,
    ask_of,
    ended,
)
from pbcore.extras.servers.spec import ServerSpec
from pbcore.extras.servers.tokenizers import declared_tokenizer
from pbcore.models.base import Generation, Prompt
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.info import ModelInfo
from pbcore.models.tokenizer import Tokenizer
from pbcore.names import SamplerName
from pbcore.results.record import SampleRecord

GRACE = 1.0  # seconds for requests under way, after Ctrl-C


@dataclass
class Session:
    """The requests of one cell (`plugin.hookspecs.Asked`): where answers are kept, what they may
    cost, and what was measured.

    `seconds` is wall-clock time of the requests, up to `concurrency` at once; `kept` counts answers
    that were on disk before. `settings` is how the server says that it decodes, `sent` the values
    of the fields that said the sampler, whose policy is `policy`, `no_nfe` why its NFE isn't known
    although the server reports forwards. `say` shows a line at once.
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
    no_nfe: str | None = None
    policy: str | None = None
    say: Callable[[str], None] | None = None

    def count(self, earlier: Mapping[str, float], later: Mapping[str, float]) -> None:
        """Adds what the server's counters rose by over some requests. Where that isn't known of
        all requests of the cell, it isn't known at all.
        """
        if earlier.keys() != later.keys():
            when = "after" if len(later) < len(earlier) else "before"
            self.no_nfe = f"the server's counters (/metrics) could not be read {when} its requests"
        elif any(later[name] < value for name, value in earlier.items()):
            self.no_nfe = "the server's counters (/metrics) fell during its requests: a restart"
        else:
            for name, value in earlier.items():
                self.counters[name] = self.counters.get(name, 0.0) + later[name] - value
        if self.no_nfe is not None:
            self.counters = {}

    def rounds(self) -> list[float]:
        """The seconds of the requests; none if some answers were not asked for now."""
        return [] if self.kept else [self.seconds]

    def rates(self) -> dict[str, Any]:
        """Forwards by the server's own counters, over all requests together; empty where it has no
        such counters, or some answers were not asked for now.
        """
        steps = self.counters.get("denoising_steps", 0.0)
        if self.kept or not self.asked or self.no_nfe is not None or steps <= 0:
            return {}
        tokens = self.counters.get("committed_tokens")
        return {
            "nfe_mean": steps / self.asked,
            "tokens_per_forward": None if tokens is None else tokens / steps,
        }

    def absent(self) -> dict[str, str]:
        """The metrics that the cell lacks, each with the reason."""
        reasons: dict[str, str] = {}
        if self.kept:
            answers = self.kept + self.asked
            reasons["seconds"] = f"{self.kept} of {answers} answers were kept from an earlier run"
        if self.rates():
            reasons["tokens_per_step"] = "the server counts the forwards of all requests together"
        if self.no_nfe is not None:
            reasons["nfe"] = self.no_nfe
        return reasons

    def part(self, samples: Sequence[SampleRecord]) -> Served:
        """What the server reported."""
        states: dict[str, str] = {}
        if self.policy is not None and self.sent:
            states = {**field_states(self.spec, self.policy, self.version)}
        return served_part(
            samples,
            provider=self.spec.provider,
            kind=self.spec.kind,
            counters={} if self.no_nfe else dict(self.counters),
            concurrency=self.concurrency,
            asked=self.asked,
            kept=self.kept,
            version=self.version,
            settings=self.settings,
            sent=self.sent,
            fields=states,
        )


class ServerInfo(ModelInfo, total=False):
    """What of a declaration decides the answers, as records keep it."""

    kind: str
    model_id: str
    declared_sampler: str
    max_tokens: int | None
    task_max_tokens: Mapping[str, int | None]
    extra_body: Mapping[str, object]
    sampler_fields: Mapping[str, Mapping[str, str]]
    temperature_sent: bool
    seed_sent: bool


class ServerModel:
    """One declared model. `info` is what decides its answers; a session adds what the server
    reports.
    """

    served = True

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.name = spec.name
        self.info = _info(spec)
        self._client: Client | None = None
        self._session: Session | None = None
        self.generations = Generations(spec)

    def check(self, sampler: SamplerName) -> None:
        """Raises InputError for a sampler that is neither declared nor said by `sampler_fields`."""
        reason = self.spec.refusal(sampler)
        if reason is not None:
            raise InputError(f"sampler {sampler}: {reason}")

    @contextmanager
    def session(
        self,
        store: AnswerStore,
        budget: Budget | None = None,
        concurrency: int | None = None,
        say: Callable[[str], None] | None = None,
    ) -> Iterator[Session]:
        """Within it `generate` takes answers from `store` and adds new ones to it.

        Args:
            store: Where answers are kept.
            budget: What they may cost (None: anything).
            concurrency: So many requests at a time (None: as declared), unless the sampler says
                how many (`+x4`).
            say: Shows a line at once.
        """
        self._session = Session(
            self.spec, store, concurrency or self.spec.concurrency, budget, say=say
        )
        try:
            yield self._session
        finally:
            self._session = None

    def generate(
        self,
        prompts: Sequence[Prompt],
        sampler: SamplerName,
        *,
        max_new_tokens: int | None,
        seed: int,
    ) -> list[Generation]:
        """Answers prompts by requests to the server; answers that the session's store has are not
        requested again.

        The first request that fails for good ends it: those under way are waited for and kept, and
        no other is sent.

        Args:
            prompts: samples, chats or texts.
            sampler: `+x4` sets how many requests run at once, else the session does.
            max_new_tokens: the most tokens of an answer; None: the task's or the declared limit.
            seed: sent with each request.

        Returns:
            One Generation per prompt, in order.

        Raises:
            ModelError: for a request that fails for good, and for prompts that can't be sent.
            CostLimitError: if the next answer may exceed --max-cost.
        """
        session = self._session or Session(self.spec, AnswerStore(None), self.spec.concurrency)
        session.concurrency = sampler.at_once or session.concurrency
        session.policy = sampler.policy
        asks = [
            ask_of(self.spec, prompt, sampler, max_new_tokens, seed, place)
            for place, prompt in enumerate(prompts)
        ]
        digests = [ask.digest(self.spec) for ask in asks]
        before = set(session.store.replies)
        new = [
            (ask, digest) for ask, digest in zip(asks, digests, strict=True) if digest not in before
        ]
        if new:
            self._ask_all(new, session)
        session.kept += len(asks) - len(new)
        for ask in asks:
            self._note_sent(ask, session)
        answers = []
        for ask, digest, prompt in zip(asks, digests, prompts, strict=True):
            answer, faults = self.generations.of(
                session.store.replies[digest], digest in before, ask, prompt, sampler
            )
            for fault in faults:
                warnings.warn(
                    f"model {self.name} at {self.spec.base_url}, sample {ask.place}: {fault}",
                    LeftOutWarning,
                    stacklevel=2,
                )
                session.no_nfe = fault
            answers.append(answer)
        # A filtered answer, say, has no forwards: a mean needs those of all.
        if all(answer.nfe is not None for answer in answers):
            session.no_nfe = None
            return answers
        return [replace(answer, nfe=None, rows=None) for answer in answers]

    def _note_sent(self, ask: Ask, session: Session) -> None:
        """Adds the values of the fields that said the sampler to the session's."""
        for place, value in ask.fields.items():
            values = session.sent.setdefault(place, [])
            if value not in values:
                values.append(value)

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The declared one; None without. Raises ModelError for a folder that has none."""
        return declared_tokenizer(self.spec)

    def text(self, ids: Sequence[int]) -> str:
        """The text of tokens by the numbers that its generations have."""
        return self.generations.text(ids)

    def _ask_all(self, new: Sequence[tuple[Ask, str]], session: Session) -> None:
        if self._client is None:
            self._client = client_of(self.spec)
        client = self._client
        session.version = session.version or version(self.spec)
        session.settings = session.settings or server_settings(self.spec)
        earlier = counters(self.spec)
        start = time.perf_counter()
        stop = threading.Event()

        lost: list[str] = []  # the servers' words for answers that the model didn't end

        def work(request: tuple[Ask, str]) -> None:
            ask, digest = request
            reply = self._ask_and_keep(client, ask, digest, session, stop)
            if reply is not None and not ended(reply):
                lost.append(str(reply.finish))

        crew = Crew(f"pbcore-{self.name}", min(session.concurrency, len(new)), work, new)
        try:
            crew.finish()
        except KeyboardInterrupt:
            stop.set()
            self._let_go(crew, session)
            raise
        except BaseException as error:
            stop.set()
            crew.wait()
            if not isinstance(error, ModelError):
                raise
            raise type(error)(f"{error}; {_kept(new, session)}") from None
        session.seconds += time.perf_counter() - start
        session.asked += len(new)
        session.count(earlier, counters(self.spec))
        if lost:
            words = ", ".join(f"{n} {printable(word)}" for word, n in Counter(lost).most_common())
            raise ModelError(
                f"model {self.name} at {self.spec.base_url}: the server ended"
                f" {counted(len(lost), 'answer')} before the model did ({words});"
                f" {_kept(new, session)}, which asks for the others again"
            )

    def _let_go(self, crew: Crew[Any], session: Session) -> None:
        """After Ctrl-C: waits a moment for the requests under way, and says what it does."""
        say = session.say or (lambda line: None)
        if not crew.busy:
            return
        say(
            f"pbcore: {counted(crew.busy, 'request')} to {self.name} under way; waiting for at most"
            f" {GRACE:g} s"
        )
        crew.wait(GRACE)
        if crew.busy:
            say(
                f"pbcore: {counted(crew.busy, 'request')} to {self.name} had no answer yet, and may"
                " still cost something; --resume asks again"
            )

    def _ask_and_keep(
        self, client: Client, ask: Ask, digest: str, session: Session, stop: threading.Event
    ) -> Reply | None:
        """One request, unless others have failed. Raises ModelError also if the answer repeats the
        key.
        """
        spec = self.spec
        budget = session.budget
        reserved = most(spec, ask)
        try:
            if stop.is_set():
                return None
            if budget is not None and not budget.reserve(reserved, spec, stop):
                return None
            spent: float | None = 0.0  # a request that failed is not known to have cost anything
            try:
                reply = client.ask(ask)
                spent = spec.usd(reply.tokens_in, reply.tokens_out)
                check_answer(reply.text, spec)
                reply = replace(
                    reply, model=told(reply.model, spec), finish=told(reply.finish, spec)
                )
                facts: dict[str, Any] = {"sample": ask.place, "seed": ask.seed, "cost": spent}
                if spent is None and reserved:
                    # Without a count of tokens a later run takes the most that it can have cost.
                    facts["at_most"] = reserved
                session.store.add(digest, reply, facts)
                return reply
            finally:
                if budget is not None:
                    budget.settle(reserved, spent)
        except BaseException:
            stop.set()
            raise


def _kept(new: Sequence[tuple[Ask, str]], session: Session) -> str:
    """How many of the requests were answered."""
    done = sum(digest in session.store.replies for _, digest in new)
    return f"{done} of {len(new)} answers came and are kept for --resume"


def _info(spec: ServerSpec) -> ServerInfo:
    info: ServerInfo = {
        "source": spec.base_url,
        "revision": None,
        "family": "server",
        "kind": spec.kind,
        "model_id": spec.model,
        "declared_sampler": spec.sampler,
        "max_tokens": spec.max_tokens,
    }
    if spec.task_max_tokens:
        info["task_max_tokens"] = dict(spec.task_max_tokens)
    info["extra_body"] = dict(spec.extra_body)
    if spec.sampler_fields:
        info["sampler_fields"] = dict(spec.sampler_fields)
    info["temperature_sent"] = spec.temperature
    info["seed_sent"] = spec.seed
    info["dummy"] = False
    return info


def load_server(
    entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions
) -> ServerModel:
    """The model of a registry entry. Nothing is sent to the server yet.

    Args:
        entry: the name of a declared server.
        device: not used; the server has its own.
        dtype: not used; the server has its own.
        options: not used; the server has its own.
    """
    return ServerModel(MODELS.specs()[entry.name])

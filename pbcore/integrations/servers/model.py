"""A model behind a server: concurrent requests, each answer kept as it comes, and answers for the
record.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

from pbcore.errors import InputError
from pbcore.integrations.servers.clients import Client, client_of
from pbcore.integrations.servers.declared import MODELS
from pbcore.integrations.servers.engines import counters, settings, version
from pbcore.integrations.servers.keys import check_answer, told
from pbcore.integrations.servers.money import Budget, most
from pbcore.integrations.servers.record import REPORTED, Served, served
from pbcore.integrations.servers.reply import AnswerStore, Ask, Reply, ask_of
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.base import Generation, Prompt
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.tokenizer import EOS, NoTokenizer, Tokenizer, read_tokenizer
from pbcore.names import SamplerName
from pbcore.results.record import SampleRecord
from pbcore.tasks.base import Sample


@dataclass
class Session:
    """The requests of one cell (`plugin.hookspecs.Asked`): where answers are kept, what they may
    cost, and what was measured.

    `seconds` is wall-clock time of the requests, up to `concurrency` at once; `kept` counts answers
    that were on disk before. `settings` is how the server says that it decodes, `sent` the values
    of the fields that said the sampler.
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

    def rounds(self) -> list[float]:
        """The seconds of the requests; none if some answers were not asked for now."""
        return [] if self.kept else [self.seconds]

    def rates(self) -> dict[str, Any]:
        """Forwards by the server's own counters, over all requests together; empty where it has no
        such counters, or some answers were not asked for now.
        """
        steps = self.counters.get("denoising_steps", 0.0)
        if self.kept or not self.asked or steps <= 0:
            return {}
        tokens = self.counters.get("committed_tokens")
        return {
            "nfe_mean": steps / self.asked,
            "tokens_per_forward": None if tokens is None else tokens / steps,
        }

    def absent(self) -> dict[str, str]:
        count = f"{self.kept} of {self.kept + self.asked} answers were kept from an earlier run"
        together = {"tokens_per_step": "the server counts the forwards of all requests together"}
        return ({"seconds": count} if self.kept else {}) | (together if self.rates() else {})

    def part(self, samples: Sequence[SampleRecord]) -> Served:
        """What the server reported."""
        names = ("concurrency", "asked", "kept", "version", "settings", "sent")
        return served(
            samples,
            provider=self.spec.provider,
            kind=self.spec.kind,
            counters={name: max(0.0, float(value)) for name, value in self.counters.items()},
            **{name: getattr(self, name) for name in names},
        )


class ServerModel:
    """One declared model. `info` is what decides its answers; a session adds what the server
    reports.
    """

    served = True

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.name = spec.name
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
        self._texts: list[str] = []  # of the tokens that answers had, by number
        self._numbers: dict[str, int] = {}

    def check(self, sampler: SamplerName) -> None:
        """Raises InputError for a sampler that is neither declared nor said by `sampler_fields`."""
        reason = self.spec.refusal(sampler)
        if reason is not None:
            raise InputError(f"sampler {sampler}: {reason}")

    @contextmanager
    def session(
        self, store: AnswerStore, budget: Budget | None = None, concurrency: int | None = None
    ) -> Iterator[Session]:
        """Within it `generate` takes answers from `store` and adds new ones to it, with so many
        requests at a time (None: as declared) unless the sampler says how many (`+x4`).
        """
        self._session = Session(self.spec, store, concurrency or self.spec.concurrency, budget)
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
        """One Generation per prompt; up to `concurrency` requests at once. The first request that
        fails for good ends it: those under way are waited for and kept, and no other is sent.
        Raises ModelError, CostLimitError.
        """
        session = self._session or Session(self.spec, AnswerStore(None), self.spec.concurrency)
        session.concurrency = sampler.at_once or session.concurrency
        asks = [
            ask_of(self.spec, one, sampler, max_new_tokens, seed, place)
            for place, one in enumerate(prompts)
        ]
        digests = [ask.digest(self.spec) for ask in asks]
        before = set(session.store.known)
        new = [
            (ask, digest) for ask, digest in zip(asks, digests, strict=True) if digest not in before
        ]
        if new:
            self._ask_all(new, session)
        session.kept += len(asks) - len(new)
        for place, value in chain.from_iterable(ask.fields.items() for ask in asks):
            if value not in session.sent.setdefault(place, []):
                session.sent[place].append(value)
        answers = [
            self.generation(session.store.known[digest], digest in before, ask, prompt, sampler)
            for ask, digest, prompt in zip(asks, digests, prompts, strict=True)
        ]
        # A filtered answer, say, has no forwards: a mean needs those of all.
        told = all(answer.nfe is not None for answer in answers)
        return answers if told else [replace(answer, nfe=None, rows=None) for answer in answers]

    def generation(
        self, reply: Reply, kept: bool, ask: Ask, prompt: Prompt, sampler: SamplerName
    ) -> Generation:
        """An answer; `kept`: it was on disk before. With a step map it has steps, and tokens if
        these are known: what they leave of the task's canvas is EOS, as if given. Raises ModelError
        for a step map that can't be read.
        """
        times = (
            {"seconds": None, "first_token": None} if kept else {}
        )  # only of this session's requests
        cost = self.spec.usd(reply.tokens_in, reply.tokens_out)
        told = {**asdict(reply), "outcomes": list(reply.outcomes), "cost": cost, **times}
        extra = {
            "served": {**{name: told[name] for name in REPORTED}, "kept": kept},
            "max_new_tokens": ask.max_tokens,
        }
        if reply.step_map is None:
            return Generation(reply.text, (), reply.nfe, reply.tokens_out, extra=extra)
        length = len(reply.step_map)
        try:
            if reply.tokens is not None and len(reply.tokens) != length:
                raise ValueError(f"an answer of {len(reply.tokens)} tokens has steps of {length}")
            steps, forwards = decoding_order(reply.step_map, sampler.block)
        except ValueError as error:
            raise ModelError(f"model {self.name} at {self.spec.base_url}: {error}") from None
        left = max(0, prompt.max_new_tokens - length) if isinstance(prompt, Sample) else 0
        ids = map(self._number, (*reply.tokens, *[EOS] * left)) if reply.tokens else ()
        return Generation(
            reply.text, tuple(ids), forwards or None, length, (*steps, *(-1,) * left), extra=extra
        )

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The declared one; None without. Raises ModelError for a folder that has none."""
        return tokenizer_of(self.spec)

    def text(self, ids: Sequence[int]) -> str:
        """The text of tokens by their numbers."""
        return "".join(self._texts[token] for token in ids)

    def _number(self, token: str | int) -> int:
        """The number of a token that an answer has, as text or id."""
        if not isinstance(token, str):
            if self.tokenizer is None:
                raise ModelError(
                    f"model {self.name}: tokens_field holds ids; declare tokenizer, the model's"
                    " folder"
                )
            token = self.tokenizer.decode([token])
        if token not in self._numbers:
            self._numbers[token] = len(self._texts)
            self._texts.append(token)
        return self._numbers[token]

    def _ask_all(self, new: Sequence[tuple[Ask, str]], session: Session) -> None:
        client = self._client = self._client or client_of(self.spec)
        session.version = session.version or version(self.spec)
        session.settings = session.settings or settings(self.spec)
        earlier = counters(self.spec)
        start = time.perf_counter()
        stop = threading.Event()
        pool = ThreadPoolExecutor(
            min(session.concurrency, len(new)), thread_name_prefix=f"pbcore-{self.name}"
        )
        futures = [
            pool.submit(self._ask_and_keep, client, ask, digest, session, stop)
            for ask, digest in new
        ]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException as error:
            # After Ctrl-C answers under way are still kept when they come, but nobody waits for
            # them.
            stop.set()
            pool.shutdown(wait=not isinstance(error, KeyboardInterrupt), cancel_futures=True)
            if not isinstance(error, ModelError):
                raise
            done = sum(digest in session.store.known for _, digest in new)
            raise type(error)(
                f"{error}; {done} of {len(new)} answers came and are kept for --resume"
            ) from None
        pool.shutdown()
        session.seconds += time.perf_counter() - start
        session.asked += len(new)
        for name, value in counters(self.spec).items():
            session.counters[name] = (
                session.counters.get(name, 0.0) + value - earlier.get(name, 0.0)
            )

    def _ask_and_keep(
        self, client: Client, ask: Ask, digest: str, session: Session, stop: threading.Event
    ) -> None:
        """One request, unless others have failed. Raises ModelError also if the answer repeats the
        key.
        """
        spec = self.spec
        budget = session.budget
        reserved = most(self.spec, ask)
        try:
            if stop.is_set() or (budget is not None and not budget.reserve(reserved, spec, stop)):
                return
            spent: float | None = 0.0  # a request that failed is not known to have cost anything
            try:
                reply = client.ask(ask)
                spent = spec.usd(reply.tokens_in, reply.tokens_out)
                check_answer(reply.text, spec)
                reply = replace(
                    reply, model=told(reply.model, spec), finish=told(reply.finish, spec)
                )
                session.store.add(
                    digest, reply, {"sample": ask.place, "seed": ask.seed, "cost": spent}
                )
            finally:
                if budget is not None:
                    budget.settle(reserved, spent)
        except BaseException:
            stop.set()
            raise


def decoding_order(reported: Sequence[int], block: int | None) -> tuple[tuple[int, ...], int]:
    """The 0-based steps of an answer's tokens over all its blocks, and its forwards: Σ over blocks
    of the largest step.

    `reported` are 1-based steps, counted within each block of so many tokens (None: one block), or
    on and on over the answer; the last block may be cut. Raises ValueError for steps that are
    neither.
    """
    if any(type(step) is not int or step < 1 for step in reported):
        raise ValueError("its steps are no whole numbers from 1")
    size = block or max(1, len(reported))
    blocks = [reported[start : start + size] for start in range(0, len(reported), size)]
    later = [steps for steps in blocks[1:] if len(steps) == size]
    if later and all(min(after) > max(before) for before, after in pairwise(blocks)):
        return tuple(step - 1 for step in reported), max(reported)
    if any(min(steps) != 1 for steps in later):
        raise ValueError(
            f"its steps don't begin at 1 in each block of {size}; declare the server's block length"
            " (+b)"
        )
    before = [0, *accumulate(map(max, blocks))]
    return (
        tuple(before[place // size] + step - 1 for place, step in enumerate(reported)),
        before[-1],
    )


def load_server(
    entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions
) -> ServerModel:
    """The model of a registry entry; nothing is asked of the server yet. Device, dtype and options
    are the server's.
    """
    return ServerModel(MODELS.specs()[entry.name])


def tokenizer_of(spec: ServerSpec) -> Tokenizer | None:
    """The tokenizer that a model declares; None without. Raises ModelError for a folder that has
    none.
    """
    if spec.tokenizer is None:
        return None
    folder = Path(spec.tokenizer)
    tokenizer = read_tokenizer(folder, spec.name, None)
    if isinstance(tokenizer, NoTokenizer):
        raise ModelError(
            f"model {spec.name}: tokenizer {spec.tokenizer}: {folder.absolute()} is no folder with"
            " tokenizer.json; give the model's own"
        )
    return tokenizer

"""A server as an engine of `pbcore check engine`: answers of several clients at once.

Doesn't import an SDK before it is made.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pbcore.base.errors import InputError
from pbcore.base.printable import printable, shown
from pbcore.extras.servers.crew import Crew
from pbcore.extras.servers.keys import check_answer, masked
from pbcore.extras.servers.reply import Ask, Reply, ask_of, ended
from pbcore.extras.servers.spec import KINDS, ServerSpec
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName

LATER = 5.0  # seconds after a case's end, in which a connection is closed


class EngineSetting(Protocol):
    """How an engine is to decode, as far as a server is asked for it."""

    @property
    def gen_length(self) -> int: ...

    @property
    def batch(self) -> int: ...

    @property
    def eos_ids(self) -> Sequence[int]: ...

    def sampler(self) -> SamplerName:
        """The sampler that it describes."""


class MadeCheckpoint(Protocol):
    """What a made checkpoint has for a server."""

    def text_of(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""

    def tokens_of(self, text: str) -> list[int] | None:
        """The ids of a text; None for a text that isn't made of its tokens."""

    def prompts(self) -> Sequence[Sequence[int]]:
        """The prompts of its cases."""


class ServedEngine:
    """A server that is checked on a made checkpoint, which it serves.

    Raises ModelError without the SDK or the key.
    """

    def __init__(self, spec: ServerSpec, material: MadeCheckpoint | None, timeout: float) -> None:
        from pbcore.extras.servers.clients import client_of

        self.spec = replace(spec, retries=0, timeout=timeout + LATER)
        self._material = material
        self.timeout = timeout
        self.client = client_of(self.spec)

    def answer(
        self, checkpoint: Path, prompts: Sequence[Sequence[int]], setting: EngineSetting
    ) -> list[dict[str, Any]]:
        """The server's answers, of as many clients at once as the setting says.

        Args:
            checkpoint: the folder, which the server has loaded.
            prompts: ids.
            setting: how it is to decode.

        Raises:
            NotImplementedError: for what its row can't say of the setting.
            ModelError: for a request that fails.
            TimeoutError: where the time is up before.
        """
        sampler = setting.sampler()
        reason = self.spec.refusal(sampler)
        if reason is not None:
            raise NotImplementedError(reason)
        try:
            asks = [
                ask_of(self.spec, self.prompt(ids), sampler, setting.gen_length, 0, place)
                for place, ids in enumerate(prompts)
            ]
        except InputError as error:
            raise NotImplementedError(str(error)) from error
        end = time.monotonic() + self.timeout
        answers: list[dict[str, Any]] = []
        for start in range(0, len(asks), setting.batch):
            replies = self.replies(asks[start : start + setting.batch], end - time.monotonic())
            answers += [self._read(reply, setting) for reply in replies]
        return answers

    def replies(self, asks: Sequence[Ask], seconds: float) -> list[Reply]:
        """The replies to requests that are sent at once.

        Args:
            asks: the requests, each of a client.
            seconds: that they may take together.

        Raises:
            ModelError: for one that fails.
            TimeoutError: where one isn't answered by then.
        """
        replies: dict[int, Reply] = {}

        def work(numbered: tuple[int, Ask]) -> None:
            number, ask = numbered
            replies[number] = self.client.ask(ask)

        crew = Crew(f"pbcore-{self.spec.name}", len(asks), work, list(enumerate(asks)))
        if not crew.finish(max(0.0, seconds)):
            raise TimeoutError(f"gave no answer in {self.timeout:g} s (--timeout)")
        return [replies[number] for number in range(len(asks))]

    def close(self) -> None:
        """Closes its connections."""
        self.client.client.close()

    def prompt(self, ids: Sequence[int]) -> str | list[int]:
        """A prompt as the server takes it: ids, or their text."""
        if KINDS[self.spec.kind].generates:
            return list(ids)
        assert self._material is not None
        return self._material.text_of(ids)

    def _read(self, reply: Reply, setting: EngineSetting) -> dict[str, Any]:
        """The ids of an answer, and its forwards where they are told. Raises ModelError for what is
        no answer.
        """
        check_answer(reply.text, self.spec)
        if not ended(reply):
            raise ModelError(f"the server ended an answer ({printable(str(reply.finish))})")
        ids: list[int] | None = [token for token in reply.tokens or () if isinstance(token, int)]
        if not ids:
            assert self._material is not None
            ids = self._material.tokens_of(reply.text)
        if ids is None:
            text = shown(masked(reply.text, self.spec))
            raise ModelError(f"its answer {text} is not made of the checkpoint's tokens")
        # A server may leave out the text of the token that ends an answer.
        short = len(ids) < setting.gen_length and not set(setting.eos_ids) & set(ids)
        return {"ids": ids, "forwards": reply.nfe, "ended": short}

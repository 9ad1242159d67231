"""A server as an engine of `pbcore check engine`: answers of several clients at once.

Doesn't import an SDK before it is made.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbcore.base.errors import InputError
from pbcore.base.printable import printable, shown
from pbcore.engine_check.engine import Answered
from pbcore.engine_check.setting import sampler_of
from pbcore.engine_check.tokens import text_of, tokens_of
from pbcore.extras.servers.crew import Crew
from pbcore.extras.servers.keys import check_answer, masked
from pbcore.extras.servers.reply import Ask, Reply, ask_of, ended
from pbcore.extras.servers.spec import KINDS, ServerSpec
from pbcore.models.errors import ModelError

if TYPE_CHECKING:
    from pbcore.engine_check.material import Material
    from pbcore.engine_check.setting import Setting

LATER = 5.0  # seconds after a case's end, in which a connection is closed


class ServedEngine:
    """A server that is checked on a made checkpoint, which it serves.

    Raises ModelError without the SDK or the key.
    """

    def __init__(self, spec: ServerSpec, material: Material | None, timeout: float) -> None:
        from pbcore.extras.servers.clients import client_of

        self.spec = replace(spec, retries=0, timeout=timeout + LATER)
        self._specials = {} if material is None else material.specials
        self.timeout = timeout
        self.client = client_of(self.spec)

    def answer(
        self, checkpoint: Path, prompts: Sequence[Sequence[int]], setting: Setting
    ) -> Answered:
        """The server's answers, of as many clients at once as the setting says.

        Args:
            checkpoint: the folder, which the server has loaded.
            prompts: ids.
            setting: how it is to decode; what its row can't say of that isn't tried.
        """
        sampler = sampler_of(setting)
        reason = self.spec.refusal(sampler)
        if reason is not None:
            return Answered(skipped=reason)
        try:
            asks = [
                ask_of(self.spec, self.prompt(ids), sampler, setting.gen_length, 0, place)
                for place, ids in enumerate(prompts)
            ]
        except InputError as error:
            return Answered(skipped=str(error))
        end = time.monotonic() + self.timeout
        answers: list[dict[str, Any]] = []
        try:
            for start in range(0, len(asks), setting.batch):
                replies = self.replies(asks[start : start + setting.batch], end - time.monotonic())
                answers += [self._read(reply, setting) for reply in replies]
        except (ModelError, TimeoutError) as error:
            return Answered(failed=str(error))
        return Answered(answers=answers)

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
        return list(ids) if KINDS[self.spec.kind].generates else text_of(ids, self._specials)

    def _read(self, reply: Reply, setting: Setting) -> dict[str, Any]:
        """The ids of an answer, and its forwards where they are told. Raises ModelError for what is
        no answer.
        """
        check_answer(reply.text, self.spec)
        if not ended(reply):
            raise ModelError(f"the server ended an answer ({printable(str(reply.finish))})")
        ids: list[int] | None = [token for token in reply.tokens or () if isinstance(token, int)]
        if not ids:
            ids = tokens_of(reply.text, self._specials)
        if ids is None:
            text = shown(masked(reply.text, self.spec))
            raise ModelError(f"its answer {text} is not made of the checkpoint's tokens")
        # A server may leave out the text of the token that ends an answer.
        short = len(ids) < setting.gen_length and not set(setting.eos_ids) & set(ids)
        return {"ids": ids, "forwards": reply.nfe, "ended": short}

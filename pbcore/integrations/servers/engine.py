"""A server as an engine of `pbcore check engine`: its row, and answers of several clients at once.

Doesn't import an SDK.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pbcore.base.errors import InputError
from pbcore.base.printable import counted, printable, shown
from pbcore.engine_check.engine import Answered
from pbcore.engine_check.setting import sampler_of
from pbcore.engine_check.tokens import text_of, tokens_of
from pbcore.integrations.servers.crew import Crew
from pbcore.integrations.servers.declared import MODELS, read_specs
from pbcore.integrations.servers.keys import check_answer, masked
from pbcore.integrations.servers.reply import Ask, Reply, ask_of, ended
from pbcore.integrations.servers.spec import KINDS, ServerSpec
from pbcore.models.errors import ModelError

if TYPE_CHECKING:
    from pbcore.engine_check.material import Material
    from pbcore.engine_check.setting import Setting

NAME = "engine"  # of a row that the command line describes
UNKNOWN = "unknown"  # its model, until the server has told it
LATER = 5.0  # seconds after a case's end, in which a connection is closed


class ServedEngine:
    """A server that is checked on a made checkpoint, which it serves.

    Raises ModelError without the SDK or the key.
    """

    def __init__(self, spec: ServerSpec, material: Material, timeout: float) -> None:
        from pbcore.integrations.servers.clients import client_of

        self.spec = replace(spec, retries=0, timeout=timeout + LATER)
        self._specials = material.specials
        self._timeout = timeout
        self._client = client_of(self.spec)

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
                ask_of(self.spec, self._prompt(ids), sampler, setting.gen_length, 0, place)
                for place, ids in enumerate(prompts)
            ]
        except InputError as error:
            return Answered(skipped=str(error))
        end = time.monotonic() + self._timeout
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
            replies[number] = self._client.ask(ask)

        crew = Crew(f"pbcore-{self.spec.name}", len(asks), work, list(enumerate(asks)))
        if not crew.finish(max(0.0, seconds)):
            raise TimeoutError(f"gave no answer in {self._timeout:g} s (--timeout)")
        return [replies[number] for number in range(len(asks))]

    def close(self) -> None:
        """Closes its connections."""
        self._client.client.close()

    def _prompt(self, ids: Sequence[int]) -> str | list[int]:
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


class ServedEngines:
    """Servers as engines (`engine_check.source.EngineSource`)."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Options that describe a server as its row in a models file does."""
        group = parser.add_argument_group("a server, as in a row of a models file")
        group.add_argument("--url", metavar="URL", help="its base_url; it has loaded DIR/FAMILY")
        group.add_argument("--kind", choices=list(KINDS), help="what it is (openai)")
        group.add_argument("--model", metavar="ID", help="the model's id (the one that it lists)")
        group.add_argument("--key", metavar="NAME", help="the environment variable with its key")
        group.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="another key of the row, its value in YAML, such as stream=false (repeatable)",
        )
        group.add_argument(
            "--models",
            action="append",
            default=[],
            type=Path,
            metavar="FILE",
            help="a models file; --engine NAME then names a row of it",
        )

    def asked(
        self, args: argparse.Namespace, material: Material, folder: Path
    ) -> ServedEngine | None:
        """The server of --url; None without. Raises InputError for a row that can't be meant, and
        ModelError where no server is there.
        """
        from pbcore.models.registry import add_models_file

        for file in args.models:
            try:
                add_models_file(file)
            except OSError as error:
                raise InputError(f"--models: {error}") from error
        if args.url is None:
            for name in ("kind", "model", "key", "set"):
                if getattr(args, name):
                    raise InputError(f"--{name} is of a server; give its address with --url, too")
            return None
        if args.engine is not None:
            raise InputError("--engine and --url are two engines; check one after the other")
        spec = described(args, folder)
        return self._begun(spec, args.timeout, material, folder)

    def named(
        self, name: str, timeout: float, material: Material, folder: Path
    ) -> ServedEngine | None:
        """The server of a row; None for a name without one. Raises ModelError where no server is
        there.
        """
        spec = MODELS.specs().get(name)
        return None if spec is None else self._begun(spec, timeout, material, folder)

    def _begun(
        self, spec: ServerSpec, timeout: float, material: Material, folder: Path
    ) -> ServedEngine:
        """The engine of a row, once its server is known to be there."""
        if KINDS[spec.kind].generates and spec.tokenizer is None:
            spec = replace(spec, tokenizer=str(folder))
        if spec.model == UNKNOWN:
            spec = replace(spec, model=only_model(spec, timeout, folder))
        engine = ServedEngine(spec, material, timeout)
        untold = engine._client.check()
        if untold is not None:
            print(f"pbcore: {untold}", flush=True)
        return engine


def described(args: argparse.Namespace, folder: Path) -> ServerSpec:
    """The row that options describe, read as one of a models file.

    Args:
        args: `url`, `kind`, `model`, `key` and `set`.
        folder: of the made checkpoint.

    Raises:
        InputError: for a row that can't be meant.
    """
    entry: dict[str, Any] = {"base_url": args.url, "model": args.model or UNKNOWN}
    for name in ("kind", "key"):
        if getattr(args, name) is not None:
            entry[name] = getattr(args, name)
    for text in args.set:
        key, sign, value = text.partition("=")
        if not sign:
            raise InputError(f"--set {printable(text)}: give KEY=VALUE, such as stream=false")
        try:
            entry[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            said = " ".join(str(error).split())
            raise InputError(f"--set {printable(text)}: {printable(said, 200)}") from None
    (spec,) = read_specs(yaml.safe_dump({NAME: entry}), "--url").values()
    return spec


def only_model(spec: ServerSpec, timeout: float, folder: Path) -> str:
    """The id of a server's model: the only one that it lists, or the folder where it lists none.

    Args:
        spec: the server.
        timeout: seconds for its list.
        folder: of the made checkpoint.

    Raises:
        InputError: for a list of several.
    """
    from pbcore.integrations.servers.clients import client_of

    listed = client_of(replace(spec, retries=0, timeout=timeout)).listed()
    if len(listed) > 1:
        names = ", ".join(printable(masked(name, spec)) for name in listed[:5])
        raise InputError(f"{spec.base_url} has {counted(len(listed), 'model')} ({names}); --model")
    return listed[0] if listed else str(folder.resolve())


SOURCE = ServedEngines()

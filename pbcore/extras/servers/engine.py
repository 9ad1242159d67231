"""Servers as engines of `pbcore check engine`: options that describe a row, and rows by name.

Doesn't import an SDK.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from pbcore.base.errors import InputError
from pbcore.base.printable import counted, printable
from pbcore.extras.servers.declared import MODELS, read_specs
from pbcore.extras.servers.keys import masked
from pbcore.extras.servers.served_engine import MadeCheckpoint, ServedEngine
from pbcore.extras.servers.spec import KINDS, ServerSpec

NAME = "engine"  # of a row that the command line describes
UNKNOWN = "unknown"  # its model, until the server has told it


class ServedEngines:
    """Servers as engines of `pbcore check engine`: `made` reads the checkpoint of its folder."""

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
        group.add_argument(
            "--fields",
            action="store_true",
            help="see whether each of its sampler_fields has an effect; without DIR/FAMILY on"
            " questions of a task",
        )

    def instead(self, args: argparse.Namespace, made: Callable[[], MadeCheckpoint]) -> int | None:
        """Checks the fields of a row, with --fields, and returns the exit status; None without.
        Raises InputError for a row without fields, and ModelError where no server is there.
        """
        if not args.fields:
            return None
        if args.k is not None:
            raise InputError("-k chooses cases, and --fields has none; leave one of them out")
        from pbcore.extras.servers.field_report import run_fields

        material = None if args.folder is None else made()
        spec = self._row(args)
        if spec is None:
            raise InputError("--fields is of a server: give --url, or --engine NAME of --models")
        if not spec.sampler_fields:
            raise InputError(
                f"{printable(spec.name)} has no sampler_fields, so no request says a sampler; there"
                " is nothing to check"
            )
        engine = self._begun(spec, args.timeout, material, args.folder)
        try:
            return run_fields(engine, material, args.json)
        finally:
            engine.close()

    def _row(self, args: argparse.Namespace) -> ServerSpec | None:
        """The row of --url, or that --engine names; None for none. Raises InputError."""
        from pbcore.models.registry import add_models_file

        for file in args.models:
            try:
                add_models_file(file)
            except OSError as error:
                raise InputError(f"--models: {error}") from error
        if args.url is not None and args.engine is not None:
            raise InputError("--engine and --url are two engines; check one after the other")
        if args.url is not None:
            return described(args)
        for name in ("kind", "model", "key", "set"):
            if getattr(args, name):
                raise InputError(f"--{name} is of a server; give its address with --url, too")
        return MODELS.specs().get(args.engine)

    def asked(
        self, args: argparse.Namespace, material: MadeCheckpoint, folder: Path
    ) -> ServedEngine | None:
        """The server of --url, or the row of --engine; None without. Raises InputError for a row
        that can't be meant, and ModelError where no server is there.
        """
        spec = self._row(args)
        return None if spec is None else self._begun(spec, args.timeout, material, folder)

    def named(
        self, name: str, timeout: float, material: MadeCheckpoint, folder: Path
    ) -> ServedEngine | None:
        """The server of a row; None for a name without one. Raises ModelError where no server is
        there.
        """
        spec = MODELS.specs().get(name)
        return None if spec is None else self._begun(spec, timeout, material, folder)

    def _begun(
        self, spec: ServerSpec, timeout: float, material: MadeCheckpoint | None, folder: Path | None
    ) -> ServedEngine:
        """The engine of a row, once its server is known to be there."""
        if KINDS[spec.kind].generates and spec.tokenizer is None and folder is not None:
            spec = replace(spec, tokenizer=str(folder))
        if spec.model == UNKNOWN:
            spec = replace(spec, model=only_model(spec, timeout, folder))
        engine = ServedEngine(spec, material, timeout)
        untold = engine.client.check()
        if untold is not None:
            print(f"pbcore: {untold}", flush=True)
        return engine


def described(args: argparse.Namespace) -> ServerSpec:
    """The row that `url`, `kind`, `model`, `key` and `set` describe, read as one of a models file.
    Raises InputError for one that can't be meant.
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


def only_model(spec: ServerSpec, timeout: float, folder: Path | None) -> str:
    """The id of a server's model: the only one that it lists, or the folder where it lists none.

    Args:
        spec: the server.
        timeout: seconds for its list.
        folder: of the made checkpoint, if there is one.

    Raises:
        InputError: for a list of several, and where neither is known.
    """
    from pbcore.extras.servers.clients import client_of

    listed = client_of(replace(spec, retries=0, timeout=timeout)).listed()
    if len(listed) > 1:
        names = ", ".join(printable(masked(name, spec)) for name in listed[:5])
        raise InputError(f"{spec.base_url} has {counted(len(listed), 'model')} ({names}); --model")
    if not listed and folder is None:
        raise InputError(f"{spec.base_url} lists no model; give its id with --model")
    return listed[0] if listed or folder is None else str(folder.resolve())


SOURCE = ServedEngines()

"""`pbcore check engine`: makes small checkpoints with known answers, and checks engines on them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pbcore.base.errors import InputError
from pbcore.base.links import docs

if TYPE_CHECKING:
    from pbcore.extras.check.engine.material import Material
    from pbcore.extras.check.engine.source import AnyEngine

EPILOG = f"""\
First make checkpoints, then check an engine on one of them:
  pbcore check engine --make DIR
  pbcore check engine DIR/llada --engine FILE.py
  pbcore check engine DIR/llada --url URL --kind openai --set sampler=threshold-0.9+b8
FILE.py has generate(checkpoint, prompts, setting). What these are: {docs("engines.md")}.
Status 0: all equal; 1: a fault; 2: wrong use; 5: nothing was tried."""
OF_MAKE = ("family", "seed", "published_ids", "code")
PARSER = {"epilog": EPILOG, "formatter_class": argparse.RawDescriptionHelpFormatter}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    from pbcore.extras.check.engine.source import SOURCES

    parser.add_argument("folder", nargs="?", type=Path, help="a made checkpoint, DIR/llada")
    parser.add_argument(
        "--make", type=Path, metavar="DIR", help="write small checkpoints, DIR/FAMILY each"
    )
    parser.add_argument(
        "--family", nargs="+", metavar="NAME", help="with --make: only these families"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="with --make: of weights and prompts (0)"
    )
    parser.add_argument(
        "--published-ids",
        action="store_true",
        default=None,
        help="with --make: the vocabulary's published size and special ids",
    )
    parser.add_argument(
        "--code",
        action="store_true",
        default=None,
        help="with --make: also a modelling file, for engines that run a checkpoint's own code",
    )
    parser.add_argument(
        "--engine", metavar="NAME", help="FILE.py with generate, module:function, or pbcore"
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="of a case (60)"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results as JSON")
    parser.add_argument("-k", metavar="WORDS", help="only cases whose name has all these words")
    for source in SOURCES.all().values():
        source.add_arguments(parser)
    parser.set_defaults(plain=parser.parse_args([]))


def run(args: argparse.Namespace) -> int:
    """Makes checkpoints, or checks an engine on one. Raises InputError for wrong use."""
    from pbcore.extras.check.engine.material import read_material
    from pbcore.extras.check.engine.source import SOURCES

    if args.make is not None:
        others = [name for name in _given(args) if name not in ("make", *OF_MAKE)]
        if others:
            told = ", ".join(_option(name) for name in others)
            raise InputError(
                f"--make only writes: leave out {told}; check an engine with a second command"
            )
        return _make(args)
    for name in _given(args):
        if name in OF_MAKE:
            raise InputError(f"{_option(name)} says what --make DIR writes; give --make DIR, too")
    if not args.timeout > 0:
        raise InputError(f"--timeout {args.timeout:g}: give a number of seconds above 0")
    for source in SOURCES.all().values():
        status = source.instead(args, lambda: read_material(args.folder))
        if status is not None:
            return status
    if args.folder is None:
        raise InputError("name a made checkpoint, such as DIR/llada, or make some with --make DIR")
    return _check(args)


def _given(args: argparse.Namespace) -> list[str]:
    """The arguments that the command line names, in the order of the help."""
    return [name for name, value in vars(args.plain).items() if getattr(args, name) != value]


def _option(name: str) -> str:
    """An argument as it is typed; the folder by what it is."""
    if name == "folder":
        return "the folder"
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


def _make(args: argparse.Namespace) -> int:
    from pbcore.extras.check.engine.make import families, make

    for family in families(args.family):
        material = make(
            args.make / family,
            family,
            args.seed or 0,
            published_ids=bool(args.published_ids),
            code=bool(args.code),
            progress=print,
        )
        rows = sum(len(case.rows) for case in material.cases)
        print(f"{args.make / family}: {len(material.cases)} cases, {rows} answers", flush=True)
    return 0


def _engine(args: argparse.Namespace, material: Material) -> AnyEngine:
    """The engine that the options name. Raises InputError for none."""
    from pbcore.extras.check.engine.source import SOURCES, engine_of

    for source in SOURCES.all().values():
        asked = source.asked(args, material, args.folder)
        if asked is not None:
            return asked
    if args.engine is None:
        raise InputError(
            "name the engine: --engine FILE.py, module:function, or pbcore; or a server: --url"
        )
    return engine_of(args.engine, args.timeout, material, args.folder)


def _check(args: argparse.Namespace) -> int:
    from pbcore.extras.check.engine.material import read_material
    from pbcore.extras.check.engine.report import exit_status, json_text, line, summary
    from pbcore.extras.check.engine.run import check
    from pbcore.results.rundir import write_atomic

    material = read_material(args.folder)
    words = (args.k or "").split()
    chosen = [case.id for case in material.cases if all(word in case.id for word in words)]
    if not chosen:
        raise InputError(f"-k {args.k!r}: no case has these words; all: {material.cases[0].id}, …")
    results = []
    told = []
    for result in check(args.folder, material, _engine(args, material), chosen):
        if isinstance(result, str):
            told.append(result)
            continue
        results.append(result)
        print(line(result), flush=True)
    print("\n" + "\n".join([*told, summary(results)]))
    if args.json is not None:
        write_atomic(args.json, json_text(results) + "\n")
    return exit_status(results)

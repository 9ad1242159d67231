"""`pbcore models`: every model name, its source, and whether it is available on this machine."""

from __future__ import annotations

import argparse
import os
from typing import Any

from tabulate import tabulate

from pbcore.models.entry import ModelEntry
from pbcore.models.registry import add_models_file, all_entries, missing_here
from pbcore.models.servers.spec import ServerSpec, server_specs


def add_parser(subparsers: Any) -> None:
    """Adds `models` to the command line."""
    parser = subparsers.add_parser("models", help="list the models and whether they are available on this machine")
    parser.add_argument("--long", action="store_true", help="also print revisions, token ids and published settings")
    parser.add_argument("--models", action="append", default=[], metavar="FILE", help="also those of a YAML file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the table."""
    for file in args.models:
        add_models_file(file)
    entries = all_entries()
    if args.long:
        for entry in entries:
            print(f"{entry.name}\n{_details(entry)}\n")
    else:
        rows = [(entry.name, entry.family, _source(entry), availability(entry)) for entry in entries]
        print(tabulate(rows, headers=["model", "family", "source", "availability"]))
    shaped = [entry.name for entry in entries if entry.shape is not None]
    print(f"\nRandom weights, for speed and memory: NAME:dummy, NAME:dummy-l2 (two layers) for {', '.join(shaped)}")
    print("A checkpoint folder or a hub id (owner/name) is also a valid name.")
    return 0


def availability(entry: ModelEntry) -> str:
    """One of: ready, cached, download (not downloaded yet), not in this installation."""
    if entry.embedded:
        return "not in this installation" if missing_here(entry) else "ready"
    if entry.family == "server":
        return _key(server_specs()[entry.name])
    if entry.source is None:
        return "ready"
    from huggingface_hub import try_to_load_from_cache

    return (
        "cached"
        if isinstance(try_to_load_from_cache(entry.source, "config.json", revision=entry.revision), str)
        else "download"
    )


def _key(spec: ServerSpec) -> str:
    if spec.key is None:
        return "server, no key needed"
    return f"server, {spec.key} {'set' if os.environ.get(spec.key) else 'not set'}"


def _source(entry: ModelEntry) -> str:
    return entry.source or ("registered by a package or conftest" if entry.factory else entry.about)


def _details(entry: ModelEntry) -> str:
    fields = {
        "family": entry.family,
        "source": _source(entry),
        "revision": entry.revision,
        "availability": availability(entry),
        "mask id": entry.mask_id,
        "eos id": entry.eos_id,
        "logits": None
        if entry.shift is None
        else ("shifted: position i is predicted at i - 1" if entry.shift else "as is"),
        "chat": entry.chat,
        "published settings": ", ".join(f"{key} {value}" for key, value in entry.settings.items()) or None,
    }
    return "\n".join(f"  {key}: {value}" for key, value in fields.items() if value is not None)

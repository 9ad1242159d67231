"""`pbcore list models`: every model name, its source, and whether it is available on this
machine.
"""

import argparse

from pbcore.base.tabular import Table, terminal
from pbcore.base.text import terminal_width
from pbcore.models.catalog import availability, details, source_of
from pbcore.models.families import families_table, keys_table
from pbcore.models.registry import add_models_file, all_entries


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--long", action="store_true", help="also print revisions, token ids and published settings"
    )
    parser.add_argument(
        "--models", action="append", default=[], metavar="FILE", help="also those of a YAML file"
    )
    parser.add_argument(
        "--families", action="store_true", help="print the table of families in docs/models.md"
    )
    parser.add_argument(
        "--keys",
        action="store_true",
        help="print which keys of a checkpoint's files are read, ignored or refused",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the table."""
    for file in args.models:
        add_models_file(file)
    if args.families:
        print(terminal(families_table(), terminal_width()))
        return 0
    if args.keys:
        print(terminal(keys_table(), terminal_width()))
        return 0
    entries = all_entries()
    if args.long:
        for entry in entries:
            print(f"{entry.name}\n{details(entry)}\n")
    else:
        rows = [
            (entry.name, entry.loaded_as, source_of(entry), availability(entry))
            for entry in entries
        ]
        print(terminal(Table(["model", "family", "source", "availability"], rows)))
    shaped = [entry.name for entry in entries if entry.dummy_name is not None]
    print(
        "\nRandom weights, for speed and memory: NAME:dummy, NAME:dummy-l2 (two layers) for"
        f" {', '.join(shaped)}"
    )
    print("A checkpoint folder or a hub id (owner/name) is also a valid name.")
    return 0

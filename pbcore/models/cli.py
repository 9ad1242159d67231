"""`pbcore models`: every model name, its source, and whether it is available on this machine."""

import argparse
from typing import Any

from pbcore.base.tabular import Table, terminal
from pbcore.base.text import terminal_width
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.families import FAMILIES, cached_config, families_table
from pbcore.models.registry import add_models_file, all_entries, missing_here


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "models", help="list the models and whether they are available on this machine"
    )
    parser.add_argument(
        "--long", action="store_true", help="also print revisions, token ids and published settings"
    )
    parser.add_argument(
        "--models", action="append", default=[], metavar="FILE", help="also those of a YAML file"
    )
    parser.add_argument(
        "--families", action="store_true", help="print the table of families in docs/models.md"
    )
    parser.set_defaults(run=run)
    commands = parser.add_subparsers(metavar="COMMAND")
    check = commands.add_parser(
        "check", help="compare how we load a checkpoint with its authors' own code"
    )
    check.add_argument("name", help="a name of the table, a checkpoint folder or a hub id")
    check.add_argument(
        "--against-remote",
        action="store_true",
        required=True,
        help="compare with the authors' code",
    )
    check.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="allow the code that comes with the checkpoint",
    )
    check.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    for option, what in (
        ("mask-id", "mask token id"),
        ("eos-id", "EOS token id"),
        ("block", "block length"),
    ):
        check.add_argument(
            f"--{option}", type=int, metavar="N", help=f"{what}, if config.json has none"
        )
    check.set_defaults(run=run_check)


def run(args: argparse.Namespace) -> int:
    """Prints the table."""
    for file in args.models:
        add_models_file(file)
    if args.families:
        print(terminal(families_table(), terminal_width()))
        return 0
    entries = all_entries()
    if args.long:
        for entry in entries:
            print(f"{entry.name}\n{_details(entry)}\n")
    else:
        rows = [
            (entry.name, entry.family, _source(entry), availability(entry)) for entry in entries
        ]
        print(terminal(Table(["model", "family", "source", "availability"], rows)))
    shaped = [entry.name for entry in entries if entry.shape is not None]
    print(
        "\nRandom weights, for speed and memory: NAME:dummy, NAME:dummy-l2 (two layers) for"
        f" {', '.join(shaped)}"
    )
    print("A checkpoint folder or a hub id (owner/name) is also a valid name.")
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Prints the comparison; 1 if a likeliest token differs. Raises as `compare`."""
    from pbcore.models.remote_check import compare_with_remote

    options = LoadOptions(mask_id=args.mask_id, eos_id=args.eos_id, block=args.block)
    rows = compare_with_remote(
        args.name, trust_remote_code=args.trust_remote_code, device=args.device, options=options
    )
    table = [
        (i, row.tokens, f"{row.difference:.1e}", f"{row.same} of {row.tokens}")
        for i, row in enumerate(rows)
    ]
    heads = ["prompt", "tokens", "largest difference of a logit", "same likeliest token"]
    print(terminal(Table(heads, table, "rrrr")))
    equal = all(row.same == row.tokens for row in rows)
    print(
        f"\n{args.name}:"
        f" {'the same likeliest token everywhere' if equal else 'not what its authors published'}"
    )
    return 0 if equal else 1


def availability(entry: ModelEntry) -> str:
    """One of: ready, cached, download (not downloaded yet), not in this installation."""
    if entry.embedded:
        return "not in this installation" if missing_here(entry) else "ready"
    if entry.status is not None:
        return entry.status()
    if entry.source is None:
        return "ready"
    return "download" if cached_config(entry.source, entry.revision) is None else "cached"


def _source(entry: ModelEntry) -> str:
    return entry.source or ("registered by a package or conftest" if entry.factory else entry.about)


def _details(entry: ModelEntry) -> str:
    weights = None
    if entry.shape is not None and entry.family == "masked":
        from pbcore.models.architecture import architecture
        from pbcore.models.checkpoints import empty_model
        from pbcore.models.network import count_parameters

        count = count_parameters(empty_model(architecture(entry.shape, entry.name)))
        weights = f"{count / 1e9:.2f} billion parameters, {2 * count / 1e9:.1f} GB in bfloat16"
    known = FAMILIES.get(entry.architecture or "")
    columns = {} if known is None else known.columns()
    fields = {
        "family": entry.family,
        "source": _source(entry),
        "revision": entry.revision,
        "availability": availability(entry),
        "mask id": entry.mask_id,
        "eos id": entry.eos_id,
        "block length": entry.block,
        "logits": {None: None, True: "shifted: position i is predicted at i - 1", False: "as is"}[
            entry.shift
        ],
        "chat": entry.chat,
        **{
            name: columns.get(name)
            for name in ("loaded as", "cache", "threshold", "samplers", "known from")
        },
        "weights": weights,
        "published settings": (
            ", ".join(f"{key} {value}" for key, value in entry.settings.items()) or None
        ),
    }
    return "\n".join(f"  {key}: {value}" for key, value in fields.items() if value is not None)

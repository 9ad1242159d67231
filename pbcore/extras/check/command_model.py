"""`pbcore check model`: how pbcore loads a checkpoint beside its authors' own code."""

import argparse

from pbcore.base.tabular import Table, terminal
from pbcore.models.entry import LoadOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("name", help="a name of the table, a checkpoint folder or a hub id")
    parser.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="allow the code that comes with the checkpoint",
    )
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    for option, what in (
        ("mask-id", "mask token id"),
        ("eos-id", "EOS token id"),
        ("block", "block length"),
    ):
        parser.add_argument(
            f"--{option}", type=int, metavar="N", help=f"{what}, if config.json has none"
        )


def run(args: argparse.Namespace) -> int:
    """Prints the comparison; 1 if a likeliest token differs. Raises as `compare`."""
    from pbcore.extras.check.remote import compare_with_remote

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

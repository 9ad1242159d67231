"""`pbcore export RUN --to parallelbench-site DIR`: a run in the layout of the official site."""

import argparse
from pathlib import Path

from pbcore.base.errors import InputError

NAME = "parallelbench-site"


class Site:
    """An `exchange.export.Exporter`."""

    usage = f"--to {NAME} DIR"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the option."""
        parser.add_argument(
            "--to",
            nargs=2,
            metavar=(NAME, "DIR"),
            help="folder for a run in the layout of the benchmark's own site",
        )

    def asked(self, args: argparse.Namespace) -> bool:
        """Raises InputError for another layout."""
        if args.to and args.to[0] != NAME:
            raise InputError(f"--to {args.to[0]}: the layout is {NAME}: {self.usage}")
        return bool(args.to)

    def send(self, path: Path, args: argparse.Namespace) -> list[str]:
        """Writes the files, and names them and what was left out."""
        from pbcore.extras.paper.site import export_site  # imports matplotlib

        files, left_out = export_site(path, Path(args.to[1]))
        return [*map(str, files), *left_out]


SITE = Site()

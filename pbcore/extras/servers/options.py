"""The options of a run with models behind servers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pbcore.base.errors import InputError
from pbcore.base.links import docs
from pbcore.grid.option import AddedNeed, OptionGroup, Role, ValueKind, levels, option

dollars = ValueKind(
    r"(\d{1,9}(?:\.\d{1,9})?)",
    lambda text: float(text) or None,
    "is no amount in USD; write e.g. 5 or 0.50",
)


SERVED = AddedNeed("has a model behind a server (add --model NAME)", lambda use: use.entry.served)
LISTED = AddedNeed(
    "has a model of such a file or behind a server (add --model NAME)",
    lambda use: use.entry.served or use.entry.listed,
)


@dataclass(frozen=True, slots=True)
class ServerOptions(OptionGroup):
    """Which models there are beside the package's own, and what their answers may cost."""

    title: ClassVar[str] = "Models behind servers, and of files"
    models: tuple[Path, ...] = option(
        Role.ANSWERS,
        "YAML file with models behind servers, and checkpoints under names of your own"
        f" (repeatable); more: {docs('servers.md')}",
        Path,
        many=True,
        metavar="FILE",
        recorded=False,
        need=LISTED,
    )
    concurrency: tuple[int, ...] = option(
        Role.COMPUTES,
        "requests at a time to models behind servers (default: as declared); several, 1,4,16,64:"
        " each cell at each of them",
        levels,
        (),
        metavar="N",
        need=SERVED,
    )
    max_cost: float | None = option(
        Role.SELECTS,
        "stop before the answers of priced models behind servers cost more than USD, earlier runs"
        " of the same directory included",
        dollars,
        metavar="USD",
        need=SERVED,
    )

    @property
    def at_once(self) -> Sequence[int]:
        return self.concurrency

    def prepare(self) -> None:
        from pbcore.models.registry import add_models_file

        try:
            for file in self.models:
                add_models_file(file)
        except (OSError, ValueError) as error:
            raise InputError(f"--models: {error}") from error

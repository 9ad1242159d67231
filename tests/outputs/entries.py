"""Small made cells of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

from pbcore.results import CellRecord, Conditions, RunDir, create, error_cell
from pbcore.results.record import part_class
from pbcore.results.rundir import StoredCell
from pbcore.theory.ceiling import Ceiling
from tests.results import factory

Entry = tuple[CellRecord, list[Any]]
Check = Callable[[str], None]


def under(entry: Entry, **conditions: Any) -> Entry:
    return replace(entry[0], conditions=replace(entry[0].conditions, **conditions)), entry[1]


def changed(entry: Entry, **facts: Any) -> Entry:
    return replace(entry[0], **facts), entry[1]


def failed(model: str, task: str, sampler: str) -> Entry:
    cell = CellRecord(
        f"{model}/{task.split('/')[1]}/{sampler}", model, task, sampler, Conditions.unknown()
    )
    return error_cell(cell, "RuntimeError: out of memory\ntrace"), []


# As it is read where nothing knows servers.
SERVED: Any = (part_class() or dict)(
    provider="example.org",
    kind="openai",
    version="1.2",
    concurrency=4,
    asked=15,
    kept=5,
    models={"far-1": 20},
    first_asked="2026-03-04T05:06:07+00:00",
    last_asked="2026-03-05T05:06:07+00:00",
    tokens_in=1200,
    tokens_out=400,
    cost=0.0123,
    outcomes={"length": 2, "refusal": 1},
    first_token=0.1,
    request=0.5,
    requests={"p50": 0.5, "p90": 0.9, "p99": 1.5},
)


def varied() -> list[Entry]:
    """Cells of all kinds that a report tells apart."""
    grid = factory.grid(tasks=("waiting_line/copy", "waiting_line/shuffle"), ks=(1, 2, 4))
    entries = [
        changed(entry, ceiling=Ceiling(1 / k, "exact", 1 / k, 1 / k), bits_lost=k / 4)
        if entry[0].model == "tiny" and entry[0].task.endswith("shuffle")
        else changed(entry, ceiling=Ceiling(1.0, "closed", 1.0, 1.0), bits_lost=0.0)
        for entry in grid
        if (k := int(entry[0].sampler[-1]))
    ]
    entries += [
        factory.cell("tiny", "puzzle/sudoku", "confidence-k1", 0.75, canvas=16),
        factory.cell("tiny", "puzzle/sudoku", "confidence-k2", 0.5, nfe=8, canvas=16),
        factory.cell("tiny", "waiting_line/copy", "spec-8", 1.0, nfe=8, rows=30),
        factory.cell("tiny", "waiting_line/shuffle", "spec-8", 0.95, nfe=12, rows=41, tokens=7626),
        factory.failing(
            "item missing",
            *factory.cell("tiny", "waiting_line/sort", "threshold-0.9+b8", 0.6, nfe=5),
        ),
        under(
            factory.cell(
                "tiny", "text_writing/summarization", "random-k2", 0.25, headline="rouge_l"
            ),
            seeds=[0, 1],
        ),
        changed(
            factory.cell("tiny", "text_writing/w2s_easy", "random-k2", 1.0, headline="grammar"),
            scores={},
            absent={"grammar": "LanguageTool is not installed"},
        ),
        changed(
            factory.cell("far", "waiting_line/copy", "served", 0.9),
            **dict.fromkeys(
                ("nfe_mean", "nfe_median", "nfe_max", "tokens_per_step", "tokens_per_forward")
            ),
            **dict.fromkeys(("rows_mean", "tokens_per_row")),
            served=SERVED,
            seconds=4.0,
            samples_per_second=5.0,
            tokens_per_second=90.0,
        ),
        under(factory.cell("near:dummy", "waiting_line/copy", "random-k1", 0.0), dummy=True),
        under(
            factory.cell("other", "waiting_line/copy", "random-k1", 0.8),
            shared_device=True,
            dtype="bfloat16",
        ),
        under(
            factory.cell("other", "waiting_line/copy", "random-k2", 0.4),
            model_info={"remote_code": True},
        ),
        changed(
            factory.cell("other", "waiting_line/shuffle", "random-k1", 0.7, nfe=20),
            seconds=None,
            samples_per_second=None,
            tokens_per_second=None,
            seconds_estimated=2.5,
            forwards_shared=300,
            forwards_computed=100,
            text_after_eos=3,
        ),
        failed("other", "puzzle/sudoku", "random-k1"),
    ]
    return entries


EXPLORED: dict[str, Any] = {
    "kendall": 0.5,
    "remasks": 1.25,
    "flip_flops": 0.5,
    "distinct": 2.5,
    "pass_at": {"1": 0.5, "4": 0.875},
    "law": {
        "kernel": 0.25,
        "kernel_by_chance": 0.125,
        "entropy": 1.5,
        "entropy_exact": 2.0,
        "places": 0.5,
        "places_by_chance": 0.25,
    },
}
FACTS: dict[str, Any] = {
    "command": ["pytest", "benches", "-k", "a b"],
    "started": "2026-03-04T05:06:07",
    "profile": "ci",
    "shard": "1/2",
    "seeds": [0, 1],
    "data_source": "own",
    "prompts": "v1",
    "machine": {"cpu": "x", "gpu": None, "note": "", "gpus": [], "cpus": 2},
    "versions": {"torch": "2"},
}


def written(root: Path, entries: Iterable[Entry], name: str = "a", **facts: Any) -> RunDir:
    run = create(root, name)
    run.write_run(FACTS | facts)
    for record, samples in entries:
        run.write_cell(record, samples)
    return run


def stored(entries: Iterable[Entry]) -> list[StoredCell]:
    return [StoredCell(cell, tuple(samples)) for cell, samples in entries]


class _Reader(HTMLParser):
    """The text of a page, a line per heading, paragraph, entry of a list and row of a table."""

    HEADINGS: ClassVar = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### "}
    LINES = frozenset(
        "title h1 h2 h3 h4 p li dt dd caption tr summary figure figcaption label button nav".split()  # noqa: SIM905
    )

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._line: list[str] = []
        self._silent = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._silent = True
        elif tag in self.LINES:
            self.flush()
            self._line.append(self.HEADINGS.get(tag, ""))
        elif tag in ("td", "th") and "".join(self._line).strip():
            self._line.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._silent = False
        elif tag in self.LINES:
            self.flush()

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._line.append(data)

    def flush(self) -> None:
        """Ends a line; one without text is left out."""
        line = " ".join("".join(self._line).split())
        if line.strip("# "):
            self.lines.append(line)
        self._line = []


def readable(html: str) -> str:
    """What a page says: headings, tables and texts, not its markup."""
    reader = _Reader()
    reader.feed(str(html))
    reader.flush()
    return "\n".join(reader.lines)

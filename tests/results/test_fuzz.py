"""Damaged files of results: each is read as exactly what it says, or refused in one line that names
it.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pbcore.analysis.verdict import judge
from pbcore.analysis.verdict_text import gate_text
from pbcore.base.errors import InputError
from pbcore.report.junit import write_junit
from pbcore.report.markdown import report_text
from pbcore.report.rows import frame_rows
from pbcore.report.scopes import scopes
from pbcore.report.tables import trade_off_terminal
from pbcore.results import CellRecord, Conditions, create, error_cell, frame, load, properties
from pbcore.results.baseline import baseline_cell, read_baseline, write_baseline
from pbcore.results.load import load_cells, load_stored
from pbcore.results.merge import merge
from pbcore.results.packed import unpacked
from pbcore.results.rundir import RunDir, StoredCell
from pbcore.theory.ceiling import Ceiling
from tests.results import factory
from tests.results.damage import damaged, garbled

Check = Callable[[Path, bytes], "list[CellRecord] | None"]
COUNTS = (
    pytest.param(150, id="quick"),
    pytest.param(20_000, id="nightly", marks=pytest.mark.nightly),
)
ENTRIES = [
    factory.cell(
        n=3,
        seeds=2,
        right=[1.0, 0.0, 1.0, 1.0, 1.0, 0.0],
        ceiling=Ceiling(0.75, "sampled", 0.5, 0.875),
        bits_lost=0.5,
    ),
    factory.cell(
        "tiny", "text_writing/w2s_easy", "threshold-0.9", right=[0.5, 1 / 3], headline="rouge_l"
    ),
    (error_cell(factory.cell(sampler="ar")[0], "CUDA out of memory"), []),
]
NO_CELLS = frame([])
STORED = [StoredCell(record, tuple(samples)) for record, samples in ENTRIES]


def same(found: Any, written: Any) -> bool:
    """Whether JSON values are equal in type as well, apart from 1 and 1.0."""
    if isinstance(found, dict) and isinstance(written, dict):
        return found.keys() == written.keys() and all(
            same(found[key], written[key]) for key in found
        )
    if isinstance(found, list) and isinstance(written, list):
        return len(found) == len(written) and all(map(same, found, written))
    return found == written and isinstance(found, bool) == isinstance(written, bool)


def completed(record: dict[str, Any]) -> dict[str, Any]:
    """A record of a file with the defaults of the fields that it leaves out."""
    blank = CellRecord("", "", "", "", Conditions.unknown()).to_json()
    optional = [part.name for part in fields(Conditions) if part.default is None]
    under = {**dict.fromkeys(optional), **record["conditions"]}
    return {**blank, **record, "conditions": under}


def shown(cells: list[CellRecord]) -> None:
    """Everything that is readable can be shown."""
    table = frame(cells)
    for part in scopes(frame_rows(table))[1]:
        assert "\x1b" not in trade_off_terminal(part)
    page = report_text(factory.report(cells))
    page.encode()
    assert "\x1b" not in page


def fuzz(
    text: str, file: Path, check: Check, count: int, spoil: Callable[[Random, str], bytes] = damaged
) -> Counter[str]:
    """Outcomes of reading `count` damaged copies of a text: `told` or `read`, and of the failures
    each kind.
    """
    random = Random(13)
    drawn = Random(7)
    outcomes = Counter[str]()
    for _ in range(count):
        data = spoil(random, text)
        file.write_bytes(data)
        try:
            cells = check(file, data)
            if cells and drawn.random() < (0.2 if count < 1000 else 0.05):
                shown(cells)
        except AssertionError:
            outcomes["wrong"] += 1
        except InputError as error:
            told = "\n" not in str(error) and file.name in str(error) and len(str(error)) < 2000
            outcomes["told" if told else "unclear"] += 1
        except Exception as error:  # noqa: BLE001 - the count of these is what the test asserts
            outcomes[f"traceback {type(error).__name__}: {str(error)[:200]}"] += 1
        else:
            outcomes["read"] += 1
    return outcomes


def check_cell(file: Path, data: bytes) -> list[CellRecord]:
    said: list[str] = []
    stored = RunDir(file.parent.parent).read_cells(said.append)
    assert file.read_bytes() == data
    if not stored:
        assert len(said) == 1
        raise InputError(said[0])
    written = json.loads(data)
    assert same(stored[0].cell.to_json(), completed(written["cell"]))
    assert len(stored[0].samples) == len(written["samples"])
    return [stored[0].cell]


def check_results(file: Path, data: bytes) -> list[CellRecord]:
    cells = load_cells(file)
    written = [completed(record) for record in json.loads(data)["cells"]]
    distinct = {record["id"]: record for record in written}
    assert same([cell.to_json() for cell in cells], [distinct[name] for name in sorted(distinct)])
    return cells


def check_benchmark(file: Path, data: bytes) -> list[CellRecord]:
    cells = load_cells(file)
    texts = [
        entry.get("extra_info", {}).get("pbcore_record") for entry in json.loads(data)["benchmarks"]
    ]
    written = {
        record["id"]: completed(record)
        for record in (unpacked(text, "record") for text in texts if text is not None)
    }
    assert same([cell.to_json() for cell in cells], [written[name] for name in sorted(written)])
    return cells


def check_junit(file: Path, data: bytes) -> list[CellRecord]:
    cells = load_cells(file)
    assert cells
    return cells


def check_run(file: Path, data: bytes) -> None:
    facts = RunDir(file.parent).read_run()
    assert same(facts, json.loads(data))
    report_text(factory.report([], **facts))


def check_merge_facts(file: Path, data: bytes) -> None:
    target = file.parent.parent / "merged"
    run = merge([file.parent], target, allow_missing_shards=True)
    for path in sorted(run.path.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    run.path.rmdir()


def check_baseline(file: Path, data: bytes) -> None:
    baseline = read_baseline(file)
    assert baseline
    verdict = judge(STORED[:2], baseline)
    text = gate_text(verdict)
    assert "\x1b" not in text
    rows = {entry.cell.id: baseline_cell(entry) for entry in STORED[:2]}
    assert verdict.judged or not verdict.ok
    if any(baseline.get(name) is None for name in rows):
        return  # a renamed or dropped row: its cell is new, the other name missing
    for name, row in rows.items():
        expected = row == baseline[name]
        passed = next(one for one in verdict.judgements if one.id == name).status == "passed"
        assert passed or not expected


def check_samples(file: Path, data: bytes) -> None:
    stored = load_stored(file.parent)
    lines = [json.loads(line) for line in data.decode().split("\n") if line.strip()]
    assert len(lines) == sum(len(entry.samples) for entry in stored)


@pytest.mark.parametrize("count", COUNTS)
class TestDamage:
    """Wrong, unclear and traceback are 0: what isn't read as it stands is refused in a line that
    names the file.
    """

    def run(self, text: str, file: Path, check: Check, count: int, spoil: Any = damaged) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcomes = fuzz(text, file, check, count, spoil)
        print(dict(outcomes))
        assert set(outcomes) == {"told", "read"}, outcomes

    def test_cells(self, tmp_path: Path, count: int) -> None:
        """A cell file, of an evaluated cell with two seeds."""
        file = factory.write(create(tmp_path, "a"), ENTRIES[:1]).cells_dir
        (cell,) = file.iterdir()
        self.run(cell.read_text(), cell, check_cell, count)

    def test_results(self, tmp_path: Path, count: int) -> None:
        """A results.json."""
        results, _ = factory.write(create(tmp_path, "a"), ENTRIES).assemble()
        self.run(results.read_text(), tmp_path / "results.json", check_results, count)

    def test_samples(self, tmp_path: Path, count: int) -> None:
        """A samples.jsonl beside a results.json."""
        run = factory.write(create(tmp_path, "a"), ENTRIES)
        _, lines = run.assemble()
        for file in run.cells_dir.iterdir():
            file.unlink()

        def spoil(random: Random, text: str) -> bytes:
            rows = text.split("\n")[:-1]
            at = random.randrange(len(rows))
            return (
                "\n".join(rows[:at]).encode()
                + b"\n" * (at > 0)
                + damaged(random, rows[at])
                + b"\n"
                + "\n".join(rows[at + 1 :]).encode()
            )

        self.run(lines.read_text(), lines, check_samples, count, spoil)

    def test_benchmarks(self, tmp_path: Path, count: int) -> None:
        """A pytest-benchmark JSON: its entries, and the records within them."""
        cells = [record for record, _ in ENTRIES]
        text = json.dumps(
            {"benchmarks": [{"extra_info": dict(properties(cell))} for cell in cells]}
        )

        def spoil(random: Random, text: str) -> bytes:
            if random.random() < 0.5:
                return damaged(random, text)
            data = json.loads(text)
            extra = random.choice(data["benchmarks"])["extra_info"]
            extra["pbcore_record"] = spoilt_record(random, extra["pbcore_record"])
            return json.dumps(data).encode()

        self.run(text, tmp_path / "b.json", check_benchmark, count, spoil)

    def test_junit(self, tmp_path: Path, count: int) -> None:
        """A JUnit file: its XML, and the records within it."""
        file = write_junit([record for record, _ in ENTRIES], tmp_path / "j.xml")

        def spoil(random: Random, text: str) -> bytes:
            if random.random() < 0.5:
                return garbled(random, text)
            records = [dict(properties(record))["pbcore_record"] for record, _ in ENTRIES]
            spoilt = [spoilt_record(random, record) for record in records]
            return plain_junit(spoilt).encode()

        self.run(file.read_text(), file, check_junit, count, spoil)

    def test_run_facts(self, tmp_path: Path, count: int) -> None:
        """A run.json, as reports read it."""
        run = factory.write(create(tmp_path, "a"), ENTRIES)
        run.write_run(
            {
                "command": ["pytest"],
                "seeds": [0],
                "shard": "1/2",
                "machine": {"cpus": 2},
                "versions": {"torch": "2"},
            }
        )
        file = run.path / "run.json"
        self.run(file.read_text(), file, check_run, count)

    def test_baselines(self, tmp_path: Path, count: int) -> None:
        """A baseline file, and the judgement by it."""
        file = write_baseline(tmp_path / "b.json", STORED[:2])
        self.run(file.read_text(), file, check_baseline, count)


def spoilt_record(random: Random, record: str) -> str:
    """A damaged record: as it is packed, or as plain JSON, which is read, too."""
    if random.random() < 0.3:
        return garbled(random, record).decode("ascii", "ignore")
    text = json.dumps(unpacked(record, "record"))
    return damaged(random, text).decode("utf-8", "surrogateescape")


def plain_junit(records: list[str]) -> str:
    from xml.sax.saxutils import quoteattr

    from pbcore.report.junit import UNPRINTABLE

    cases = "".join(
        '<testcase name="test_cell[x]"><properties><property name="pbcore_record" '
        f"value={quoteattr(UNPRINTABLE.sub('?', text))}/>"
        "</properties></testcase>"
        for text in records
    )
    return f"<testsuites><testsuite>{cases}</testsuite></testsuites>"


def test_merged_facts(tmp_path: Path) -> None:
    """A merge reads run.json in the same way."""
    run = factory.write(create(tmp_path, "a"), ENTRIES[:1])
    run.write_run({"merged_from": [{"path": "x", "shard": "1/2", "profile": "ci"}], "seeds": [0]})
    file = run.path / "run.json"
    outcomes = fuzz(file.read_text(), file, check_merge_facts, 100)
    assert set(outcomes) <= {"told", "read", "unclear"}, outcomes
    assert load(tmp_path / "a")["id"].tolist() == [ENTRIES[0][0].id]

"""pbcore.report.junit: a run as a JUnit file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from pbcore.report.junit import figures_line, write_junit
from pbcore.results import CellRecord, Conditions, error_cell, properties
from tests.results import factory


def failed(cause: str) -> CellRecord:
    return error_cell(
        CellRecord("m/sudoku/ar", "m", "puzzle/sudoku", "ar", Conditions.unknown()), cause
    )


class TestWriteJunit:
    def test_a_testcase_per_cell(self, tmp_path: Path) -> None:
        """Counts and seconds stand on the suite; a cell without a time takes none."""
        cells = [
            factory.cell()[0],
            replace(factory.cell(sampler="ar")[0], seconds=None),
            failed("boom\nwith a traceback"),
            failed(""),
        ]
        path = write_junit(cells, tmp_path / "junit.xml")
        (suite,) = ElementTree.parse(path).getroot()
        assert suite.attrib == {
            "name": "pbcore",
            "tests": "4",
            "errors": "2",
            "failures": "0",
            "skipped": "0",
            "time": "1.500",
        }
        assert [case.attrib for case in suite][:2] == [
            {
                "classname": "waiting_line.shuffle",
                "name": f"test_cell[tiny/shuffle/{name}]",
                "time": time,
            }
            for name, time in (("confidence-k2", "1.500"), ("ar", "0.000"))
        ]
        errors = [case.find("error") for case in suite]
        assert errors[:2] == [None, None]
        assert [
            (error.get("message"), error.text) for error in errors[2:] if error is not None
        ] == [
            ("boom", "boom\nwith a traceback"),
            ("no cause recorded", "no cause recorded"),
        ]

    def test_figures_stand_in_the_output(self, tmp_path: Path) -> None:
        """Views of CI systems show a test's output, not its properties; a failed cell has its cause
        instead.
        """
        cells = [factory.cell(right=0.9, n=20)[0], failed("boom")]
        outputs = [
            case.find("system-out")
            for case in ElementTree.parse(write_junit(cells, tmp_path / "j.xml")).iter("testcase")
        ]
        assert outputs[0] is not None
        assert outputs[0].text == figures_line(cells[0])
        assert outputs[1] is None

    def test_figures_in_a_line(self) -> None:
        """Score with interval, samples, forwards, rates, wrong answers; what was not measured is
        left out.
        """
        cell = factory.cell(right=0.9, n=20)[0]
        assert figures_line(cell) == (
            "accuracy 90.0 % [69.9–97.2], 20 samples, NFE 16, 2 tokens per step, 13.3 samples/s; "
            "wrong answers: item missing 2"
        )
        bare = replace(
            cell,
            scores={},
            failures={},
            nfe_mean=None,
            tokens_per_step=None,
            samples_per_second=None,
        )
        assert figures_line(bare) == "accuracy not measured, 20 samples"
        assert "\n" not in figures_line(replace(cell, failures={"a\nb": 1}))

    def test_properties_are_for_people(self) -> None:
        """What the cell is, its score with interval, forwards and seconds; the record is one short
        text; what was not measured is left out.
        """
        cell = factory.cell(right=0.9, n=20)[0]
        *told, (name, record) = properties(cell)
        assert told == [
            ("model", "tiny"),
            ("task", "waiting_line/shuffle"),
            ("sampler", "confidence-k2"),
            ("score", 0.9),
            ("interval", "0.699–0.972"),
            ("forwards", 16),
            ("seconds", 1.5),
        ]
        assert name == "pbcore_record"
        assert len(record) < 0.6 * len(json.dumps(cell.to_json()))
        assert [name for name, _ in properties(failed("boom"))] == [
            "model",
            "task",
            "sampler",
            "pbcore_record",
        ]

    def test_properties_are_text_that_xml_can_hold(self, tmp_path: Path) -> None:
        """Numbers as they are written; control characters become question marks."""
        cell = replace(failed("a\x00b"), task="waiting_line/sh\x01uffle", id="x\x02y")
        case = ElementTree.parse(write_junit([cell], tmp_path / "junit.xml")).getroot()[0][0]
        assert (case.get("classname"), case.get("name")) == (
            "waiting_line.sh?uffle",
            "test_cell[x?y]",
        )
        shown = {one.get("name"): one.get("value") for one in case.iter("property")}
        assert (shown["model"], shown["task"]) == ("m", "waiting_line/sh?uffle")

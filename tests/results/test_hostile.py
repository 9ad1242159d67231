"""Bad bytes, wrong types, runs that don't belong together: kept, told or refused, and never changed
by reading.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.base.check import LoadError, NewerSchemaError, dump_json, plain
from pbcore.base.errors import InputError
from pbcore.report.junit import write_junit
from pbcore.results import create, load, load_samples, properties
from pbcore.results.baseline import read_baseline
from pbcore.results.load import load_cells, load_stored
from pbcore.results.merge import merge
from pbcore.results.rundir import CorruptCellWarning, cell_file
from tests.results import factory
from tests.results.damage import ODD_TEXTS
from tests.results.files import fingerprint, run_command, written

TEXTS = st.one_of(st.sampled_from(ODD_TEXTS), st.text(st.characters(), max_size=30))
CELL = "tiny/shuffle/confidence-k2"


class TestBadBytes:
    @given(text=TEXTS, error=TEXTS, name=TEXTS)
    def test_texts_come_back_as_they_were(
        self, tmp_path_factory: pytest.TempPathFactory, text: str, error: str, name: str
    ) -> None:
        """Answers, errors and names survive cell files, results.json, samples.jsonl, JUnit and
        benchmark JSON.
        """
        record, samples = factory.cell(n=2)
        record = replace(
            record, id=f"{name}/shuffle/x", model=name, error=error, absent={text: error}
        )
        samples = [
            replace(sample, text=text, official_text=text, details={"why": error})
            for sample in samples
        ]
        run = factory.write(create(tmp_path_factory.mktemp("run"), "a"), [(record, samples)])
        expected = plain({"cell": record.to_json(), "text": text})
        results, _ = run.assemble()
        benchmark = run.path / "b.json"
        benchmark.write_text(json.dumps({"benchmarks": [{"extra_info": dict(properties(record))}]}))
        for source in (run.path, results, benchmark, write_junit([record], run.path / "j.xml")):
            assert [cell.to_json() for cell in load_cells(source)] == [expected["cell"]], source
        shutil.rmtree(run.cells_dir)
        (found,) = load_samples(run.path).values()
        assert [sample.text for sample in found] == [expected["text"]] * 2

    def test_long_answers_come_back(self, tmp_path: Path) -> None:
        """A million characters are no limit."""
        record, samples = factory.cell(n=1)
        text = "\u2028x\x00\ud800" * 250_000
        run = factory.write(create(tmp_path, "a"), [(record, [replace(samples[0], text=text)])])
        run.assemble()
        assert run.read_cells()[0].samples[0].text == text
        shutil.rmtree(run.cells_dir)
        assert load_stored(run.path)[0].samples[0].text == text

    @given(st.text(st.characters()))
    def test_json_is_utf8_and_exact(self, text: str) -> None:
        """What is written can be encoded and reads back equal, with surrogate pairs as their
        characters.
        """
        dumped = dump_json(plain({text: [text]}))
        assert json.loads(dumped.encode().decode()) == plain({text: [text]})
        assert dump_json("\ud800") == '"\\ud800"'
        assert plain("\ud83d\ude00") == "😀"

    @given(name=TEXTS)
    def test_junit_is_xml(self, tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
        """Any name and error make valid XML, whose record holds them whole."""
        record = replace(
            factory.cell(n=1)[0], id=name, model=name, status="error", error=name, scores={}
        )
        root = ElementTree.fromstring(
            write_junit([record], tmp_path_factory.mktemp("junit") / "j.xml").read_bytes()
        )
        assert root[0].get("errors") == "1"

    def test_properties_can_be_sent(self) -> None:
        """Every text on a report can be encoded, as xdist does."""
        record = replace(
            factory.cell(n=1)[0], model="a\udc80", id="a\udc80/shuffle/x", error="\ud800"
        )
        for _, value in properties(record):
            str(value).encode()


class TestReadingChangesNothing:
    def test_a_run_with_damage(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """report, compare, load and merge leave every byte of a run with a damaged cell as it is,
        and name the file.
        """
        run = factory.write(
            create(tmp_path, "a"), [factory.cell(), factory.cell(sampler="random-k1")]
        )
        run.assemble()
        broken = run.cells_dir / cell_file(CELL)
        broken.write_text("{")
        before = fingerprint(tmp_path)
        with pytest.warns(CorruptCellWarning, match=broken.name):
            assert len(load(run.path)) == 1
        with pytest.warns(CorruptCellWarning):
            load_samples(run.path)
        for words, status in ((["report", run.path], 0), (["compare", run.path, run.path], 2)):
            assert run_command(*words) == status
            told = capsys.readouterr().err
            assert broken.name in told
            assert told.count("\n") == 1
        with pytest.raises(LoadError, match=broken.name):
            merge([run.path], tmp_path / "m")
        with pytest.raises(InputError, match=broken.name):
            read_baseline(run.path)
        assert fingerprint(tmp_path) == before

    def test_a_newer_schema_is_named(self, tmp_path: Path) -> None:
        """A record of a later version is whole: it is named as such, and not set aside by a resumed
        run either.
        """
        run = factory.write(create(tmp_path, "a"), [factory.cell()])
        for change in (
            lambda data: data.update(schema=3),
            lambda data: data["cell"].update(colour="red"),
        ):
            file = written(run, change)
            before = fingerprint(tmp_path)
            for aside in (False, True):
                with pytest.raises(
                    NewerSchemaError, match=rf"{file.name}.*written by a newer version"
                ):
                    run.read_cells(set_aside=aside)
            assert fingerprint(tmp_path) == before
            run.write_cell(*factory.cell())

    def test_a_cell_in_two_files(self, tmp_path: Path) -> None:
        """A copied cell file doesn't count twice."""
        run = factory.write(create(tmp_path, "a"), [factory.cell()])
        (file,) = run.cells_dir.iterdir()
        shutil.copy(file, run.cells_dir / "copy.json")
        with pytest.raises(LoadError, match="another file"):
            load(run.path)


class TestOddEncodings:
    @pytest.mark.parametrize(
        "encoding",
        ["u" + "9" * 5000, "utf-16", "utf-7", "\x1b"],
        ids=["long", "utf-16", "utf-7", "escape"],
    )
    def test_junit_of_an_odd_encoding(self, tmp_path: Path, encoding: str) -> None:
        """One short line names the file."""
        (tmp_path / "j.xml").write_text(f"<?xml version='1.0' encoding='{encoding}'?><testsuites/>")
        with pytest.raises(LoadError, match=r"j\.xml") as raised:
            load_cells(tmp_path / "j.xml")
        assert len(str(raised.value)) < 600
        assert str(raised.value).isprintable()

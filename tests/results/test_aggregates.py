"""Records that were edited: aggregates that aren't their samples'."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.check import LoadError, refuse
from pbcore.base.errors import InputError
from pbcore.results import RunDir, create
from pbcore.results.baseline import read_baseline
from pbcore.results.load import load_stored
from pbcore.results.record import BlameVerdict, CellRecord
from tests.results import factory

CELL = "tiny/shuffle/confidence-k2"


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return factory.write(create(tmp_path, "a"), [factory.cell(n=20, tokens=100)])


def edit(run: RunDir, change: Callable[[dict[str, Any]], Any]) -> Path:
    (file,) = run.cells_dir.glob("*.json")
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))
    return file


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "scores.accuracy.mean": lambda data: data["cell"]["scores"]["accuracy"].update(mean=0.91),
    "scores.accuracy.n": lambda data: data["cell"]["scores"]["accuracy"].update(n=10),
    "scores.grammar.n": lambda data: data["cell"]["scores"].update(
        grammar=data["cell"]["scores"]["accuracy"]
    ),
    "nfe_mean": lambda data: data["cell"].update(nfe_mean=15.0),
    "nfe_max": lambda data: data["cell"].update(nfe_max=15),
    "tokens_per_step": lambda data: data["cell"].update(tokens_per_step=4.0),
    "tokens_per_forward": lambda data: data["cell"].update(tokens_per_forward=0.5),
    "tokens_forwarded": lambda data: data["cell"].update(tokens_forwarded=90.0),
    "failures": lambda data: data["cell"].update(failures={}),
}


class TestAggregates:
    @pytest.mark.parametrize("field", EDITS)
    def test_an_edited_one_is_named(self, run: RunDir, field: str) -> None:
        """With file, cell, field and what the samples give; a run with it can't be a baseline."""
        file = edit(run, EDITS[field])
        with pytest.raises(LoadError) as caught:
            run.read_cells(refuse)
        assert str(file) in str(caught.value)
        assert f"cell {CELL}: field {field} is" in str(caught.value)
        assert "its samples give" in str(caught.value)
        with pytest.raises(InputError, match="edited or damaged"):
            read_baseline(run.path)

    def test_edited_blame_is_named(self, tmp_path: Path) -> None:
        """Its shares are those of the answers' verdicts."""
        verdicts: list[BlameVerdict | None] = ["together", "model", None, None]
        cell = factory.blamed(factory.cell(n=4, right=[0.0, 0.0, 1.0, 1.0]), verdicts)
        run = factory.write(create(tmp_path, "b"), [cell])
        assert run.read_cells(refuse)[0].cell.blame == cell[0].blame
        edit(run, lambda data: data["cell"]["blame"]["together"].update(mean=0.3))
        with pytest.raises(LoadError, match=r"field blame.together.mean is 0.3"):
            run.read_cells(refuse)

    def test_what_a_record_does_not_tell_is_not_checked(self, run: RunDir) -> None:
        """Fields that came later are null in older records."""
        edit(run, lambda data: data["cell"].update(nfe_median=None, rows_mean=None))
        assert len(run.read_cells(refuse)) == 1

    def test_an_edited_sample_is_noticed(self, run: RunDir) -> None:
        """The other way round."""
        edit(run, lambda data: data["samples"][3]["scores"].update(accuracy=0.5))
        with pytest.raises(
            LoadError, match=r"scores\.accuracy\.mean is 0\.9, its samples give 0\.875"
        ):
            run.read_cells(refuse)

    def test_without_cell_files_too(self, run: RunDir) -> None:
        """results.json beside samples.jsonl, as a run that was copied without cells/."""
        run.assemble()
        for file in run.cells_dir.iterdir():
            file.unlink()
        results = run.path / "results.json"
        results.write_text(results.read_text().replace('"nfe_mean": 16.0', '"nfe_mean": 8.0'))
        with pytest.raises(LoadError, match="nfe_mean is 8, its samples give 16"):
            load_stored(run.path)

    def test_a_mean_outside_its_interval(self, run: RunDir) -> None:
        """Wherever a record is read, also without samples."""
        record, _ = factory.cell(n=20)
        data = record.to_json()
        data["scores"]["accuracy"] |= {"mean": 0.123, "low": 0.9, "high": 1.0}
        with pytest.raises(
            LoadError, match=r"scores\.accuracy\.mean is 0\.123, outside its interval \[0\.9, 1\]"
        ):
            CellRecord.from_json(data)

    def test_an_edited_headline(self, run: RunDir) -> None:
        """It must be a score, or absent with a reason."""
        edit(run, lambda data: data["cell"].update(headline="acuracy"))
        with pytest.raises(
            LoadError, match="field headline is 'acuracy', which is neither among scores"
        ):
            run.read_cells(refuse)
        edit(
            run,
            lambda data: data["cell"].update(headline="grammar", absent={"grammar": "no server"}),
        )
        assert run.read_cells(refuse)[0].cell.headline == "grammar"

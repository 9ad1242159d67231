"""Every option: it changes the record of each cell on which it acts and of no other, and a run of
cells on which it doesn't act is refused before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from pbcore.grid.cellid import parse_cell_name
from pbcore.grid.needs import Use, acts
from pbcore.grid.settings import OPTIONS, Settings
from pbcore.metrics import grammar
from pbcore.results.rundir import RunDir, StoredCell
from pbcore.tasks import all_task_names
from tests.extras.servers.conftest import server
from tests.extras.servers.fake import FakeServer
from tests.extras.servers.served import declare
from tests.plugin.conftest import Run

__all__ = ["server"]
ROOT = Path(__file__).resolve().parents[2]
OWN = """
kitchen/flags:
  samples: flags.jsonl
  scorer: list_match
  max_new_tokens: 32
  prompt: "Name the colours of {country}."
"""
ROWS = """{"input": {"country": "France"}, "answer": "[\\"b\\", \\"w\\", \\"r\\"]"}
{"input": {"country": "Italy"}, "answer": "[\\"g\\", \\"w\\", \\"r\\"]"}
"""
CELLS = (  # a kind of task, model or sampler each
    "ideal/copy/random-k8",
    "ideal/list_ops/copy/random-k2",
    "ideal/sudoku/threshold-0.9",
    "ideal/walk/graph/random-k4",
    "ideal/questions/shuffle-x2/random-k8",
    "ideal/kitchen/flags/random-k8",
    "tiny/copy/confidence-k8",
    "tiny/sudoku/threshold-0.5+prefix",
    "tiny/w2s_easy/random-k16+x2",
    "tiny-ar/copy/ar",
    "tiny-sedd/list_ops/copy/analytic-s2",
    "mine/copy/ar",
)
BASE = ("--limit", "2")
INI = """[pytest]
junit_family = xunit1
pbcore_tasks = own.yaml
pbcore_models = models.yaml
pbcore_no_download = true
"""
Seen = Callable[[StoredCell], Any]


@dataclass(frozen=True)
class Effect:
    """How an option is given, and where in a record its effect is seen; or the test of another file
    that sees it.
    """

    given: tuple[str, ...] = ()
    seen: Seen | None = None
    elsewhere: str = ""


def condition(name: str) -> Seen:
    return lambda stored: getattr(stored.cell.conditions, name)


def questions(stored: StoredCell) -> Any:
    return stored.cell.conditions.data_hash


def attention(stored: StoredCell) -> Any:
    return (stored.cell.conditions.model_info or {}).get("attention")


def grammar_is_absent(stored: StoredCell) -> Any:
    return stored.cell.absent.get("grammar")


def option_of_record(name: str) -> Seen:
    return lambda stored: stored.cell.conditions.options.get(name)


def concurrency(stored: StoredCell) -> Any:
    served: Any = stored.cell.served
    return None if served is None else served.concurrency


EFFECTS = {
    "model": Effect(elsewhere="tests/grid/test_plan.py"),
    "sampler": Effect(elsewhere="tests/grid/test_plan.py"),
    "task": Effect(elsewhere="tests/grid/test_plan.py"),
    "profile": Effect(elsewhere="tests/grid/test_plan.py"),
    "preset": Effect(elsewhere="tests/grid/test_presets.py"),
    "questions": Effect(elsewhere="tests/grid/test_plan.py"),
    "axis": Effect(elsewhere="tests/report/test_axes.py"),
    "price": Effect(elsewhere="tests/report/test_prices.py"),
    "price_batch": Effect(elsewhere="tests/report/test_prices.py"),
    "limit": Effect(("--limit", "1"), lambda stored: stored.cell.n_samples),
    "gpu": Effect(elsewhere="tests/grid/test_plan.py"),
    "device": Effect(elsewhere="tests/plugin/test_options.py"),
    "dtype": Effect(("--dtype", "bfloat16"), condition("dtype")),
    "quantization": Effect(elsewhere="tests/models/test_checkpoints.py"),
    "attn_implementation": Effect(("--attn-implementation", "eager"), attention),
    "device_map": Effect(elsewhere="tests/test_extras.py"),
    "revision": Effect(elsewhere="tests/models/test_hub.py"),
    "trust_remote_code": Effect(elsewhere="tests/models/test_checkpoints.py"),
    "draft": Effect(elsewhere="tests/plugin/test_autoregressive.py"),
    "adapter": Effect(elsewhere="tests/plugin/test_adapter.py"),
    "batch_size": Effect(("--batch-size", "3"), condition("batch_size")),
    "threads": Effect(("--threads", "2"), condition("threads")),
    "factor": Effect(elsewhere="tests/grid/test_levels.py"),
    "share_forwards": Effect(("--share-forwards",), lambda stored: stored.cell.forwards_shared),
    "share_memory": Effect(elsewhere="tests/plugin/test_sharing.py"),
    "seed": Effect(("--seed", "3"), condition("seeds")),
    "data_seed": Effect(("--data-seed", "5"), questions),
    "data_dir": Effect(elsewhere="tests/plugin/test_lengths.py"),
    "official_text": Effect(("--official-text",), option_of_record("official_text")),
    "languagetool_url": Effect(("--languagetool-url", "http://127.0.0.1:9"), grammar_is_absent),
    "bertscore_model": Effect(elsewhere="tests/plugin/test_bertscore.py"),
    "no_download": Effect(elsewhere="tests/plugin/test_grammar.py"),
    "tasks": Effect(elsewhere="tests/grid/test_plan.py"),
    "n": Effect(("--n", "5"), questions),
    "shots": Effect(("--shots", "0"), questions),
    "max_new_tokens": Effect(("--max-new-tokens", "128"), questions),
    "cot": Effect(elsewhere="tests/plugin/test_cot.py"),
    "cot_answer": Effect(elsewhere="tests/plugin/test_cot.py"),
    "out": Effect(elsewhere="tests/plugin/test_recording.py"),
    "blame": Effect(("--blame",), lambda stored: stored.cell.blame is not None),
    "rounds": Effect(("--rounds", "2"), lambda stored: len(stored.cell.rounds)),
    "sample": Effect(elsewhere="tests/grid/test_plan.py"),
    "per_sample": Effect(elsewhere="tests/grid/test_plan.py"),
    "resume": Effect(elsewhere="tests/plugin/test_kill.py"),
    "resume_anyway": Effect(elsewhere="tests/plugin/test_lengths.py"),
    "estimate": Effect(elsewhere="tests/plugin/test_estimate.py"),
    "shard": Effect(elsewhere="tests/plugin/test_shards.py"),
    "gate": Effect(elsewhere="tests/plugin/test_gate.py"),
    "gate_level": Effect(elsewhere="tests/analysis/test_run_verdict.py"),
    "gate_exact": Effect(elsewhere="tests/analysis/test_run_verdict.py"),
    "gate_time": Effect(elsewhere="tests/plugin/test_gate_time.py"),
    "against": Effect(elsewhere="tests/plugin/test_gate_time.py"),
    "floor": Effect(elsewhere="tests/plugin/test_gate.py"),
    "update_baseline": Effect(elsewhere="tests/plugin/test_gate.py"),
    "allow_missing": Effect(elsewhere="tests/plugin/test_shown_once.py"),
    "architecture": Effect(elsewhere="tests/models/test_file_keys.py"),
    "max_loss": Effect(elsewhere="tests/report/test_headline.py"),
    "lm_eval_path": Effect(elsewhere="tests/extras/lm_eval/test_run.py"),
    "confirm_run_unsafe_code": Effect(elsewhere="tests/extras/lm_eval/test_run.py"),
    "ray": Effect(elsewhere="tests/extras/ray/test_cluster.py"),
    "ray_gpus": Effect(elsewhere="tests/extras/ray/test_parts.py"),
    "ray_cpus": Effect(elsewhere="tests/extras/ray/test_parts.py"),
    "ray_workers": Effect(elsewhere="tests/extras/ray/test_parts.py"),
    "models": Effect(elsewhere="tests/extras/servers/test_run.py"),
    "concurrency": Effect(("--concurrency", "3"), concurrency),
    "max_cost": Effect(elsewhere="tests/extras/servers/test_model.py"),
}
BY_FIELD = {option.field: option for option in OPTIONS}
SEEN = [field for field, effect in EFFECTS.items() if effect.seen is not None]


class TestTable:
    def test_it_has_every_option(self) -> None:
        """A new option needs an entry here, and so an effect that a test sees."""
        assert set(EFFECTS) == set(BY_FIELD)

    @pytest.mark.parametrize("field", [name for name in EFFECTS if name not in SEEN])
    def test_what_is_seen_elsewhere_is_there(self, field: str) -> None:
        """The file that is named gives the option."""
        text = (ROOT / EFFECTS[field].elsewhere).read_text(encoding="utf-8")
        flag = BY_FIELD[field].name
        assert re.search(rf"--{flag}\b|\b{field}\b", text)


@pytest.fixture
def ready(
    project: pytest.Pytester, server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[pytest.Pytester]:
    """A project with tasks and a server of its own, and without LanguageTool."""
    (project.path / "own.yaml").write_text(OWN)
    (project.path / "flags.jsonl").write_text(ROWS)
    project.makeini(INI)
    declare(project, server)
    for name in ("PBCORE_LANGUAGETOOL_URL", "LTP_JAR_DIR_PATH", "PBCORE_NO_DOWNLOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "cache"))
    grammar.stop()
    threads = torch.get_num_threads()
    yield project
    torch.set_num_threads(threads)
    grammar.stop()


def argument(cell: str) -> str:
    """What runs a cell: its name, or the node id of a task that only `--tasks` knows."""
    return f"benches/test_own_tasks.py::test_cell[{cell}]" if "kitchen" in cell else cell


def facts(stored: StoredCell) -> dict[str, Any]:
    """All of a record that doesn't differ between two runs of the same cell."""
    cell = asdict(stored.cell)
    conditions = cell.pop("conditions")
    times = ("seconds", "per_second", "rounds", "peak_memory", "served", "worker", "shared_device")
    kept = {
        name: value
        for name, value in (cell | conditions).items()
        if not any(part in name for part in times) and name not in ("key", "wait_policy")
    }
    texts = [(sample.index, sample.seed, sample.text) for sample in stored.samples]
    return kept | {"rounds": len(stored.cell.rounds), "texts": texts}


def measured(project: pytest.Pytester, run: str) -> dict[str, StoredCell]:
    return {entry.cell.id: entry for entry in RunDir(project.path / run).read_cells()}


def use_of(project: pytest.Pytester, cell_id: str, given: tuple[str, ...]) -> Use:
    name = parse_cell_name(cell_id, [*all_task_names(), "kitchen/flags"])
    assert name is not None
    values: dict[str, Any] = {}
    words = list(given)
    while words:
        option = next(one for one in OPTIONS if f"--{one.name}" == words[0])
        values[option.field] = True if option.kind is None else option.read(words[1])
        words = words[1 if option.kind is None else 2 :]
    return Use.of(Settings.of(**values), name)


@pytest.mark.nightly
class TestMeasured:
    def test_it_changes_the_cells_on_which_it_acts_and_no_other(
        self, ready: pytest.Pytester, in_process: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One run of all kinds of cells with each option, against one without: where it acts the
        effect is seen (or the cell refuses it in one line); elsewhere the record is the same, the
        options that it names included. Alone, the other cells are refused.
        """
        cells = list(map(argument, CELLS))
        torch.set_num_threads(1)
        assert in_process(*cells, *BASE, "--out", "base").ret == 0
        before = measured(ready, "base")
        assert set(before) == set(CELLS)
        from pbcore.tasks import add_tasks_file

        for field in SEEN:
            effect = EFFECTS[field]
            assert effect.seen is not None
            in_process(*cells, *BASE, *effect.given, "--out", field)
            torch.set_num_threads(1)
            monkeypatch.delenv("PBCORE_LANGUAGETOOL_URL", raising=False)
            grammar.stop()
            after = measured(ready, field)
            add_tasks_file(ready.path / "own.yaml")
            add_models(ready)
            idle = []
            for name in CELLS:
                where = f"{field} of {name}"
                old, new = before[name], after[name]
                if not acts(field, use_of(ready, name, effect.given)):
                    idle.append(name)
                    assert facts(new) == facts(old), where
                elif new.cell.status == "ok":
                    assert effect.seen(new) != effect.seen(old), where
                else:
                    assert "\n" not in str(new.cell.error), where
            if idle:
                refused = in_process(*map(argument, idle), *BASE, *effect.given)
                assert refused.ret == pytest.ExitCode.USAGE_ERROR, field
                assert f"--{BY_FIELD[field].name}" in refused.stderr.str()
                assert "leave it out" in refused.stderr.str()


def add_models(project: pytest.Pytester) -> None:
    from pbcore.models.registry import add_models_file

    add_models_file(project.path / "models.yaml")

"""--share-forwards: the rows of a run without it, from fewer forwards, and no time that isn't a
cell's own.
"""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pbcore
from pbcore.base.errors import InputError
from pbcore.grid.settings import Settings
from pbcore.grid.validate_settings import check
from pbcore.tasks import load_task
from tests.models.checkpoints import llama_checkpoint
from tests.plugin.conftest import TIMES, Run

SAMPLERS = (
    "confidence-k4",
    "confidence-k4+b8",
    "margin-k4",
    "entropy-k4+b16",
    "threshold-0.9",
    "klass-0.9",
)
SHARED = ("seconds_estimated", "forwards_shared", "forwards_computed")
UNTIMED = [
    f"llama/{task}/{name}"
    for task in ("copy", "shuffle")
    for name in SAMPLERS
    if not name.startswith("klass")
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small masked model, and beside it the runs that the first test that needs them leaves for
    the others.
    """
    folder = tmp_path_factory.mktemp("kept")
    tasks = ("copy", "shuffle")
    samples = [one for task in tasks for one in load_task(f"waiting_line/{task}", limit=2).samples]
    text = " ".join(message["content"] for one in samples for message in one.messages)
    llama_checkpoint(folder / "llama", text=text, max_position_embeddings=512)
    return folder


@pytest.fixture
def cells(project: pytest.Pytester, kept: Path) -> str:
    """Twelve cells of that model, of which two run outside the store."""
    (project.path / "llama").symlink_to(
        kept / "llama"
    )  # the records name the folder that it leads to
    samplers = " ".join(f"--sampler {name}" for name in SAMPLERS)
    return f"--model ./llama --task copy --task shuffle {samplers} --limit 2"


@pytest.fixture
def shared(run: Run, project: pytest.Pytester, kept: Path, cells: str) -> str:
    """A finished run of the twelve cells with shared forwards, in `shared`, and its screen."""
    if not (kept / "screen.txt").exists():
        result = run(cells, "--out shared --share-forwards --benchmark-json shared/b.json")
        result.assert_outcomes(passed=12)
        shutil.copytree(project.path / "shared", kept / "shared")
        (kept / "screen.txt").write_text(result.stdout.str())
    else:
        shutil.copytree(kept / "shared", project.path / "shared")
    return (kept / "screen.txt").read_text()


def table(path: Path) -> pd.DataFrame:
    rows: pd.DataFrame = pbcore.results.load(path)
    rows["id"] = rows["id"].str.replace("./llama", "llama")
    return rows.set_index("id").sort_index()


# What the batch adds: shared forwards are counted as those of answers decoded alone.
OF_THE_BATCH = ("tokens_padded",)


class TestRun:
    def test_the_same_rows_without_times(
        self, run: Run, project: pytest.Pytester, cells: str, shared: str
    ) -> None:
        """Scores, NFE and steps are those of a run without sharing; seconds, memory and benchmark
        statistics are absent with the reason where forwards were shared, and only there.
        """
        run(cells, "--out alone").assert_outcomes(passed=12)
        assert "not used at all" not in shared
        alone = table(project.path / "alone")
        rows = table(project.path / "shared")
        changing = [*TIMES, *SHARED, *OF_THE_BATCH, "absent", "decoding"]
        pd.testing.assert_frame_equal(alone.drop(columns=changing), rows.drop(columns=changing))
        assert alone[list(SHARED)].isna().all(axis=None)
        untimed = rows.loc[UNTIMED]
        assert (
            untimed[["seconds", "samples_per_second", "tokens_per_second", "peak_memory_bytes"]]
            .isna()
            .all(axis=None)
        )
        assert untimed["absent"].map(lambda absent: "--share-forwards" in absent["seconds"]).all()
        assert (
            untimed["forwards_shared"] + untimed["forwards_computed"] == untimed["nfe"] * 2
        ).all()
        assert (untimed["seconds_estimated"] > 0).all()
        own = rows.drop(index=UNTIMED)
        assert (own["seconds"] > 0).all()
        assert own[list(SHARED)].isna().all(axis=None)
        timed = json.loads((project.path / "shared" / "b.json").read_text())["benchmarks"]
        assert {entry["extra_info"]["sampler"] for entry in timed} == {"klass-0.9"}
        asked = int(untimed["nfe"].sum() * 2)
        computed = int(untimed["forwards_computed"].sum())
        assert (
            asked - computed >= 2 * 2 * 4
        )  # of five samplers at least the first canvas of each sample
        counts = f"forwards shared between cells: {asked:,} asked for, {computed:,} computed"
        pytest.LineMatcher(shared.splitlines()).fnmatch_lines(
            ["*(10 without a time of their own)*", f"{counts}; without*", "  *(estimated*"]
        )
        report = (project.path / "shared" / "report.md").read_text()
        assert "## Shared forwards" in report
        assert "klass" not in report.partition("## Shared forwards")[2].partition("\n## ")[0]
        speed = report.partition("## Speed")[2].partition("\n## ")[0]
        assert "klass" in speed
        assert "threshold" not in speed
        first, second = (
            [
                json.loads(line)
                for line in (project.path / name / "samples.jsonl").read_text().splitlines()
            ]
            for name in ("alone", "shared")
        )
        assert [(one["steps"], one["nfe"], one["text"]) for one in first] == [
            (one["steps"], one["nfe"], one["text"]) for one in second
        ]

    @pytest.mark.slow
    def test_two_workers(self, run: Run, project: pytest.Pytester, cells: str, shared: str) -> None:
        """Each worker keeps to its task, so that no forward is computed twice."""
        run(cells, "--out two --share-forwards -n 2").assert_outcomes(passed=12)
        one = table(project.path / "shared")
        two = table(project.path / "two")
        drop = [*TIMES, *SHARED]
        pd.testing.assert_frame_equal(one.drop(columns=drop), two.drop(columns=drop))
        assert set(two["worker"]) == {"gw0", "gw1"}
        early = [
            name for name in UNTIMED if "threshold" not in name
        ]  # the last cells may be helped with
        assert two.loc[early].groupby("task")["worker"].nunique().eq(1).all()

    def test_resume(self, run: Run, project: pytest.Pytester, cells: str, shared: str) -> None:
        """A run that times its cells measures shared ones again; one that shares takes timed ones
        over.
        """
        assert "12 cells kept" in run(cells, "--resume shared --share-forwards").stdout.str()
        result = run(cells, "--resume shared")
        assert "2 cells kept" in result.stdout.str()
        assert table(project.path / "shared")["seconds"].notna().all()
        assert "12 cells kept" in run(cells, "--resume shared --share-forwards").stdout.str()
        assert table(project.path / "shared")["seconds"].notna().all()

    def test_a_time_gate_leaves_them_out(self, run: Run, cells: str, shared: str) -> None:
        """A run all of whose cells shared forwards is no base for times, and is refused before the
        run.
        """
        result = run(
            cells, "--out head --gate shared --gate-time 10% --rounds 3 -k 'confidence and k4'"
        )
        text = result.stdout.str() + result.stderr.str()
        assert result.ret != 0
        assert "shared" in text
        assert "has more than 1 round" in text or "has a time of its own" in text


class TestWhen:
    @pytest.mark.parametrize(
        ("given", "shares"),
        [
            ({}, False),
            ({"profile": "ci"}, False),
            ({"profile": "paper"}, True),
            ({"profile": "full"}, True),
            ({"profile": "full", "share_forwards": False}, False),
            ({"share_forwards": True}, True),
            ({"profile": "paper", "rounds": 3}, False),
            ({"profile": "paper", "gate_time": 0.1, "gate": (Path("a"),)}, False),
            ({"profile": "paper", "gate_time": 0.1, "against": "main"}, True),
        ],
    )
    def test_profiles(self, given: dict[str, Any], shares: bool) -> None:
        """Off by default; on in the large profiles, unless switched off or the run's own times are
        wanted.
        """
        assert check(Settings(**given)).sharing is shares

    def test_rounds_are_for_times(self) -> None:
        """Timing and sharing exclude each other."""
        with pytest.raises(InputError, match="drop --share-forwards or --rounds"):
            check(Settings(share_forwards=True, rounds=3))

    def test_ini_and_command_line(
        self, project: pytest.Pytester, in_process: Run, cells: str
    ) -> None:
        """The ini file can switch it on or off; the command line wins."""
        one = shlex.split(cells.replace("--task shuffle", ""))
        for ini, flags, shared in (
            ("true", [], True),
            ("false", [], False),
            ("true", ["--no-share-forwards"], False),
        ):
            project.makeini(
                f"[pytest]\nmarkers = quick: x\npbcore_share_forwards = {ini}\npbcore_share_memory"
                " = 0.5\n"
            )
            out = f"out-{ini}-{len(flags)}"
            in_process("benches", *one, "-k", "threshold", "--out", out, *flags).assert_outcomes(
                passed=1
            )
            assert table(project.path / out)["seconds"].isna().all() == shared

    def test_memory_is_a_number(self, run: Run) -> None:
        result = run("--share-memory none")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "'none' is not a number above 0; write e.g. 1 or 0.5" in result.stderr.str()

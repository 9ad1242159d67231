"""Options: what is asked for is checked before anything runs."""

from __future__ import annotations

import re

import pytest

from pbcore.grid.settings import OPTIONS, Settings
from pbcore.plugin.options import topics
from tests.plugin.conftest import Run


class TestUsageErrors:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--model", "idael"], "unknown model 'idael'; did you mean ideal, ideal-mi?"),
            (["--sampler", "confidnce-k2"], "did you mean confidence?"),
            (["--sampler", "confidence-q2"], "no parameter"),
            (["--task", "shufle"], "no task 'shufle'; did you mean shuffle"),
            (["--profile", "quik"], "unknown profile 'quik'; there are quick, ci, paper, full"),
            (["--limit", "0"], "not a whole number above 0"),
            (["--limit", "1000001"], "at most 1,000,000"),
            (["--seed", "0-999999999"], "at most 10,000"),
            (["--task", "sudoku", "--n", "4"], "--n 4: the questions of puzzle/sudoku have no n"),
            (["--task", "latin_square", "--n", "10"], "give an integer from 2 to 9 (the side"),
            (["--task", "copy", "--no-download"], "--no-download: no cell of this run is scored"),
            (
                ["--task", "copy", "--sample", "1", "--rounds", "2"],
                "--rounds 2: no cell",
            ),
            (["--task", "copy", "--gate-level", "1%"], "add --gate BASELINE"),
            (["--n", "0"], "'0' is not an n; write 15, 3-6 or 5,10,20"),
            (
                ["--n", "1,3"],
                "waiting_line/copy: n = (1, 3); give an integer from 2 to 60 (items of the list)",
            ),
            (["--n", "six"], "'six' is not an n; write 15, 3-6 or 5,10,20"),
            (["--seed", "3-1"], "are not seeds; write 0, 0-4 or 3,5,8"),
            (["--seed", "1,1"], "each once"),
            (["--dtype", "float3"], "dtype 'float3' is not known; choose from"),
            (
                ["--task", "copy", "--sample", "999"],
                "--sample 999: waiting_line/copy has samples 0 to 99",
            ),
            (["--shard", "4/3"], "not a shard; write 3/8"),
            (["--data-dir", "nowhere"], "--data-dir nowhere: no such folder"),
            (["--tasks", "nothing.yaml"], "no tasks file nothing.yaml"),
            (["--gate", "nothing.json"], "no baseline at nothing.json"),
            (["--floor", "tiny accuracy=1"], "give a cell id pattern"),
            (["--resume", "nothing"], "nothing is not a directory"),
            (["--gate-time", "10%"], "--gate-time needs a baseline"),
            (["--against", "main"], "--against is what --gate-time compares with"),
            (
                ["--gate-time", "10%", "--against", "no-such-branch"],
                "neither a folder nor a revision",
            ),
            (["--device", "tpu"], "'tpu' is not a device; write cpu, cuda or mps"),
            (["--gpu", "--device", "mps"], "--gpu and --device mps name two devices"),
            (
                ["--quantization", "int3"],
                "quantization 'int3' is not known; choose from bitsandbytes-4bit",
            ),
            (["--revision", "abc"], "--revision names a commit of one model"),
            (["--model", "ideal", "--sampler", "eb-0.1-steps48"], "no parameter 'steps48'"),
            (["--sample", "3", "--floor", "* accuracy>=0.5"], "can't be judged by a gate"),
            (["--out", "a", "--resume", "b"], "--out and --resume both name the run directory"),
        ],
    )
    def test_what_cannot_be_meant_is_named(self, run: Run, arguments: list[str], said: str) -> None:
        """Exit code 4, one message that says what was given and what is allowed, and no test is
        run.
        """
        result = run(*arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert said in result.stderr.str() + result.stdout.str()
        assert "passed" not in result.stdout.str()

    def test_a_run_is_not_overwritten(self, run: Run, project: pytest.Pytester) -> None:
        """--out with a folder that holds something is refused, and the way to go on is named."""
        (project.path / "out").mkdir()
        (project.path / "out" / "notes.txt").write_text("mine")
        result = run("--out out")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "--resume out" in result.stderr.str()

    def test_a_link_that_leads_nowhere(self, run: Run, project: pytest.Pytester) -> None:
        """--out with a dangling link says where it leads; with one to a folder it is followed."""
        (project.path / "link").symlink_to(project.path / "gone")
        cells = "--model ideal --task copy --sampler random-k8 --limit 1 --out link"
        assert f"--out link is a link to {project.path / 'gone'}" in run(cells).stderr.str()
        (project.path / "gone").mkdir()
        run(cells).assert_outcomes(passed=1)
        assert (project.path / "gone" / "run.json").is_file()

    @pytest.mark.parametrize(
        "option", ["--data-dir", "--tasks", "--out", "--resume", "--gate", "--models"]
    )
    def test_a_name_that_is_too_long(self, run: Run, option: str) -> None:
        """No file can have it: one line, shortened, whatever the option."""
        result = run("--model ideal --task copy --sampler random-k8 --limit 1", option, "a" * 5000)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        (line,) = (one for one in result.stderr.lines if one.startswith("ERROR"))
        assert len(line) < 1500
        assert "Traceback" not in result.stdout.str() + result.stderr.str()

    def test_gpu_without_a_gpu(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """--gpu where torch sees none is a usage error that says what it saw."""
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        result = run("--gpu")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "--gpu: no usable GPU (torch" in result.stderr.str()

    def test_an_apple_gpu_where_there_is_none(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """--device mps says what torch lacks; in float64, which MPS lacks, what to use."""
        monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
        result = run("--device mps")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "device 'mps': torch" in result.stderr.str()
        monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
        assert "dtype 'float64': MPS has none" in run("--device mps --dtype float64").stderr.str()

    def test_other_names_of_devices(self) -> None:
        """`--device cuda` is `--gpu`, `--device cpu` the default: records and resumed runs see no
        difference.
        """
        assert Settings.of(device="cuda") == Settings.of(gpu=True)
        assert Settings.of(device="cpu") == Settings.of()
        assert (Settings.of(device="mps").place, Settings.of(device="mps").gpu) == ("mps", False)


class TestIni:
    def test_every_option_has_an_ini_equivalent(
        self, project: pytest.Pytester, in_process: Run
    ) -> None:
        """Lists, numbers and words from pytest.ini are taken as if given on the command line; the
        command line wins.
        """
        project.makeini(
            "[pytest]\nmarkers = quick: x\npbcore_model =\n  ideal\npbcore_task =\n  copy\n "
            " reverse\npbcore_sampler = random-k2\npbcore_limit = 3\npbcore_seed = 7\n"
        )
        result = in_process("benches", "--co -q --task copy")
        result.stdout.fnmatch_lines(["*test_cell[[]ideal/copy/random-k2]"])
        assert "reverse" not in result.stdout.str()

    def test_a_path_begins_in_the_files_folder(
        self, project: pytest.Pytester, in_process: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Wherever pytest is started; names stay names."""
        project.makeini(
            "[pytest]\npbcore_tasks = own.yaml\npbcore_model = ideal\npbcore_out = runs/a\n"
        )
        task = "a/b: {generator: copy, scorer: list_match, lengths: [3], max_new_tokens: 32"
        (project.path / "own.yaml").write_text(f"{task}, prompt: 'x {{context}}'}}\n")
        (project.path / "below").mkdir()
        monkeypatch.chdir(project.path / "below")
        names = ("ideal/a/b/random-k8", "--limit 1")
        in_process(*names).assert_outcomes(passed=1)
        assert (project.path / "runs" / "a" / "report.md").is_file()
        in_process("ideal/a/b/random-k8/0").assert_outcomes(passed=1)  # though runs/a is taken

    def test_a_bad_ini_value_is_a_usage_error(
        self, project: pytest.Pytester, in_process: Run
    ) -> None:
        """The message names the ini option."""
        project.makeini("[pytest]\npbcore_shard = 9/8\n")
        result = in_process("benches")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "ini option pbcore_shard: '9/8' is not a shard" in result.stderr.str()


class TestHelp:
    def test_everyday_options_stand_first(self, in_process: Run) -> None:
        """--help shows at most 15 options of the group, each once."""
        said = in_process("--help").stdout.str()
        ini = [row.split()[0] for row in said.splitlines() if row.startswith("  pbcore_")]
        assert ini == ["pbcore_NAME"]
        shown = re.findall(
            r"^  --([\w-]+)", said.partition("\npbcore:")[2].partition("\n\n")[0], re.MULTILINE
        )
        assert shown[:3] == ["help-pbcore", "model", "sampler"]
        assert len(shown) == len(set(shown)) <= 15

    def test_a_taken_name_is_shown_with_the_prefix(
        self, project: pytest.Pytester, in_process: Run
    ) -> None:
        """Where a project has `--model`, ours is under the name that works."""
        project.makeconftest('def pytest_addoption(parser): parser.addoption("--model")')
        said = in_process("--help").stdout.str()
        assert len(re.findall(r"^  --pbcore-", said, re.MULTILINE)) == 1
        assert "  --pbcore-model=MODEL" in said
        assert "  --pbcore-model MODEL" in in_process("--help-pbcore").stdout.str()

    def test_all_are_shown_by_what_they_are_for(self, in_process: Run) -> None:
        """--help-pbcore lists every option once under a topic, and runs nothing."""
        result = in_process("--help-pbcore")
        shown = re.findall(r"^  --([\w-]+)", result.stdout.str(), re.MULTILINE)
        assert result.ret == 0
        assert sorted(shown) == sorted([*(option.name for option in OPTIONS), "no-share-forwards"])
        assert sum(len(options) for _, options in topics()) == len(OPTIONS)
        result.stdout.fnmatch_lines([f"{title}:" for title, _ in topics()])
        assert "passed" not in result.stdout.str()

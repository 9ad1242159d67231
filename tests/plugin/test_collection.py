"""Which cells are collected, under which ids."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pbcore
from pbcore.tasks import load_task
from tests.plugin.conftest import ROOT, Run

TINY = ROOT / "pbcore" / "models" / "tiny"
ONE = ("--model", "ideal", "--sampler", "random-k2", "--co", "-q")


def ids(result: pytest.RunResult) -> list[str]:
    """Node ids listed by --co -q."""
    return [line for line in result.stdout.lines if "::test_cell[" in line]


class TestImport:
    def test_the_plugin_imports_little(self, tmp_path: Path) -> None:
        """A bare pytest elsewhere stays fast where pbcore is installed, also with tests whose
        parameters hold slashes.
        """
        (tmp_path / "test_x.py").write_text(
            "import pytest\n@pytest.mark.parametrize('x', ['a/b/c'])\ndef test_y(x): pass\n"
        )
        heavy = [
            "torch",
            "transformers",
            "pandas",
            "numpy",
            "scipy",
            "matplotlib",
            "yaml",
            "psutil",
            "pbcore.tasks",
        ]
        code = (
            "import sys, pytest; pytest.main(['-q'])\n"
            f"print([name for name in {heavy} if name in sys.modules])\n"
            "print(sorted(name for name in sys.modules if name.startswith('pbcore.plugin.')))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        own = [f"pbcore.plugin.{name}" for name in ("fixtures", "hookspecs", "options")]
        assert done.stdout.splitlines()[-2:] == ["[]", str(own)]

    @pytest.mark.parametrize(
        "sign", ["a marked test", "a short option", "an ini option", "a file of arguments"]
    )
    def test_cells_load_the_rest(
        self, in_process: Run, project: pytest.Pytester, sign: str
    ) -> None:
        """Each alone makes a run of cells, with its record and its tables, in a file of the
        project's own; the models that its conftest.py registers when pytest is configured are
        known.
        """
        (project.path / "test_mine.py").write_text(
            "import pytest\n@pytest.mark.cells('list_ops')\n"
            "def test_cell(cell, model, task, benchmark): cell.measure(model, task, benchmark)\n"
            "def test_other(): pass\n"
        )
        project.makeconftest(
            "from tests.plugin.toys import register\ndef pytest_configure(config): register()\n"
        )
        (project.path / "words").write_text("--model=slow\n--limit=2\n")
        if sign == "an ini option":
            project.makeini(
                "[pytest]\njunit_family = xunit1\npbcore_model = slow\npbcore_limit = 2\n"
            )
        words = {
            "a short option": ["--model", "slow", "--limit=2"],
            "a file of arguments": ["@words"],
        }.get(sign, [])
        result = in_process("test_mine.py", *words, "-k", "list_ops/copy/random-k1 or other")
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(["*= pbcore =*", "page: *report.html"])
        rows = pbcore.results.load(next(project.path.glob("reports/*")))
        assert list(rows["model"]) == ["ideal" if sign == "a marked test" else "slow"]


class TestIds:
    def test_an_id_is_model_task_sampler(self, run: Run) -> None:
        """Model, task, sampler, in the file of the task's category; what `ideal` can't do is left
        out, not skipped.
        """
        found = ids(run(*ONE))
        assert "benches/test_waiting_line.py::test_cell[ideal/shuffle/random-k2]" in found
        assert "benches/test_list_ops.py::test_cell[ideal/list_ops/shuffle/random-k2]" in found
        assert "benches/test_puzzles.py::test_cell[ideal/sudoku/random-k2]" in found
        assert len(found) == 16
        assert not [name for name in found if "text_writing" in name or "NOTSET" in name]

    def test_where_nothing_is_left_the_screen_says_why(self, run: Run) -> None:
        """A model asked for what it can't do: no item, the reason, and pytest's exit code for no
        tests.
        """
        result = run("--model ideal --task summarization")
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        result.stdout.fnmatch_lines(
            ["no cell is left to measure", "left out: * cells, ideal × text_writing: *"]
        )

    def test_another_spelling_of_a_sampler_is_the_same_cell(self, run: Run) -> None:
        """Modifiers in another order give the canonical id."""
        found = ids(run("--model ideal --task copy --sampler random-k2+t1+b8 --co -q"))
        assert found == ["benches/test_waiting_line.py::test_cell[ideal/copy/random-k2+b8+t1.0]"]

    def test_two_spellings_of_a_parameter_are_one_cell(self, run: Run) -> None:
        """`confidence-2` is `confidence-k2`, and each is collected once."""
        samplers = (
            "--sampler",
            "confidence-2",
            "--sampler",
            "confidence-k2",
            "--sampler",
            "threshold-0.90",
        )
        found = ids(run("--model ideal --task copy", *samplers, "--co -q"))
        assert [name.rpartition("/")[2] for name in found] == ["confidence-k2]", "threshold-0.9]"]
        chosen = ("--sampler threshold-0.90 --sampler random-k2 -k threshold-0.90 --co",)
        result = run("--model ideal --task copy", *chosen)
        assert [name.strip("<> ") for name in result.stdout.lines if "<Function" in name] == [
            "Function test_cell[ideal/copy/threshold-0.9]"
        ]
        result.stdout.fnmatch_lines("pbcore: sampler threshold-0.90 is named threshold-0.9")

    def test_blocks_that_do_not_divide_the_answers_are_left_out(self, run: Run) -> None:
        """One line counts them; where they divide, also the masks of a canvas given in part, the
        cells are there.
        """
        cells = (
            "--model",
            "ideal",
            "--task",
            "list_ops/*",
            "--task",
            "copy",
            "--sampler",
            "random-k2+b8",
        )
        assert len(ids(run(*cells, "--n 16 --co -q"))) == 5
        assert len(ids(run(*cells, "--n 15 --co -q"))) == 1
        result = run(*cells[:4], *cells[6:], "--n 15")
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        result.stdout.fnmatch_lines(
            ["left out: 4 cells, list_ops × +b8: blocks of 8 don't divide the answers' length"]
        )

    def test_a_node_id_brings_cells_that_no_profile_has(self, in_process: Run) -> None:
        """A cell's node id alone runs it, and with a sample's number that sample."""
        cell = "benches/test_waiting_line.py::test_cell[ideal/copy/margin-k3]"
        sample = "benches/test_waiting_line.py::test_cell[ideal/copy/margin-k3/17]"
        assert ids(in_process(cell, "--co -q")) == [cell]
        assert ids(in_process(sample, "--co -q")) == [sample]

    def test_a_name_from_a_report_runs_its_cell(self, in_process: Run) -> None:
        """A cell's name in the place of its node id, alone or beside the folder of the cells, with
        a sample, too.
        """
        cell = "benches/test_waiting_line.py::test_cell[ideal/copy/margin-k3]"
        sample = "benches/test_list_ops.py::test_cell[ideal/list_ops/copy/random-k2/17]"
        assert ids(in_process("ideal/copy/margin-k3", "--co -q")) == [cell]
        names = ("ideal/copy/margin-k3", "ideal/list_ops/copy/random-k2/17")
        assert ids(in_process("benches", *names, "--co -q")) == [cell, sample]
        assert ids(in_process("benches", "--co -q --task sort --model ideal", names[0])) == [cell]

    def test_names_that_pytest_would_escape(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """The id has the model's name, on one line; pasted whole, or as the cell's name, it selects
        its cell.
        """
        models = {
            "müller": "müller",
            "a[1]": "a[1]",
            "日本 it's": "日本 it's",
            "two\nlines": r"two\x0alines",
            r"C:\new\x1f": r"C:\new\x5cx1f",
            "not utf-8 \udcff": r"not utf-8 \udcff",
        }
        grid = ["--task", "copy", "--sampler", "confidence-k8"]
        for model in models:
            (project.path / model).symlink_to(TINY)
            grid += ["--model", f"./{model}"]
        names = [f"{shown}/copy/confidence-k8" for shown in models.values()]
        cells = [f"benches/test_waiting_line.py::test_cell[{name}]" for name in names]
        samples = [cell.replace("k8]", "k8/1]") for cell in cells]
        for given in (["benches", *grid], cells, names, [f"./{name}" for name in names]):
            assert ids(in_process(*given, "--co", "-q")) == cells
        assert ids(in_process(*samples, "--co", "-q")) == samples

    def test_names_that_pytest_would_escape_run(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """A folder and a task: `-k` selects their cell, the command of a wrong answer runs again,
        and `--resume` keeps the cell.
        """
        (project.path / "mü[1]").symlink_to(TINY)
        (project.path / "mine.yaml").write_text(
            "küche/flaggen:\n  samples: rows.jsonl\n  scorer: list_match\n"
            "  max_new_tokens: 32\n  prompt: '{question}'\n",
            encoding="utf-8",
        )
        first, second = load_task("waiting_line/copy", limit=2).samples
        row = {"input": {"question": first.prompt}, "answer": second.answer}
        (project.path / "rows.jsonl").write_text(json.dumps(row) + "\n")
        grid = "--model ./mü[1] --tasks mine.yaml --sampler confidence-k8 --task küche/*"
        id_ = "mü[1]/küche/flaggen/confidence-k8"
        result = in_process("benches", grid, "-k", "mü[1] and küche", "--out out")
        result.assert_outcomes(passed=1)
        assert pbcore.results.load(project.path / "out")["id"].tolist() == [id_]
        again = in_process("benches", grid, "--resume out")
        again.stdout.fnmatch_lines(["*1 cell kept, 0 measured*"])
        failed = in_process("benches", grid, "-x")
        failed.assert_outcomes(failed=1)
        commands = (line.partition("pytest ")[2] for line in failed.stdout.lines)
        words = ["pytest", *shlex.split(next(text for text in commands if "/0" in text))]
        in_process(*words[1:]).assert_outcomes(failed=1)

    @pytest.mark.parametrize(
        ("name", "said"),
        [("idael/copy/random-k2", "mean ideal"), ("ideal/copy/margn-k2", "mean margin")],
    )
    def test_a_misspelt_name_is_a_usage_error(self, in_process: Run, name: str, said: str) -> None:
        """Before anything is collected, with close matches."""
        result = in_process(name)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert said in result.stderr.str()

    @pytest.mark.slow
    def test_workers_are_given_the_node_id(self, in_process: Run) -> None:
        """A name runs in xdist's workers, too."""
        in_process("ideal/copy/random-k2", "--limit 2 -n 2 --out out").assert_outcomes(passed=1)

    @pytest.mark.slow
    def test_workers_agree_on_a_name_that_pytest_would_escape(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """The controller tells the cell by its id."""
        (project.path / "mü\n[1]").symlink_to(TINY)
        name = "mü\\x0a[1]/copy/confidence-k8"
        in_process(name, "--limit 1 -n 2 --out out", "--junitxml", "j.xml").assert_outcomes(
            passed=1
        )
        row = pbcore.results.load(project.path / "out").iloc[0]
        assert row["id"] == "mü\n[1]/copy/confidence-k8"
        assert name in (project.path / "j.xml").read_text(encoding="utf-8")

    def test_samples_are_items_in_the_drill_down(self, run: Run) -> None:
        """--per-sample has an item for each sample, --sample for one, -x implies it, and a floor
        takes that back.
        """
        cell = (
            "--model",
            "ideal",
            "--task",
            "copy",
            "--sampler",
            "random-k2",
            "--co",
            "-q",
            "--limit",
            "3",
        )
        prefix = "benches/test_waiting_line.py::test_cell[ideal/copy/random-k2"
        samples = [f"{prefix}/{number}]" for number in range(3)]
        assert ids(run(*cell, "--per-sample")) == samples
        assert ids(run(*cell, "-x")) == samples
        assert ids(run(*cell, "--sample 17")) == [f"{prefix}/17]"]
        assert ids(run(*cell, "-x --floor '* accuracy>=0'")) == [f"{prefix}]"]

    def test_a_models_cells_stand_together(self, run: Run) -> None:
        """Over all files, so that a model is loaded once."""
        found = ids(run("--model ideal --model slow --sampler random-k2 --co -q"))
        models = [name.partition("[")[2].partition("/")[0] for name in found]
        assert models == sorted(models)

    def test_shards_split_the_run(self, run: Run) -> None:
        """Two shards together are the whole run, and neither holds a cell of the other."""
        whole, first, second = (
            ids(run(*ONE, *shard)) for shard in ([], ["--shard", "1/2"], ["--shard", "2/2"])
        )
        assert sorted(first + second) == sorted(whole)
        assert len(first) == len(second) == 8

    def test_the_cells_of_other_shards_are_deselected(self, run: Run) -> None:
        """pytest counts them as such."""
        result = run(*ONE, "--shard", "1/3")
        assert len(ids(result)) == 6
        result.stdout.fnmatch_lines(["*(10 deselected)*"])


class TestOwnDecoders:
    def test_their_samplers_are_theirs_to_read(self, run: Run) -> None:
        """DiffusionGemma's parameters pass, in its cells alone; what it can't run is left out with
        the way to ask.
        """
        both = ("--model", "ideal", "--model", "diffusiongemma-26b", "--task", "copy")
        result = run(*both, "--sampler eb-0.1-steps48-t_min0.4 --sampler random-k2 --co -q")
        assert [name.partition("[")[2] for name in ids(result)] == [
            "ideal/copy/random-k2]",
            "diffusiongemma-26b/copy/eb-0.1-steps48-t_min0.4]",
        ]
        default = run("--model diffusiongemma-26b --task copy --co -q")
        assert [name.partition("[")[2] for name in ids(default)] == [
            "diffusiongemma-26b/copy/eb-0.1]"
        ]
        none = run("--model diffusiongemma-26b --task copy --sampler random-k2 --co -q")
        none.stdout.fnmatch_lines(
            ["left out: 1 cell, diffusiongemma-26b × samplers other than eb: *--sampler eb-0.1"]
        )

    def test_a_users_own_decides_by_its_check(self, run: Run, project: pytest.Pytester) -> None:
        """A sampler that the loop doesn't have runs; one that `check` refuses is an error of that
        cell, with its words.
        """
        cells = ("--model", "speaker", "--task", "copy", "--limit", "2", "--out", "out")
        result = run(*cells, "--sampler eb-0.1-steps48 --sampler random-k2")
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(
            [
                "*speaker/copy/random-k2: SamplerNameError: sampler random-k2: speaker decodes by"
                " itself*"
            ]
        )
        rows = pbcore.results.load(project.path / "out").set_index("sampler")
        assert rows["status"].to_dict() == {"eb-0.1-steps48": "ok", "random-k2": "error"}


class TestOwnTasks:
    def test_a_tasks_file_brings_cells(self, run: Run, project: pytest.Pytester) -> None:
        """Tasks of a user's own YAML file are measured in benches/test_own_tasks.py, also by their
        names; files of other tasks, whose grid is empty, count no item.
        """
        (project.path / "mine.yaml").write_text(
            "desk/turn_round:\n  generator: reverse\n  scorer: list_match\n  shots: 1\n  lengths:"
            " [3]\n  samples: 4\n  max_new_tokens: 32\n  prompt: |\n    Turn round: {context}\n "
            " settings: {items: [salt, pepper, basil, thyme, cumin, clove]}\n"
        )
        result = run(
            "--tasks mine.yaml --model ideal --sampler confidence-k1 --task 'desk/*' --out out"
        )
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["collected 1 item"])
        [cell] = pbcore.results.load_cells(project.path / "out")
        assert cell.n_samples == 4
        assert cell.n_available is not None
        assert 4 <= cell.n_available < 120
        result.stdout.fnmatch_lines(["ideal * confidence", "score in %*k1", "desk/turn_round *100"])
        again = run("ideal/desk/turn_round/confidence-k2", "--tasks mine.yaml --out again")
        again.assert_outcomes(passed=1)


class TestOwnSampler:
    def test_the_docs_example_shows_up(self, run: Run, project: pytest.Pytester) -> None:
        """The example of at most 20 lines, put into conftest.py, is measured under its name and
        decides the answers.
        """
        text = (ROOT / "docs" / "own.md").read_text(encoding="utf-8")
        code = text.partition("<!-- example -->\n```python\n")[2].partition("```")[0]
        assert 5 < len(code.strip().splitlines()) <= 20
        conftest = project.path / "conftest.py"
        conftest.write_text(code + conftest.read_text())
        result = run("--model ideal --task copy --sampler mine-k2 --limit 4 --out out")
        result.assert_outcomes(passed=1)
        row = pbcore.results.load(project.path / "out").iloc[0]
        assert row[["sampler", "accuracy"]].tolist() == ["mine-k2", 1.0]
        assert 16 <= row["nfe"] <= 32

    def test_an_own_model_shows_up(self, run: Run) -> None:
        """A model that conftest.py registers is measured, and found among close matches."""
        run("--model slow --task copy --sampler random-k8 --limit 2 --out out").assert_outcomes(
            passed=1
        )
        assert "did you mean slow?" in run("--model slwo").stderr.str()


class TestVocabulary:
    def test_a_model_without_a_tasks_words_is_left_out(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """`tiny` knows the words of the package's own data alone; on others it is counted with the
        reason, not run into errors.
        """
        (project.path / "own.yaml").write_text(
            "pantry/reverse:\n  generator: reverse\n  scorer: list_match\n  max_new_tokens: 32\n "
            " lengths: [3]\n  samples: 5\n  settings: {items: [salt, pepper, basil, thyme, cumin,"
            " clove]}\n  prompt: 'Turn around {context}.'\n"
        )
        result = run("--model tiny --sampler random-k2 --tasks own.yaml --task 'pantry/*'")
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        result.stdout.fnmatch_lines(
            ["left out: 1 cell, tiny × pantry/reverse: its vocabulary covers*"]
        )


class TestFixturesOfTheProject:
    @pytest.mark.parametrize("name", ["cell", "task", "model", "model_cache", "benchmark"])
    def test_one_in_the_place_of_ours_is_a_usage_error(
        self, project: pytest.Pytester, run: Run, name: str
    ) -> None:
        """It names the fixture, its file and line, once, before anything runs."""
        own = f"\nimport pytest\n@pytest.fixture\ndef {name}(): return 3\n"
        (project.path / "benches" / "conftest.py").write_text(own)
        result = run("--model ideal --task copy --sampler random-k4 --limit 2 --out out")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        (line,) = (one for one in result.stderr.lines if one.startswith("ERROR"))
        assert f"the fixture {name!r} of {project.path}/benches/conftest.py, line 3," in line
        assert "INTERNALERROR" not in result.stdout.str()
        assert not (project.path / "out").exists()

    def test_one_that_adds_to_ours_is_fine(self, project: pytest.Pytester, run: Run) -> None:
        """As pytest means it: a fixture that takes ours by the same name and returns it."""
        own = "\nimport pytest\n@pytest.fixture\ndef model(model): return model\n"
        (project.path / "benches" / "conftest.py").write_text(own)
        cells = "--model ideal --task copy --sampler random-k4 --limit 2 --out out"
        run(cells).assert_outcomes(passed=1)

    def test_one_that_gives_something_else_fails_its_cell(
        self, project: pytest.Pytester, run: Run
    ) -> None:
        """The cell's error is recorded; pytest itself goes on."""
        own = "\nimport pytest\n@pytest.fixture\ndef model(model): return 3\n"
        (project.path / "benches" / "conftest.py").write_text(own)
        result = run("--model ideal --task copy --sampler random-k4 --limit 2 --out out")
        result.assert_outcomes(failed=1)
        assert "INTERNALERROR" not in result.stdout.str()

"""The plan of a run: which cells and samples are its items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pbcore.base.errors import InputError
from pbcore.grid.plan import Plan, make_plan, masked_tokens, respelled_ids
from pbcore.grid.settings import Settings
from pbcore.tasks import load_task, register_task

ONE: dict[str, Any] = {"model": ("ideal",), "task": ("copy",), "sampler": ("random-k2",)}
CELL = "ideal/copy/random-k2"
OWN = """kitchen/flags:
  samples: rows.jsonl
  scorer: list_match
  max_new_tokens: 32
  prompt: "Name the colours of the flag of {country}."
"""


def plan(*arguments: str, exit_first: bool = False, **settings: Any) -> Plan:
    return make_plan(Settings(**(ONE | settings)), arguments, exit_first)


class TestAvailable:
    @pytest.mark.usefixtures("registries")
    @pytest.mark.parametrize("limit", [1, 3, None])
    def test_questions_of_a_file_or_of_python(self, tmp_path: Path, limit: int | None) -> None:
        """As many as there are, whatever the run asks."""
        rows = [f'{{"input": {{"country": "{name}"}}, "answer": "[\\"red\\"]"}}' for name in "abc"]
        (tmp_path / "rows.jsonl").write_text("\n".join(rows))
        (tmp_path / "own.yaml").write_text(OWN)
        register_task("sums/small", [("2 + 2?", "4"), ("3 + 3?", "6")], scorer=lambda *_: 1.0)
        tasks = ("kitchen/flags", "sums/small")
        chosen = plan(task=tasks, tasks=(tmp_path / "own.yaml",), limit=limit)
        assert [chosen.available(task) for task in tasks] == [3, 2]

    def test_questions_that_are_drawn(self, tmp_path: Path) -> None:
        """They have no end but where few can be made, by few items or a small n."""
        few = "[salt, pepper, basil, thyme, cumin]"
        (tmp_path / "own.yaml").write_text(
            "pantry/reverse:\n  generator: reverse\n  scorer: list_match\n  max_new_tokens: 32\n"
            f"  lengths: [3]\n  samples: 2\n  settings: {{items: {few}}}\n  prompt: '{{context}}'\n"
        )
        chosen = plan(task=("pantry/reverse",), tasks=(tmp_path / "own.yaml",))
        number = chosen.available("pantry/reverse")
        assert number is not None
        assert 2 < number < 60
        assert len(plan(task=("pantry/reverse",), limit=number).task("pantry/reverse").samples)
        with pytest.raises(InputError, match="different questions"):
            plan(task=("pantry/reverse",), limit=number + 1).task("pantry/reverse")
        short = plan(task=("list_ops/copy",), n=(2,), limit=3).available("list_ops/copy")
        assert short is not None
        assert short < 200
        assert plan().available("waiting_line/copy") is None


class TestDrillDown:
    def test_cells_are_items_unless_samples_are_requested(self) -> None:
        """By --per-sample, by number, in a node id, or by -x in a run that is not judged."""
        assert list(make_plan(Settings(**ONE)).items) == [CELL]
        assert list(plan(per_sample=True, limit=2).items) == [f"{CELL}/0", f"{CELL}/1"]
        assert list(plan(exit_first=True, limit=1).items) == [f"{CELL}/0"]
        assert list(plan(exit_first=True, floor=("* nfe<=9",)).items) == [CELL]

    def test_a_numbered_sample_may_lie_beyond_the_limit(self) -> None:
        """Only it is an item; the task then has all its samples."""
        chosen = plan(sample=(17,), limit=2)
        assert list(chosen.items) == [f"{CELL}/17"]
        assert chosen.numbered
        assert len(chosen.task("waiting_line/copy").samples) == 100

    def test_a_sample_in_a_node_id_joins_those_of_the_grid(self) -> None:
        """The grid's stay within the limit, though the task has all samples."""
        named = plan("test_a.py::test_cell[ideal/copy/margin-k3/50]", limit=2)
        assert list(named.items) == [f"{CELL}/0", f"{CELL}/1", "ideal/copy/margin-k3/50"]

    def test_node_ids_may_spell_samplers_in_another_way(self) -> None:
        """They are found under the names of their cells; other tests' ids and unknown samplers
        stay.
        """
        others = ["benches", "test_a.py::test_b[a/b/c]", "test_a.py::test_cell[ideal/copy/x-k2]"]
        typed = "test_a.py::test_cell[ideal/copy/klass-kl0.05-0.90/50]"
        assert respelled_ids([typed, *others]) == [
            "test_a.py::test_cell[ideal/copy/klass-0.9-kl0.05/50]",
            *others,
        ]

    def test_a_sample_that_is_not_there_is_named(self) -> None:
        """With the numbers that are."""
        with pytest.raises(InputError, match="--sample 100: waiting_line/copy has samples 0 to 99"):
            plan(sample=(3, 100))


class TestGrid:
    def test_models_are_outermost_and_each_name_counts_once(self) -> None:
        """A task or sampler given twice, also in another spelling, is one."""
        made = plan(
            model=("tiny", "ideal"),
            task=("copy", "waiting_line/copy"),
            sampler=("random-k2", "random-2"),
        )
        assert list(made.items) == ["tiny/copy/random-k2", CELL]

    def test_a_profile_narrows_single_models_and_options_go_beyond_it(self) -> None:
        """`tiny` runs four samplers on the paper's tasks in the quick profile; --task and --sampler
        choose any.
        """
        quick = make_plan(Settings(model=("tiny",)))
        waiting = [name for name in quick.items if not name.startswith("tiny/w2s")]
        assert "tiny/copy/confidence-k2" in waiting
        assert "tiny/copy/random-k2" not in waiting
        copied = make_plan(Settings(model=("tiny",), task=("list_ops/copy",)))
        assert "tiny/list_ops/copy/confidence-k2" not in waiting
        assert "tiny/list_ops/copy/confidence-k2" in copied.items
        assert (
            "tiny/copy/random-k2"
            in make_plan(Settings(model=("tiny",), sampler=("random-k2",))).items
        )

    def test_several_batch_sizes_are_cells_of_their_own(self) -> None:
        """One number, and samples as items, leave ids as they are; more rows than a task has
        samples are left out.
        """
        several = plan(batch_size=(1, 4, 64), limit=8)
        assert list(several.items) == [f"{CELL}+x1", f"{CELL}+x4"]
        assert list(several.left_out({"waiting_line"})) == [
            "waiting_line/copy × +x64: it has 8 samples (--limit)"
        ]
        assert list(plan(batch_size=(4,)).items) == [CELL]
        assert list(plan(batch_size=(1, 4), sample=(3,)).items) == [f"{CELL}/3"]
        assert list(plan(batch_size=(1, 4), sampler=("random-k2+x2",)).items) == [f"{CELL}+x2"]

    def test_what_a_model_cannot_run_is_counted(self) -> None:
        """By reason, and only in the categories that are looked at."""
        made = plan(task=("copy", "summarization"), sampler=("random-k2", "random-k2+dual"))
        assert list(made.items) == [CELL]
        reasons = made.left_out({"waiting_line", "text_writing"})
        assert sorted(reasons.values()) == [1, 2]
        assert list(made.left_out({"waiting_line"}).values()) == [1]

    def test_the_limit_is_the_options_else_the_profiles(self) -> None:
        """The quick profile takes 24 samples for `ideal`, which costs next to nothing, sixteen for
        others, and for `tiny` fewer by task.
        """
        made = plan()
        copy = "waiting_line/copy"
        assert [made.limit(model, copy) for model in ("ideal", "tiny", "./mine")] == [24, 8, 16]
        assert [len(made.task(copy, model).samples) for model in ("ideal", "tiny")] == [24, 8]
        of_tiny = ("text_writing/w2s_hard", "text_writing/paraphrasing", "list_ops/copy")
        assert [made.limit("tiny", task) for task in of_tiny] == [12, 8, 16]
        assert plan(limit=3).limit("ideal", copy) == plan(limit=3).limit("tiny", copy) == 3
        assert plan(profile="paper").limit("ideal", copy) is None
        assert len(plan(limit=3).task("waiting_line/copy", "ideal").samples) == 3

    def test_its_categories_are_those_of_the_grid_and_of_node_ids(self) -> None:
        """A node id may name a task that the grid lacks."""
        assert plan("t.py::test_cell[ideal/sudoku/random-k2]").categories == {
            "waiting_line",
            "puzzle",
        }


class TestLengths:
    @pytest.mark.parametrize(
        ("settings", "task", "lengths"),
        [
            ({"n": (15,)}, "waiting_line/copy", (15,)),
            ({"n": (15,)}, "list_ops/shuffle", (15,)),
            ({"n": (15,)}, "puzzle/sudoku", None),
            ({"n": (5,), "task": ()}, "text_writing/w2s_easy", (5,)),
            ({"n": (15,), "task": ()}, "text_writing/w2s_easy", None),
            ({"n": (5, 15), "task": ()}, "text_writing/w2s_easy", None),
            ({"n": (6,), "task": ()}, "puzzle/latin_square", (6,)),
            ({"n": (15,), "task": ()}, "puzzle/latin_square", None),
            ({"n": (6,), "task": ("walk/graph",)}, "walk/graph", (6,)),
            ({"n": (5,), "task": ("questions/*",)}, "questions/shuffle-x2", (5,)),
            ({}, "waiting_line/copy", None),
        ],
    )
    def test_lists_and_word_sets_have_an_n(
        self, settings: dict[str, Any], task: str, lengths: tuple[int, ...] | None
    ) -> None:
        """A profile's word sets keep their own number beside lists of an n that they can't have."""
        assert plan(**settings).lengths(task) == lengths

    @pytest.mark.parametrize(
        ("task", "n"), [("walk/graph", 6), ("questions/shuffle-x2", 5), ("puzzle/latin_square", 6)]
    )
    def test_the_questions_have_it(self, task: str, n: int) -> None:
        """Those of walks, of several lists and of squares, and not only the record."""
        samples = plan(model=("tiny",), task=(task,), n=(n,), limit=2).task(task).samples
        assert {sample.length for sample in samples} == {n}

    def test_squares_that_are_too_many_to_list(self) -> None:
        """`ideal` leaves them out, with their number; up to side 4 it has them."""
        large = plan(task=("puzzle/latin_square",), n=(6,), limit=2)
        assert not large.items
        (reason,) = large.left_out({"puzzle"})
        assert "812851200 such squares" in reason
        assert plan(task=("puzzle/latin_square",), n=(3,), limit=2).items


class TestBlocks:
    def test_a_given_canvas_counts_its_masks(self) -> None:
        """Blocks must divide what is decoded, not the whole canvas."""
        infilling, plain = (
            load_task(name, n=4, limit=1).samples[0]
            for name in ("list_ops/copy", "waiting_line/copy")
        )
        assert (masked_tokens(infilling), masked_tokens(plain)) == (4, 32)

    def test_blocks_that_do_not_divide_the_answer_are_left_out(self) -> None:
        """The reason names category and block."""
        made = plan(task=("list_ops/copy",), sampler=("random-k1+b4",), n=(4, 6))
        assert not made.items
        (reason,) = made.left_out({"list_ops"})
        assert reason == "list_ops × +b4: blocks of 4 don't divide the answers' length"
        assert plan(task=("list_ops/copy",), sampler=("random-k1+b4",), n=(4, 8)).items


class TestRefused:
    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"profile": "quik"}, "unknown profile 'quik'; there are quick, ci, paper, full"),
            ({"data_dir": Path("nowhere")}, "--data-dir nowhere: no such folder"),
            ({"tasks": (Path("no.yaml"),)}, "--tasks: no tasks file"),
            ({"task": ("shufle",)}, "--task: no task 'shufle'; did you mean shuffle"),
            ({"model": ("idael",)}, "--model: unknown model 'idael'"),
            ({"sampler": ("confidnce-k2",)}, "--sampler: "),
            ({"dtype": "float3"}, "dtype 'float3' is not known"),
        ],
    )
    def test_what_does_not_exist_is_named(self, settings: dict[str, Any], said: str) -> None:
        """With the option that gave it."""
        with pytest.raises(InputError) as raised:
            plan(**settings)
        assert str(raised.value).startswith(said)

    def test_a_gpu_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """--gpu is refused with what torch sees; where there is one it is taken."""
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        with pytest.raises(InputError, match=r"--gpu: no usable GPU \(torch"):
            plan(gpu=True)
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        assert list(plan(gpu=True).items) == [CELL]

    def test_a_model_that_only_a_node_id_names_is_checked_too(self) -> None:
        """Before anything runs."""
        with pytest.raises(InputError, match="unknown model 'idael'"):
            plan("t.py::test_cell[idael/copy/random-k2]")


class TestQuestions:
    def test_by_number(self) -> None:
        """A task has these questions alone, the same as without, in order; also those that lie
        beyond the usual number.
        """
        chosen = plan(questions=("3,5,101-102",)).task("waiting_line/copy")
        whole = load_task("waiting_line/copy", limit=110)
        assert chosen.samples == tuple(whole.samples[i] for i in (3, 5, 101, 102))
        assert chosen.data_hash not in (whole.data_hash, "")

    def test_of_one_task(self) -> None:
        """What names a task goes before what is for all, wherever it stands."""
        for questions in (("copy=7", "0-1"), ("0-1", "waiting_line/copy=7")):
            both = plan(task=("copy", "shuffle"), questions=questions)
            assert [one.index for one in both.task("waiting_line/copy").samples] == [7]
            assert [one.index for one in both.task("waiting_line/shuffle").samples] == [0, 1]

    def test_the_profile_does_not_limit_them(self) -> None:
        """More than the profile's 40 questions a task."""
        assert len(plan(questions=("0-49",)).task("waiting_line/copy", "ideal").samples) == 50

    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({"questions": ("shuffle=0-4",)}, "this run has no task shuffle"),
            (
                {"questions": ("0-3",), "tasks": (Path("own.yaml"),), "task": ("kitchen/flags",)},
                "0 to 1",
            ),
        ],
    )
    def test_refused(
        self,
        settings: dict[str, Any],
        told: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A task that the run lacks, and a question that a file lacks."""
        monkeypatch.chdir(tmp_path)
        row = '{"input": {"country": "France"}, "answer": "[\\"blue\\", \\"red\\"]"}\n'
        Path("rows.jsonl").write_text(2 * row)
        Path("own.yaml").write_text(OWN)
        with pytest.raises(InputError, match=told):
            plan(**settings)

"""Levels of factors: read, applied to settings, and kept apart by a cell's name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pbcore.base.errors import InputError
from pbcore.grid.cellid import CellText, parse_cell_name
from pbcore.grid.levels import FACTORS as ALL
from pbcore.grid.levels import at, factor_levels, factors_of, given_at, with_short_forms
from pbcore.grid.option import Role
from pbcore.grid.plan import make_plan
from pbcore.grid.settings import OPTIONS, Settings
from pbcore.grid.validate_settings import check
from pbcore.tasks import all_task_names

FACTORS = ["threads=1,8", "dtype=float32,bfloat16"]


def test_levels_are_all_combinations_of_the_factors() -> None:
    """The first factor is the outermost; without factors there is one level, which no id shows."""
    assert factor_levels(FACTORS) == [
        f"threads:{b}+dtype:{d}" for b in (1, 8) for d in ("float32", "bfloat16")
    ]
    assert factor_levels([]) == [""]


@pytest.mark.parametrize(
    "text",
    [
        "threads",
        "threads=0",
        "threads=default,1",
        "threads=1,x",
        "colour=red",
        "shots=9",
        "cot=yes,no",
        "out=a,b",
        "rounds=1,2",
        "tasks=a.yaml",
    ],
)
def test_a_factor_that_cannot_be_meant_is_refused(text: str) -> None:
    """Unknown factors and values that their options don't have raise."""
    with pytest.raises(InputError, match="--factor"):
        factor_levels([text])
    with pytest.raises(InputError, match="once"):
        factor_levels([*FACTORS, FACTORS[0]])


def test_a_level_sets_the_options_that_it_names() -> None:
    """Other settings stay, and without a level all of them do."""
    settings = Settings(limit=3, dtype="float64")
    changed = at(settings, "threads:8+dtype:bfloat16")
    assert (changed.dtype, changed.threads, changed.limit) == ("bfloat16", 8, 3)
    assert at(settings, "") is settings
    assert factors_of("threads:8+dtype:bfloat16") == {"threads": 8, "dtype": "bfloat16"}


def test_forwards_are_not_shared_between_levels() -> None:
    """A forward that one level computed would hide another's difference."""
    assert Settings(profile="paper").sharing
    assert not Settings(profile="paper", factor=("threads=1,8",)).sharing


@pytest.mark.parametrize("sample", [None, 17])
@pytest.mark.parametrize("model", ["tiny", "dream:dummy-l2", "a/b:c"])
def test_a_name_with_its_level_is_read_back(model: str, sample: int | None) -> None:
    """The level is the id's last part, before a sample's number; ids of cells without one have no
    such part.
    """
    name = CellText(
        model, "waiting_line/shuffle", "confidence-k2", sample, "threads:8+dtype:bfloat16"
    )
    assert parse_cell_name(name.item_id, all_task_names()) == name
    assert (
        CellText("tiny", "waiting_line/shuffle", "confidence-k2").cell_id
        == "tiny/shuffle/confidence-k2"
    )


def test_each_option_that_can_change_answers_varies_or_says_why_not() -> None:
    """Options of a device, a commit, the questions or several values are refused with a reason."""
    for option in OPTIONS:
        if option.role not in (Role.ANSWERS, Role.LOADS):
            continue
        if option.is_factor:
            assert option.name in ALL
            continue
        with pytest.raises(InputError, match=f"--factor {option.name}: (it|one model)"):
            factor_levels([f"{option.name}=1,2"])
    assert {"shots", "cot", "max-new-tokens", "dtype", "adapter", "threads"} <= ALL.keys()


def test_a_switch_and_an_option_that_is_not_given_are_levels() -> None:
    """`on` and `off`, and `default` for what a run without the option does."""
    levels = factor_levels(["cot=on,off", "shots=default,0"])
    assert levels[0] == "cot:on+shots:default"
    assert given_at(levels[0]) == {"cot": True, "shots": None}
    assert given_at(levels[3]) == {"cot": False, "shots": 0}
    assert factors_of(levels[3]) == {"cot": "off", "shots": 0}


def test_a_path_has_a_short_level() -> None:
    """Its last part in characters that -k accepts, told apart by a number; the run's factors say
    what it stands for.
    """
    factors = ("adapter=/a/my lora,/b/my lora,default",)
    assert factor_levels(factors) == ["adapter:my-lora", "adapter:my-lora-2", "adapter:default"]
    settings = Settings(model=("tiny",), factor=factors)
    assert at(settings, "adapter:my-lora-2").adapter == "/b/my lora"
    assert at(settings, "adapter:default").adapter is None


def test_seeds_and_rows_as_factors_are_their_options() -> None:
    """`--seed 0-4` and `--batch-size 1,8` are short forms of the same thing."""
    settings = with_short_forms(Settings(factor=("seed=0-2", "batch-size=1,8", "shots=0,1")))
    assert (settings.seed, settings.batch_size) == ((0, 1, 2), (1, 8))
    assert settings.factor == ("shots=0,1",)
    with pytest.raises(InputError, match="--seed is given already"):
        with_short_forms(Settings(seed=(3,), factor=("seed=0,1",)))


def test_a_level_asks_the_same_questions_in_its_own_way() -> None:
    """Shots differ, question and answer don't."""
    factors = ("shots=0,1", "max-new-tokens=64,96")
    settings = Settings(
        model=("tiny",), task=("shuffle",), sampler=("random-k2",), limit=3, factor=factors
    )
    plan = make_plan(settings)
    cells = list(plan.items.values())
    assert len({cell.level for cell in cells}) == 4
    tasks = [plan.task_of(cell) for cell in cells]
    shots = [len(task.samples[0].messages) for task in tasks]
    assert shots == [1, 1, 3, 3]
    assert [task.samples[0].max_new_tokens for task in tasks] == [64, 96, 64, 96]
    assert len({task.samples[0].prompt for task in tasks}) == 1
    assert len({str(task.samples[0].label) for task in tasks}) == 1
    kept = [plan.recorded(cell)["shots"] for cell in cells]
    assert kept == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("model", "task", "factor"),
    [
        ("ideal", "shuffle", "dtype=float32,bfloat16"),
        ("tiny", "replace_random", "adapter=default"),
        ("tiny", "w2s_easy", "shots=0,1"),
        ("tiny", "shuffle", "cot-answer=whole,marked"),
    ],
)
def test_cells_that_a_factor_cannot_change_are_left_out(model: str, task: str, factor: str) -> None:
    """With the reason, once; where it changes a cell of the run, that cell is run."""
    settings = Settings(model=(model,), task=(task,), sampler=("confidence-k2",), factor=(factor,))
    plan = make_plan(replace(settings, limit=2))
    acts = factor.startswith("adapter")
    assert bool(plan.items) == acts
    for _, reason in plan.combinations:
        assert acts or f"× --factor {factor.partition('=')[0]}: it acts on" in str(reason)


def test_rules_hold_at_each_level() -> None:
    """An adapter belongs to one model, given as an option or as a level."""
    settings = Settings(model=("tiny", "ideal"), factor=("adapter=default,/a/lora",))
    with pytest.raises(InputError, match="--adapter belongs to one model"):
        check(settings)

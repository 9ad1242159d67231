"""Recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.extras.train.command import HERE
from pbcore.extras.train.recipe import Phase, Recipe, read_recipe
from pbcore.tasks.registry import task_names


class TestPhase:
    def test_tasks_not_named_have_share_one_and_zero_leaves_out(self) -> None:
        shares = Phase(
            1, 0.1, 0.1, weights={"waiting_line/sort": 2.0, "puzzle/sudoku": 0.0}
        ).tasks()
        assert shares["waiting_line/sort"] == 2.0
        assert shares["waiting_line/copy"] == 1.0
        assert "puzzle/sudoku" not in shares
        assert len(shares) == len(task_names()) - 1

    def test_an_unknown_task_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="waiting_line/sorts"):
            Phase(1, 0.1, 0.1, weights={"waiting_line/sorts": 2.0}).tasks()


class TestRecipe:
    def test_a_step_belongs_to_a_phase(self) -> None:
        recipe = Recipe(8, 1, 1, 8, 0, 1, 0, (Phase(3, 0.1, 0.1), Phase(2, 0.1, 0.0)))
        assert [recipe.at(step) for step in range(5)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
        with pytest.raises(ValueError, match="beyond the recipe's end"):
            recipe.at(5)


class TestReadRecipe:
    def test_the_shipped_recipe_ends_with_all_tasks(self) -> None:
        recipe = read_recipe(HERE / "recipe.yaml")
        assert set(recipe.phases[-1].tasks()) == set(task_names())
        assert recipe.phases[-1].end_rate < recipe.phases[-1].rate

    def test_the_causal_recipe_has_the_network_and_tasks_of_the_other(self) -> None:
        causal = read_recipe(HERE / "recipe-causal.yaml")
        diffusion = read_recipe(HERE / "recipe.yaml")
        assert (causal.objective, diffusion.objective) == ("causal", "diffusion")
        shapes = [(one.width, one.layers, one.heads, one.inner) for one in (causal, diffusion)]
        assert shapes[0] == shapes[1]
        assert set(causal.phases[-1].tasks()) == set(task_names())

    def test_another_objective_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="choose from diffusion, block, causal"):
            Recipe(8, 1, 1, 8, 0, 1, 0, (), objective="prefix")  # type: ignore[arg-type]

    def test_an_unknown_key_is_an_error_that_names_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text("{widht: 3, phases: []}", encoding="utf-8")
        with pytest.raises(ValueError, match=r"mine\.yaml.*widht"):
            read_recipe(path)

"""pbcore.analysis.pairs: which cell of A stands beside which of B, by id and by the given names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.analysis.pairs import Pair, pair_cells, unpaired
from pbcore.base.errors import InputError
from pbcore.results.baseline import BaselineCell
from pbcore.tasks.naming import short
from tests.results import factory

TASKS = ("waiting_line/copy", "waiting_line/shuffle", "list_ops/copy")


def run(*names: str) -> dict[str, BaselineCell]:
    """Cells by `model task sampler`, as a run has them."""
    cells = {}
    for name in names:
        model, task, sampler = name.split()
        full = next(one for one in TASKS if short(one) == task)
        name = f"{model}/{task}/{sampler}"
        cells[name] = BaselineCell(
            name, model, full, sampler, (0,), "", "", "", "accuracy", {}, (), {}, (), None
        )
    return cells


def sides(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    return [pair.ids for pair in pairs]


class TestByName:
    def test_a_sampler_against_another_of_the_same_run(self) -> None:
        """Same model, same task; the run's other cells are counted and not compared with
        themselves.
        """
        cells = run("m copy a-k2", "m copy b-k2", "m copy c-k2", "n shuffle a-k2", "n shuffle b-k2")
        pairing = pair_cells(cells, cells, samplers={"a-k2": "b-k2"})
        assert sides(pairing.pairs) == [
            ("m/copy/a-k2", "m/copy/b-k2"),
            ("n/shuffle/a-k2", "n/shuffle/b-k2"),
        ]
        assert [pair.name for pair in pairing.pairs] == ["m/copy/b-k2→a-k2", "n/shuffle/b-k2→a-k2"]
        assert pairing.left_out == (3, 3)

    def test_a_model_against_another(self) -> None:
        """Each of its samplers with the same sampler of the other."""
        head = run("v2 copy a", "v2 copy b", "x copy a")
        base = run("v1 copy a", "v1 copy b")
        pairing = pair_cells(head, base, {"v2": "v1"})
        assert sides(pairing.pairs) == [("v2/copy/a", "v1/copy/a"), ("v2/copy/b", "v1/copy/b")]
        assert pairing.left_out == (1, 0)

    def test_both(self) -> None:
        """With models and samplers a cell needs both names; a name may stand for itself."""
        head = run("v2 copy a", "v2 copy b", "x copy a")
        base = run("v1 copy b", "v1 copy a", "x copy b")
        assert sides(pair_cells(head, base, {"v2": "v1"}, {"a": "b"}).pairs) == [
            ("v2/copy/a", "v1/copy/b")
        ]
        assert sides(pair_cells(head, base, {"v2": "v1"}, {"a": "a"}).pairs) == [
            ("v2/copy/a", "v1/copy/a")
        ]

    def test_without_partners(self) -> None:
        """Cells of the names on one side only are named, and what the other side lacks."""
        pairing = pair_cells(
            run("v2 copy a", "v2 shuffle a"), run("v1 copy a", "v1 list_ops/copy a"), {"v2": "v1"}
        )
        assert {(*pair.ids, pair.name) for pair in pairing.pairs} == {
            ("v2/copy/a", "v1/copy/a", "v1→v2/copy/a"),
            ("v2/shuffle/a", "", "v1→v2/shuffle/a"),
            ("", "v1/list_ops/copy/a", "v1→v2/list_ops/copy/a"),
        }
        assert [pair.wanted for pair in pairing.pairs if pair.head is None] == [
            "v2/list_ops/copy/a"
        ]

    def test_several_against_one(self) -> None:
        """One cell of B may have several of A; each that A lacks is missing."""
        cells = run("m copy a", "m copy b", "m copy c", "m shuffle a", "m shuffle c")
        pairing = pair_cells(cells, {**cells, **run("x copy a")}, samplers={"a": "c", "b": "c"})
        assert set(sides(pairing.pairs)) == {
            ("m/copy/a", "m/copy/c"),
            ("m/copy/b", "m/copy/c"),
            ("m/shuffle/a", "m/shuffle/c"),
            ("", "m/shuffle/c"),
        }

    def test_what_was_never_run_is_not_missing(self) -> None:
        """Within one run nothing can be dropped; between two a model that A ran with none of the
        new sampler wasn't dropped either, while a task that it ran with another sampler was.
        """
        cells = run("m copy a", "m copy c", "m shuffle c", "n copy c", "n shuffle c")
        within = pair_cells(cells, cells, samplers={"a": "c"})
        assert sides(within.pairs) == [("m/copy/a", "m/copy/c")]
        assert within.lacking == ("m/shuffle/a", "n/copy/a", "n/shuffle/a")
        between = pair_cells(cells, {**cells, **run("x copy a")}, samplers={"a": "c"})
        assert sides(between.pairs) == [("m/copy/a", "m/copy/c"), ("", "m/shuffle/c")]
        assert between.lacking == ("n/copy/a", "n/shuffle/a")
        named = pair_cells(cells, {**cells, **run("x copy a")}, {"m": "m", "n": "n"}, {"a": "c"})
        assert named.lacking == ()
        assert sum(pair.head is None for pair in named.pairs) == 3

    def test_levels_of_factors_pair_with_their_own(self) -> None:
        """A cell at a level stands beside the other name's at the same level; one whose level A
        lacks is missing.
        """

        def at(name: str, level: str) -> BaselineCell:
            (row,) = run(name).values()
            return replace(row, id=f"{row.id}/{level}")

        rows = [at(f"m copy {name}", f"batch-size:{n}") for name in "ac" for n in (1, 8)]
        rows.append(at("m copy c", "batch-size:32"))
        cells = {row.id: row for row in rows}
        pairing = pair_cells(cells, cells, samplers={"a": "c"})
        assert sides(pairing.pairs) == [
            ("m/copy/a/batch-size:1", "m/copy/c/batch-size:1"),
            ("m/copy/a/batch-size:8", "m/copy/c/batch-size:8"),
        ]
        assert pairing.pairs[0].name == "m/copy/c→a/batch-size:1"
        assert pairing.lacking == ("m/copy/a/batch-size:32",)

    def test_samplers_in_any_spelling(self) -> None:
        """Records have the canonical spelling of a sampler's name."""
        cells = run("m copy confidence-k2+b8+prefix", "m copy random-k2")
        pairing = pair_cells(cells, cells, samplers={"confidence-k2+prefix+b8": "random-k2"})
        assert sides(pairing.pairs) == [("m/copy/confidence-k2+b8+prefix", "m/copy/random-k2")]

    @pytest.mark.parametrize(
        ("new", "old", "name"),
        [
            ("org/llada-2", "org/llada-1", "llada-1→llada-2"),
            ("./runs/v2/", "/data/v1", "v1→v2"),
            ("v2/llada", "v1/llada", "v1/llada→v2/llada"),
            ("org/m+adapters/sort", "org/m", "m→m+sort"),
        ],
    )
    def test_models_go_by_the_last_part_of_their_names(self, new: str, old: str, name: str) -> None:
        """As long as these tell them apart."""
        (pair,) = pair_cells(run(f"{new} copy a"), run(f"{old} copy a"), {new: old}).pairs
        assert pair.name == f"{name}/copy/a"


class TestUnpaired:
    def test_the_first_fact_that_differs(self) -> None:
        """In the given order, and only of those that must be alike."""
        (base,) = run("tiny copy a").values()
        head = replace(base, dtype="bfloat16", data_hash="d2", indices=(0, 1))
        base = replace(base, indices=(0, 1))
        assert unpaired(head, base, ("data_hash", "dtype")) == ("data_hash", "d2", base.data_hash)
        assert unpaired(head, base, ("dtype", "data_hash")) == ("dtype", "bfloat16", base.dtype)
        assert unpaired(head, base, ("seeds", "indices")) is None

    def test_samples_that_a_side_lacks(self) -> None:
        """Two cells without answers can't be paired, though they are alike."""
        (bare,) = run("tiny copy a").values()
        bare = replace(bare, indices=())
        assert unpaired(bare, bare, ("indices",)) == ("indices", (), ())

    def test_questions_that_are_not_known(self) -> None:
        """Of a record without their digest it isn't known that they differ."""
        known, _ = factory.cell(data_hash="d1")
        unknown, _ = factory.cell(data_hash=None)
        other, _ = factory.cell(data_hash="d2")
        assert unpaired(known, unknown, ("data_hash",)) is None
        assert unpaired(known, other, ("data_hash",)) == ("data_hash", "d1", "d2")


class TestUnknownNames:
    @pytest.mark.parametrize(
        ("models", "samplers", "said"),
        [
            ({"tinny": "ideal"}, None, "no model 'tinny' in A; did you mean tiny? A has tiny"),
            ({"tiny": "zz"}, None, "no model 'zz' in B; B has ideal, other"),
            (
                None,
                {"random-k3": "random-k2"},
                "no sampler 'random-k3' in A; did you mean random-k2? A has random-k2",
            ),
            (
                {"tiny": "other"},
                None,
                "no cell of A has a partner in B: under the given names A has tiny/copy/random-k2",
            ),
        ],
    )
    def test_what_there_is(
        self, models: dict[str, str] | None, samplers: dict[str, str] | None, said: str
    ) -> None:
        """The error has the name, the side, close matches and what that side has."""
        with pytest.raises(InputError) as raised:
            pair_cells(
                run("tiny copy random-k2"),
                run("ideal copy random-k2", "other shuffle a"),
                models,
                samplers,
            )
        assert str(raised.value).startswith(said)

    def test_one_name_in_two_spellings(self) -> None:
        """It would have two partners."""
        cells = run("m copy confidence-k2+b8+prefix", "m copy a", "m copy b")
        names = {"confidence-k2+b8+prefix": "a", "confidence-k2+prefix+b8": "b"}
        with pytest.raises(InputError, match="of A is given twice"):
            pair_cells(cells, cells, samplers=names)


def cells_of(models: Iterable[str]) -> st.SearchStrategy[list[str]]:
    names = [
        f"{model} {short(task)} {sampler}"
        for model in models
        for task in TASKS
        for sampler in "abc"
    ]
    return st.lists(st.sampled_from(names), min_size=1, unique=True)


@given(cells_of("mn"), cells_of("mn"))
def test_names_that_stand_for_themselves(head: list[str], base: list[str]) -> None:
    """Where every name stands for itself, all pairs are those by id."""
    a = run(*head)
    b = run(*base)
    models = {cell.model: cell.model for cell in a.values()}
    if not models.keys() <= {cell.model for cell in b.values()} or not a.keys() & b.keys():
        return
    named = pair_cells(a, b, models).pairs
    assert sides(named) == [
        pair
        for pair in sides(pair_cells(a, b).pairs)
        if (a.get(pair[0]) or b[pair[1]]).model in models
    ]
    assert not any(pair.renamed for pair in named)

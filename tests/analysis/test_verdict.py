"""pbcore.analysis.verdict: which cells are worse and better, and by which rule."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from benches.check_statistics import GRIDS, Grid, gates_failed
from pbcore.analysis.verdict import GREEN, Judgement, Verdict, greedy, judge, repeatable
from pbcore.results import CellRecord, SampleRecord, error_cell
from pbcore.results.baseline import BaselineCell, baseline_cell
from pbcore.results.rundir import StoredCell
from tests.results import factory

Entry = tuple[CellRecord, list[SampleRecord]]
OTHER = {"model_identity": {"digest": "w2", "weights": "w2"}}


def stored(*entries: Entry) -> list[StoredCell]:
    return [StoredCell(record, tuple(samples)) for record, samples in entries]


def gate(run: list[Entry], base: list[Entry], **options: object) -> Verdict:
    rows = {entry.cell.id: baseline_cell(entry) for entry in stored(*base)}
    return judge(stored(*run), rows, **options)  # type: ignore[arg-type]


def answers(wrong: int, n: int = 100, first: int = 0) -> list[float]:
    return [float(not first <= i < first + wrong) for i in range(n)]


def row(**facts: object) -> BaselineCell:
    """A repeatable row of four answers."""
    (entry,) = stored(factory.cell(right=[1.0, 0.5, 0.5, 1.0], nfe=16))
    return replace(baseline_cell(entry), **facts)  # type: ignore[arg-type]


def status(head: BaselineCell, base: BaselineCell, exact: bool = False) -> str:
    (found,) = judge({head.id: head}, {base.id: base}, exact=exact).judgements
    return found.status


# Scores of four answers beside the baseline's, 0/1 ones and graded ones.
SCORES = {
    "same": ((1, 0, 1, 0), (0.5, 0.5, 0.5, 0.5)),
    "within the resolution": ((1, 0, 1, 0), (0.4999, 0.5001, 0.5, 0.5)),
    "some lower": ((0, 0, 1, 0), (0.4998, 0.5, 0.5, 0.5)),
    "some higher": ((1, 1, 1, 0), (0.5, 0.5002, 0.5, 0.5)),
    "both": ((0, 1, 1, 1), (0.4, 0.6, 0.6, 0.6)),
}
FORWARDS = {
    "same": (16, 16, 16, 16),
    "more": (16, 17, 16, 16),
    "fewer": (16, 16, 15, 16),
    "mixed": (17, 15, 16, 16),
    "unknown": (),
}
# The verdict on repeatable cells whose scores are equal, by the forwards.
BY_FORWARDS = {
    "same": "passed",
    "more": "slower",
    "fewer": "faster",
    "mixed": "changed",
    "unknown": "refused",
}
BY_SCORES = {"some lower": "worse", "both": "changed"}
# With higher scores, forwards that grew, are mixed or unknown still decide.
MENDED = BY_FORWARDS | {"same": "better", "fewer": "better"}


class TestRepeatable:
    @pytest.mark.parametrize("graded", [False, True])
    @pytest.mark.parametrize(("scores", "forwards"), list(product(SCORES, FORWARDS)))
    def test_every_answer_counts(self, scores: str, forwards: str, graded: bool) -> None:
        """A loss decides; without one the forwards do, which must be known, whatever the scores
        gained.
        """
        base = row(scores={"accuracy": SCORES["same"][graded]}, nfe=FORWARDS["same"])
        head = row(scores={"accuracy": SCORES[scores][graded]}, nfe=FORWARDS[forwards])
        by_forwards = MENDED if scores == "some higher" else BY_FORWARDS
        assert status(head, base) == BY_SCORES.get(scores, by_forwards[forwards])
        other = replace(head, model_identity=OTHER["model_identity"])
        assert status(other, base, exact=True) == status(head, base)

    @pytest.mark.parametrize("kind", ["rows", "tokens_forwarded"])
    @pytest.mark.parametrize(("counts", "word"), BY_FORWARDS.items())
    def test_rows_and_tokens_are_forwards_too(self, kind: str, counts: str, word: str) -> None:
        """Where the baseline has them; mixed with the NFE, too."""
        base = row(**{kind: (40, 40, 40, 40)})
        now = tuple(24 + count for count in FORWARDS[counts])
        if counts == "unknown" and kind == "rows":
            word = "faster"  # without rows of their own these are the forwards
        head = row(**{kind: now})
        assert status(head, base) == word
        assert status(head, row()) == "passed"
        if counts == "more":
            assert status(replace(head, nfe=(15, 16, 16, 16)), base) == "changed"

    def test_other_texts(self) -> None:
        """With equal scores and forwards they are a change; with fewer forwards the cell is
        faster; a baseline cut to no digests has none to compare.
        """
        head = row(texts=("x" * 8, *row().texts[1:]))
        (found,) = judge({head.id: head}, {head.id: row()}).judgements
        assert (found.status, found.texts) == ("changed", (0,))
        assert status(replace(head, nfe=(15, 16, 16, 16)), row()) == "faster"
        assert status(replace(head, nfe=(17, 16, 16, 16)), row()) == "slower"
        assert status(head, row(texts=())) == "passed"

    def test_forwards_unknown_on_both_sides(self) -> None:
        """Nothing to compare but the scores."""
        assert status(row(nfe=()), row(nfe=())) == "passed"
        assert status(row(), row(nfe=())) == "refused"

    @pytest.mark.parametrize(
        "facts",
        [
            OTHER,
            {"model_identity": {}},
            {"dtype": "bfloat16"},
            {"device": "cuda (NVIDIA H100)"},
            {"device": ""},
        ],
    )
    def test_all_others_are_tested(self, facts: dict[str, object]) -> None:
        """One newly wrong answer of twenty is no loss that is shown, but it is named."""
        before = stored(factory.cell(right=answers(0, 20)))[0]
        now = stored(factory.cell(right=answers(1, 20)))[0]
        base = baseline_cell(before)
        same = baseline_cell(now)
        head = replace(same, **facts)  # type: ignore[arg-type]
        assert status(same, base) == "worse"
        assert status(head, base) == "lost"
        only_weights = "model_identity" in facts
        assert repeatable(head, base, exact=True) == only_weights

    @pytest.mark.parametrize(
        "facts",
        [
            {"sampler": "confidence-k2+t1.0"},
            {"sampler": "as published"},
            {"seeds": (0, 1)},
            {"dtype": "float16"},
            {"device": ""},
        ],
    )
    def test_what_never_repeats(self, facts: dict[str, object]) -> None:
        """A temperature, an unreadable sampler, several seeds, half precision, an answer from
        elsewhere.
        """
        assert repeatable(row(), row())
        assert not repeatable(row(**facts), row(**facts), exact=True)

    def test_names_that_cannot_be_read(self) -> None:
        """They are not taken for greedy ones."""
        names = ["confidence-k2", "confidence-k2+t1.0", "as published"]
        assert [greedy(name) for name in names] == [True, False, False]

    def test_another_machine_is_named(self) -> None:
        """Threads, versions and processor don't change the rule."""
        base = row(made_with={"threads": "1", "torch": "2.9.1", "processor": "A"})
        head = row(made_with={"threads": "2", "torch": "2.10.0", "numpy": "2.0"})
        verdict = judge({head.id: head}, {base.id: base})
        assert verdict.judgements[0].exact
        assert verdict.conditions == ("threads 1 → 2", "torch 2.9.1 → 2.10.0")
        assert verdict.rounding == ()


class TestTested:
    def test_nine_of_32_answers(self) -> None:
        """Two tasks under two samplers: no cell's loss is significant, that of all is: six
        questions lost and none gained.
        """
        lost = {
            ("shuffle", "threshold-0.9"): (1, 4, 6, 7),
            ("copy", "confidence-k2"): (3, 7),
            ("copy", "threshold-0.9"): (3, 7),
            ("shuffle", "confidence-k2"): (1,),
        }
        run = []
        base = []
        for (task, sampler), wrong in lost.items():
            name = f"waiting_line/{task}"
            scores = [float(index not in wrong) for index in range(8)]
            run.append(factory.cell("tiny", name, sampler, scores, **OTHER))
            base.append(factory.cell("tiny", name, sampler, [1.0] * 8))
        verdict = gate(run, base)
        (pooled,) = verdict.pooled
        assert (pooled.answers, pooled.questions) == (32, 16)
        assert (pooled.broke, pooled.broken_questions, pooled.mended) == (9, 6, 0)
        assert pooled.p == pytest.approx(1 / 64)
        assert pooled.status == "worse"
        assert not verdict.ok
        assert {found.status for found in verdict.judgements} == {"lost"}

    def test_a_question_counts_once(self) -> None:
        """The same question under four samplers is one loss, not four; that of another task, or of
        other data, is another.
        """
        samplers = ("confidence-k1", "confidence-k2", "random-k2", "threshold-0.9")
        run = [factory.cell(sampler=name, right=answers(1, 20), **OTHER) for name in samplers]
        base = [factory.cell(sampler=name, right=answers(0, 20)) for name in samplers]
        assert gate(run, base).pooled[0].p == 0.5
        tasks = [f"waiting_line/{name}" for name in ("copy", "sort", "reverse", "shuffle")]
        run = [factory.cell(task=name, right=answers(1, 20), **OTHER) for name in tasks]
        base = [factory.cell(task=name, right=answers(0, 20)) for name in tasks]
        assert gate(run, base).pooled[0].p == 0.5**4

    def test_the_level_is_shared(self) -> None:
        """Five newly wrong answers (p = .031) fail a single cell, but not beside another one; where
        all cells together are worse, the cells have the whole level.
        """
        tasks = ["waiting_line/copy", "waiting_line/sort"]
        base = [factory.cell(task=task, right=answers(0, 40)) for task in tasks]
        five = [factory.cell(task=task, right=answers(5, 40), **OTHER) for task in tasks]
        same = factory.cell(task=tasks[1], right=answers(0, 40), **OTHER)
        alone = gate(five[:1], base[:1])
        assert alone.judgements[0].status == "worse"
        assert alone.pooled[0].status == "worse"
        beside = gate([five[0], same], base)
        assert [found.status for found in beside.judgements] == ["lost", "passed"]
        assert (beside.ok, beside.cells_level, beside.tests) == (True, 0.025, 1)
        both = gate(five, base)
        assert (both.pooled[0].status, both.cells_level, both.tests) == ("worse", 0.05, 2)
        assert not both.ok

    def test_a_gain(self) -> None:
        """It is green and named, by the same tests."""
        run = [factory.cell(right=answers(0, 40), **OTHER)]
        verdict = gate(run, [factory.cell(right=answers(9, 40))])
        assert (verdict.judgements[0].status, verdict.ok) == ("better", True)
        assert verdict.pooled[0].status == "better"

    def test_forwards(self) -> None:
        """A clear rise is slower, one up and one down is not; fewer are no verdict."""
        base = factory.cell(sampler="threshold-0.9+t1.0", nfe=[8, 9] * 10)
        for nfe, word in (([9, 8] * 10, "passed"), ([12] * 20, "slower"), ([4] * 20, "passed")):
            run = [factory.cell(sampler="threshold-0.9+t1.0", nfe=nfe)]
            assert gate(run, [base]).judgements[0].status == word
        unknown = factory.cell(sampler="threshold-0.9+t1.0", nfe=8)
        silent = [replace(answer, nfe=None, rows=None) for answer in unknown[1]]
        (found,) = gate([(unknown[0], silent)], [unknown]).judgements
        assert (found.status, "doesn't report them" in found.reason) == ("refused", True)

    def test_rows_are_tested(self) -> None:
        """More rows in the same calls are tested as calls are; tokens forwarded follow them."""
        base = factory.cell(sampler="spec-8+t1.0", nfe=8, rows=[30, 32] * 10, tokens=600)
        more = factory.cell(sampler="spec-8+t1.0", nfe=8, rows=[48, 50] * 10, tokens=900)
        (found,) = gate([more], [base]).judgements
        assert (found.status, set(found.p)) == ("slower", {"rows"})

    def test_graded_scores(self) -> None:
        """One that falls a little on every sample fails; one that only scatters passes."""
        values = [0.3 + 0.4 * i / 99 for i in range(100)]
        facts = {"task": "text_writing/summarization", "headline": "rouge_l"}
        base = factory.cell(**facts, right=values)
        lower = [value - 0.02 for value in values]
        scattered = [value + 0.02 * (-1) ** i for i, value in enumerate(values)]
        for scores, word in ((lower, "worse"), (scattered, "passed")):
            (found,) = gate([factory.cell(**facts, right=scores, **OTHER)], [base]).judgements
            assert found.status == word

    def test_weights_are_named(self) -> None:
        """Whether they are the baseline's."""
        base = [factory.cell()]
        assert gate(base, base).weights == "same weights"
        assert gate([factory.cell(**OTHER)], base).weights.startswith("other weights")

    @pytest.mark.slow
    @pytest.mark.parametrize("grid", GRIDS, ids=str)
    def test_unchanged_models_seldom_fail(self, grid: Grid) -> None:
        """At most 5 % of gates and the simulation's own error, for 1, 4 and 40 cells, also where
        samplers mostly agree on a question.
        """
        draws = 200
        assert gates_failed(grid, draws) <= 0.05 + 2 * (0.05 * 0.95 / draws) ** 0.5


class TestNotJudged:
    def test_missing_new_and_errors(self) -> None:
        """A row the run lacks fails, a cell without baseline is new, one that could not be run
        fails with its cause; one that could not be run in the baseline is new.
        """
        renamed = factory.cell(sampler="confidence-k3")
        broken = factory.cell(sampler="random-k1")
        failed: Entry = (error_cell(broken[0], "out of memory"), [])
        verdict = gate([renamed, failed], [factory.cell(), broken])
        assert {found.id.split("/")[2]: found.status for found in verdict.judgements} == {
            "confidence-k2": "missing",
            "confidence-k3": "new",
            "random-k1": "error",
        }
        assert not verdict.ok
        assert gate([renamed], []).ok
        assert gate([broken], [failed]).judgements[0].status == "new"
        assert verdict.of_the_run().of("missing") == []

    @pytest.mark.parametrize(
        ("facts", "named"),
        [
            ({"seed": 1}, "seeds 1, the baseline has 0: add --seed 0"),
            ({"n": 19}, "19 samples, the baseline has 20: add --limit 20"),
            ({"data_hash": "d2"}, "other questions than the baseline's"),
            ({"length": "15"}, "length is '15', the baseline's ''"),
        ],
    )
    def test_refused(self, facts: dict[str, object], named: str) -> None:
        """Without the same questions and seeds answers can't be compared; what differs is named,
        and what to do.
        """
        verdict = gate([factory.cell(**facts)], [factory.cell()])  # type: ignore[arg-type]
        assert verdict.judgements[0].status == "refused"
        assert named in verdict.judgements[0].reason
        assert not verdict.ok

    @pytest.mark.parametrize(
        ("ours", "theirs", "said"),
        [
            ({}, {"official_text": "True"}, "the baseline was made with --official-text: add it"),
            (
                {"max_new_tokens": "16"},
                {},
                "--max-new-tokens is 16, the baseline has none: leave it out",
            ),
            (
                {"bertscore_model": "a"},
                {"bertscore_model": "b"},
                "--bertscore-model is a, the baseline's b: give --bertscore-model b",
            ),
        ],
    )
    def test_other_options(self, ours: dict[str, str], theirs: dict[str, str], said: str) -> None:
        """What scored the answers, and their length."""
        head = row(options=ours)
        (found,) = judge({head.id: head}, {head.id: row(options=theirs)}).judgements
        assert (found.status, found.reason) == ("refused", said)

    def test_a_score_that_is_no_longer_measured(self) -> None:
        """The reason is named."""
        record, samples = factory.cell()
        bare = [replace(sample, scores={}) for sample in samples]
        lost = replace(record, scores={}, absent={"accuracy": "scorer off"})
        (found,) = gate([(lost, bare)], [(record, samples)]).judgements
        assert (found.status, "scorer off" in found.reason) == ("refused", True)

    def test_floors_are_added(self) -> None:
        """They fail, wherever they stand."""
        verdict = gate([factory.cell()], [factory.cell()]).with_floors([("a", "below")])
        assert [found.status for found in verdict.judgements] == ["floor", "passed"]
        assert not verdict.ok

    def test_level(self) -> None:
        """A level that is no probability is refused."""
        with pytest.raises(ValueError, match="level 5"):
            gate([], [], level=5)


def test_statuses_that_pass() -> None:
    """Those that the rule calls green."""
    red = ("worse", "slower", "changed", "refused", "missing", "error", "floor")
    assert [word for word in (*GREEN, *red) if Judgement("a", word).ok] == list(GREEN)


class TestJoinedNames:
    def test_scores_alone(self) -> None:
        """Two samplers or models are judged by their scores; another NFE and dtype are theirs."""
        base = factory.cell(right=answers(0), nfe=16)
        sampler = factory.cell(right=answers(3), sampler="random-k4", nfe=8)
        verdict = gate([sampler], [base], samplers={"random-k4": "confidence-k2"})
        (found,) = verdict.judgements
        assert (found.status, found.paired.worse, found.changes) == ("lost", (0, 1, 2), {})
        assert verdict.pooled[0].sampler == ("random-k4", "confidence-k2")
        model = factory.cell(right=answers(20), model="v2", dtype="bfloat16", nfe=20)
        (found,) = gate([model], [base], models={"v2": "tiny"}).judgements
        assert (found.status, found.id) == ("worse", "v2/shuffle/confidence-k2")

    @pytest.mark.parametrize(
        ("names", "facts", "status", "said"),
        [
            ({"models": {"v2": "tiny"}}, {"model": "v2", "seed": 1}, "refused", "seeds 1"),
            (
                {"models": {"v2": "tiny"}},
                {"model": "v2", "data_hash": "d2"},
                "refused",
                "other questions",
            ),
            ({"models": {"tiny": "tiny"}}, {"nfe": 17}, "slower", ""),
        ],
    )
    def test_all_else_must_be_equal(
        self, names: dict[str, object], facts: dict[str, object], status: str, said: str
    ) -> None:
        """Seeds and data; a name that stands for itself is judged in full."""
        verdict = gate([factory.cell(**facts)], [factory.cell()], **names)  # type: ignore[arg-type]
        assert not verdict.ok
        assert verdict.judgements[0].status == status
        assert said in verdict.judgements[0].reason

    def test_a_partner_that_is_missing(self) -> None:
        """A row of B that A has no partner for fails and names the partner; rows of other names are
        not judged.
        """
        base = [
            factory.cell(),
            factory.cell(task="waiting_line/copy"),
            factory.cell(sampler="random-k2"),
        ]
        run = [factory.cell(sampler="ar"), factory.cell(sampler="threshold-0.9")]
        verdict = gate(run, base, samplers={"ar": "confidence-k2"})
        assert [(found.id, found.status) for found in verdict.judgements] == [
            ("tiny/copy/confidence-k2", "missing"),
            ("tiny/shuffle/ar", "passed"),
        ]
        assert verdict.judgements[0].reason == "the run has no tiny/copy/ar to join it with"

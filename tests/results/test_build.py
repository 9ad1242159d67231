"""pbcore.results.build and stats: rates, intervals, counts."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, replace
from fractions import Fraction
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.models.base import Former, Generation
from pbcore.results import CellRecord, Conditions, SampleRecord, build_cell, error_cell
from pbcore.results.build import length_text, with_scores
from pbcore.results.record import FormerToken
from pbcore.results.stats import score_of, wilson
from pbcore.tasks.scoring import Scored
from tests.results import factory
from tests.results.factory import answer, cell

FACTS = CellRecord("m/t/s", "m", "c/t", "random-k1", Conditions.unknown(), headline="accuracy")


class TestBuildCell:
    @given(
        st.lists(
            st.tuples(st.integers(1, 64), st.integers(1, 64), st.integers(0, 64)),
            min_size=1,
            max_size=20,
        )
    )
    def test_two_rates(self, rows: list[tuple[int, int, int]]) -> None:
        """tokens_per_step is a mean of ratios over the canvas, tokens_per_forward a ratio of sums
        over answers (exact fractions).
        """
        answers = [
            answer(nfe=nfe, canvas=canvas, length=min(length, canvas))
            for nfe, canvas, length in rows
        ]
        record, _ = build_cell(
            FACTS, answers, [Scored({"accuracy": 1.0})] * len(rows), rounds=[2.0]
        )
        per_step = sum(Fraction(canvas, nfe) for nfe, canvas, _ in rows) / len(rows)
        per_forward = Fraction(
            sum(min(length, canvas) for _, canvas, length in rows), sum(nfe for nfe, _, _ in rows)
        )
        assert record.tokens_per_step == pytest.approx(float(per_step))
        assert record.tokens_per_forward == pytest.approx(float(per_forward))
        assert record.nfe_max == max(nfe for nfe, _, _ in rows)

    def test_the_rates_are_not_canvas_over_mean_nfe(self) -> None:
        """NFE 1 and 31 on a canvas of 32: (32 + 32/31)/2 tokens per step, not 2."""
        record, _ = build_cell(
            FACTS, [answer(nfe=1), answer(nfe=31)], [Scored({"accuracy": 1.0})] * 2, rounds=[1.0]
        )
        assert record.tokens_per_step == pytest.approx((32 + 32 / 31) / 2)
        assert (record.nfe_mean, record.nfe_median) == (16, 16)

    def test_given_positions_count_for_nothing(self) -> None:
        """In infilling only the masked positions are canvas and answer tokens."""
        filled = Generation(
            "[A, B]", (1, 2, 3, 4, 5), nfe=1, answer_tokens=5, steps=(-1, 0, -1, 0, -1)
        )
        record, samples = build_cell(FACTS, [filled], [Scored({"accuracy": 1.0})], rounds=[1.0])
        assert (samples[0].canvas_tokens, samples[0].answer_tokens, record.tokens_per_step) == (
            2,
            2,
            2.0,
        )

    def test_tokens(self) -> None:
        """Tokens are kept as text up to the first of those that repeat to the end, former ones with
        their steps; and not at all where nobody tells their texts.
        """
        told = Generation(
            "ab",
            (7, 8, 1, 1, 1),
            3,
            2,
            (0, 2, 1, 1, 1),
            (0.5,) * 5,
            former=(Former(1, 9, 0, 1, 0.25),),
        )
        scored = [Scored({"accuracy": 1.0})]
        _, samples = build_cell(
            FACTS, [told], scored, rounds=[1.0], pieces=lambda token: f"<{token}>"
        )
        assert samples[0].tokens == ["<7>", "<8>", "<1>"]
        assert samples[0].token_ids == [7, 8, 1]
        assert samples[0].former == [FormerToken(1, "<9>", 0, 1, 0.25, 9)]
        assert SampleRecord.from_json(asdict(samples[0])) == samples[0]
        _, samples = build_cell(FACTS, [told], scored, rounds=[1.0])
        assert (samples[0].tokens, samples[0].former, samples[0].token_ids) == (None,) * 3

    @pytest.mark.parametrize(("accuracy", "kept"), [(0.0, True), (1.0, False)])
    def test_blame_goes_with_the_scores_that_it_explains(self, accuracy: float, kept: bool) -> None:
        """An answer that is right by a later scoring has nothing to blame."""
        cell, samples = factory.blamed(factory.cell(n=2, right=[0.0, 1.0]), ["together", None])
        scored = [Scored({"accuracy": accuracy}), Scored({"accuracy": 1.0})]
        record, again = with_scores(cell, samples, scored)
        assert (record.blame is not None) == kept
        assert (again[0].blame is not None) == kept

    def test_speeds_count_answers_only(self) -> None:
        """samples/s and tokens/s use the median round and the answers' tokens."""
        record, _ = build_cell(
            FACTS, [answer(length=10)] * 4, [Scored({"accuracy": 1.0})] * 4, rounds=[9.0, 2.0, 1.0]
        )
        assert (record.seconds, record.samples_per_second, record.tokens_per_second) == (
            2.0,
            2.0,
            20.0,
        )

    def test_failures_and_absent(self) -> None:
        """Failure kinds are counted per sample, absent metrics keep their reason and stay without a
        score.
        """
        scored = [
            Scored(
                {"inclusion": 1.0},
                {"absent": {"grammar": "no Java"}, "failure": ["a/an", "word twice"]},
            ),
            Scored({"inclusion": 0.0}, {"absent": {"grammar": "no Java"}, "failure": "a/an"}),
        ]
        record, _ = build_cell(FACTS, [answer()] * 2, scored, rounds=[1.0])
        assert record.failures == {"a/an": 2, "word twice": 1}
        assert record.absent == {"grammar": "no Java"}
        assert set(record.scores) == {"inclusion"}

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_a_score_absent_from_one_sample(self, place: int) -> None:
        """With a reason it is the mean over the samples that have it, whichever lacks it."""
        scored = [Scored({"inclusion": 1.0, "grammar": 0.5})] * 3
        scored[place] = Scored({"inclusion": 0.0}, {"absent": {"grammar": "no answer"}})
        record, samples = build_cell(FACTS, [answer()] * 3, scored, rounds=[1.0])
        assert (record.scores["grammar"].mean, record.scores["grammar"].n) == (0.5, 2)
        assert record.scores["inclusion"].n == 3
        assert record.absent == {"grammar": "no answer"}
        assert "grammar" not in samples[place].scores

    def test_a_score_may_not_vanish(self) -> None:
        """A score that one sample lacks without a reason is an error, as are lists of unlike length
        and an NFE of 0 among others.
        """
        one = Scored({"accuracy": 1.0})
        for scored in ([one, Scored({})], [Scored({}), one]):
            with pytest.raises(ValueError, match="'accuracy' is missing for 1 of 2"):
                build_cell(FACTS, [answer()] * 2, scored, rounds=[1.0])
        with pytest.raises(ValueError, match="2 answers, 1 scores"):
            build_cell(FACTS, [answer()] * 2, [Scored({"accuracy": 1.0})], rounds=[1.0])
        with pytest.raises(ValueError, match="sample 0 has no NFE, others have"):
            build_cell(
                FACTS, [answer(nfe=0), answer()], [Scored({"accuracy": 1.0})] * 2, rounds=[1.0]
            )

    @pytest.mark.parametrize(
        ("indices", "seeds", "named"),
        [
            ([0, 0], [1, 1], "two answers for sample 0 and seed 1"),
            ([0, 0, 1], [1, 2, 1], r"sample 1 \[1\]"),
        ],
    )
    def test_every_sample_has_one_answer_of_each_seed(
        self, indices: list[int], seeds: list[int], named: str
    ) -> None:
        """A second answer of a seed and a seed that one sample lacks are errors."""
        scored = [Scored({"accuracy": 1.0})] * len(indices)
        with pytest.raises(ValueError, match=named):
            build_cell(
                FACTS, [answer()] * len(indices), scored, rounds=[1.0], indices=indices, seeds=seeds
            )

    def test_a_clock_that_shows_no_time_gives_no_speed(self) -> None:
        """A round of 0 seconds is possible with a coarse clock; no round at all is an error."""
        record, _ = build_cell(FACTS, [answer()], [Scored({"accuracy": 1.0})], rounds=[0.0])
        assert (record.seconds, record.samples_per_second, record.tokens_per_second) == (
            0,
            None,
            None,
        )
        with pytest.raises(ValueError, match="no round was timed"):
            build_cell(FACTS, [answer()], [Scored({"accuracy": 1.0})], rounds=[])

    def test_text_after_eos_is_kept_and_counted(self) -> None:
        """Answers with text after the first EOS keep the whole canvas's text beside their own."""
        late = Generation("Well.", (1, 2), nfe=1, answer_tokens=1, official_text="Well. Yes.")
        record, samples = build_cell(
            FACTS, [late, answer()], [Scored({"accuracy": 1.0})] * 2, rounds=[1.0]
        )
        assert [(sample.text, sample.official_text) for sample in samples] == [
            ("Well.", "Well. Yes."),
            ("an answer", None),
        ]
        assert record.text_after_eos == 1

    @pytest.mark.parametrize(
        ("text", "unclosed"),
        [
            ("<think>so", 1),
            ("</think> <think> [a]", 1),
            ("<think> a </think> [b]", 0),
            ("</think> [b]", 0),
            ("[b]", 0),
        ],
    )
    def test_thinking_that_does_not_end_is_counted(self, text: str, unclosed: int) -> None:
        """Thinking that ends is none of these."""
        record, _ = build_cell(
            FACTS, [replace(answer(), text=text)], [Scored({"accuracy": 1.0})], rounds=[1.0]
        )
        assert record.unclosed_think == unclosed

    def test_a_model_that_does_not_tell_has_no_count(self) -> None:
        """None with the reason, not 0, also where it tells of some answers."""
        plain = Generation("Well.", (1, 2), nfe=1, answer_tokens=1)
        for answers in ([plain], [plain, answer()]):
            record, _ = build_cell(
                FACTS, answers, [Scored({"accuracy": 1.0})] * len(answers), rounds=[1.0]
            )
            assert record.text_after_eos is None
            assert "first EOS" in record.absent["text_after_eos"]

    def test_json_round_trip(self) -> None:
        """A record survives JSON, and a field of a newer schema is refused."""
        record, _ = cell()
        assert CellRecord.from_json(record.to_json()) == record
        with pytest.raises(ValueError, match="unknown fields"):
            CellRecord.from_json({**record.to_json(), "colour": "red"})

    def test_error_cell(self) -> None:
        """An error keeps its type and words."""
        assert (
            error_cell(FACTS, RuntimeError("out of memory")).error == "RuntimeError: out of memory"
        )

    def test_a_record_of_nothing_has_no_numbers(self) -> None:
        """Counts are 0 and measurements None until something is measured."""
        bare = CellRecord(FACTS.id, FACTS.model, FACTS.task, FACTS.sampler, FACTS.conditions)
        numbers = {
            name: value for name, value in bare.to_json().items() if isinstance(value, (int, float))
        }
        assert numbers.keys() >= {"n_samples"}
        assert set(numbers.values()) == {0}
        assert (bare.nfe_mean, bare.seconds, bare.tokens_per_step) == (None, None, None)

    @pytest.mark.slow
    def test_needs_no_torch(self) -> None:
        """Results, analysis and report load without torch."""
        code = "import sys, pbcore.analysis, pbcore.cli.report; sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestLengths:
    @pytest.mark.parametrize(
        ("lengths", "text"),
        [
            ((), ""),
            ((3, 5, 7), "3,5,7"),
            ((15,), "15"),
            ((3, 4), "3,4"),
            ((5, 3, 4), "3-5"),
            ((5, 20, 10), "5,10,20"),
            ((3, 4, 6), "3,4,6"),
        ],
    )
    def test_a_span_of_lengths(self, lengths: tuple[int, ...], text: str) -> None:
        """Three or more without a gap are a range."""
        assert length_text(lengths) == text


class TestIntervals:
    @given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
    def test_wilson_by_formula(self, counts: tuple[int, int]) -> None:
        """Wilson's interval as in the textbook."""
        k, n = counts
        z = 1.959963984540054
        p = k / n
        centre = p + z * z / (2 * n)
        half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        low, high = wilson(k, n)
        assert low == pytest.approx(max(0, (centre - half) / (1 + z * z / n)), abs=1e-9)
        assert high == pytest.approx(min(1, (centre + half) / (1 + z * z / n)), abs=1e-9)

    def test_wilson_known(self) -> None:
        """96 of 100: 90.2 to 98.4 %."""
        assert wilson(96, 100) == pytest.approx((0.9016, 0.9843), abs=1e-4)

    def test_kinds(self) -> None:
        """0/1 scores are binary unless they are graded by nature; others are graded; out of range
        is refused.
        """
        assert score_of("accuracy", [0, 1, 1]).kind == "binary"
        graded = (
            "rouge_1",
            "rouge_2",
            "rouge_l",
            "rouge_l_unstemmed",
            "bertscore",
            "inv_bleu",
            "bleu",
        )
        assert {score_of(name, [0, 1, 1]).kind for name in graded} == {"graded"}
        assert score_of("mine", [0.5, 1]).kind == "graded"
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            score_of("mine", [1.5])

"""`spec`: what it equals, what it can't get wrong, and the exact law of its lossless form."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pbcore
from pbcore.ceilings.table import TableDenoiser
from pbcore.decoding import decode, resolve
from pbcore.names import SamplerNameError
from pbcore.theory.distributions import answer_distribution
from tests.decoding.exact import law
from tests.decoding.toys import Toy, scrambled
from tests.models.block_models import block_model

LISTS = [name for name in pbcore.task_names() if name.startswith("waiting_line/")]
IDEAL = pbcore.load_model("ideal")


class TestOneRow:
    @settings(derandomize=True)
    @given(
        seed=st.integers(0, 10_000),
        lengths=st.lists(st.sampled_from([2, 4, 6]), min_size=1, max_size=4),
        modifiers=st.sampled_from(
            ["", "+b2", "+t0.8", "+b2+t1.0", "+eos_stop", "+no_early_eos", "+eos_last"]
        ),
    )
    def test_is_one_token_at_a_time(self, seed: int, lengths: list[int], modifiers: str) -> None:
        """With one what-if row and nothing sure it has the tokens and forwards of `confidence-k1`,
        also where a block ends within a what-if row.
        """
        rule = scrambled()
        toy = Toy(lambda canvas, position, key: rule(canvas, position, key + seed))
        prompts = [[5, -1, *[0] * length] for length in lengths]
        plain = decode(toy, prompts, f"confidence-k1{modifiers}", seed=seed)
        assert decode(toy, prompts, f"spec-1-sure2{modifiers}", seed=seed) == plain
        assert all(one.rows == one.nfe for one in plain)

    @pytest.mark.parametrize("family", ["sdar", "fast_dllm_v2", "llada2"])
    def test_of_block_models(self, family: str) -> None:
        """The same tokens on block models, whose cache runs what-if rows of one row several
        times.
        """
        model = block_model(family)
        prompts = [[5, 6, 7], [8], [9, 10, 11, 12]]
        plain = decode(model, prompts, "confidence-k1", 16)
        ours = decode(model, prompts, "spec-1-sure2", 16)
        assert [one.token_ids for one in ours] == [one.token_ids for one in plain]
        wide = decode(model, prompts, "spec-4-beta0.5", 16)
        for prompt, one in zip(prompts, wide, strict=True):
            (alone,) = decode(model, [prompt], "spec-4-beta0.5", 16)
            assert (one.token_ids, one.steps, one.nfe, one.rows) == (
                alone.token_ids,
                alone.steps,
                alone.nfe,
                alone.rows,
            )
        assert sum(one.nfe or 0 for one in wide) < sum(one.nfe or 0 for one in plain)


class TestBounds:
    @pytest.mark.parametrize(("rows", "steps"), [(3, [3, 3, 2]), (8, [8]), (5, [5, 3])])
    def test_without_a_test_it_reveals_the_surest(self, rows: int, steps: list[int]) -> None:
        """β = 0 accepts every draft: `rows` tokens a step, the surest, as confidence-k`rows`
        does.
        """
        (run,) = decode(Toy(), [[5]], f"spec-{rows}-beta0.0-sure2")
        assert [run.steps.count(step) for step in range(len(steps))] == steps
        assert run.token_ids == decode(Toy(), [[5]], f"confidence-k{rows}")[0].token_ids

    def test_sure_tokens_are_free(self) -> None:
        """Tokens of probability `sure` take no what-if row, and the last step's row is full, so not
        forwarded.
        """
        sharp = Toy(
            lambda canvas, position, key: [0.0, *[9.0 * (i == position) for i in range(11)]]
        )
        (run,) = decode(sharp, [[5]], "spec-2-sure0.9")
        assert (run.steps, run.nfe, run.rows) == ((0,) * 8, 1, 1)

    def test_a_token_that_conflicts_waits(self) -> None:
        """Two positions that want the same token: the second doesn't get it."""

        def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
            return [0.0, 0.0, 2.0 - 9.0 * (2 in canvas) - 0.1 * position, 1.0, 0.5, *[-9.0] * 7]

        (greedy,) = decode(Toy(rule), [[5]], "threshold-0", max_new_tokens=2)
        (run,) = decode(Toy(rule), [[5]], "spec-4", max_new_tokens=2)
        assert greedy.token_ids == (2, 2)
        assert (run.token_ids, run.steps) == ((2, 3), (0, 1))
        assert (run.nfe, run.rows) == (2, 2)

    def test_near_the_surest_of_the_others(self) -> None:
        """A draft must have `near` of the probability of the surest token that is still masked
        beyond it: here the second keeps 0.7 of its own, and 0.6 of the third's.
        """

        def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
            chances = [0.9, 0.35 if canvas[0] else 0.5, 0.58 if canvas[0] else 0.45][position]
            return [-99.0, -99.0, math.log(chances), *[math.log((1 - chances) / 9)] * 9]

        for near, steps in (("", (0, 0, 1)), ("-near0.5", (0, 0, 1)), ("-near0.7", (0, 1, 1))):
            (run,) = decode(Toy(rule), [[5]], f"spec-2-beta0.6-sure0.99{near}", max_new_tokens=3)
            assert run.steps == steps, near

    @pytest.mark.parametrize("task", LISTS)
    @pytest.mark.parametrize(
        "sampler",
        ["spec-8-sure0.999999", "spec-3-beta0.5-sure0.999999", "spec-8-sure0.999999+t1.0"],
    )
    def test_every_list_is_right(self, task: str, sampler: str) -> None:
        """With exact marginals an accepted token is possible given all before it, so no answer is
        wrong.
        """
        samples = pbcore.load_task(task, limit=3)
        for seed in range(2):
            answers = decode(IDEAL, samples.samples, sampler, seed=seed)
            scores = [
                samples.score(one.text, each)
                for one, each in zip(answers, samples.samples, strict=True)
            ]
            assert [score["accuracy"] for score in scores] == [1.0] * len(scores)


class TestLossless:
    @pytest.mark.parametrize(
        ("task", "sampler"),
        [
            pytest.param(
                "list_ops/shuffle", "spec-8-lossless+t1.0", marks=pytest.mark.nightly
            ),  # as long as all others of this file together
            ("list_ops/shuffle", "spec-1-lossless+t1.0"),
            ("list_ops/replace_random", "spec-8-lossless+t1.0"),
            ("list_ops/replace_random", "spec-2-lossless+t1.0"),
            ("waiting_line/remove_random", "spec-2-lossless+t1.0"),
        ],
    )
    def test_answers_have_the_law_of_the_data(
        self, task: str, sampler: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All runs together are uniform over the valid answers: with exact marginals, one token at
        a time is.
        """
        distribution = answer_distribution(pbcore.load_task(task, n=3, limit=1).samples[0])
        answers = TableDenoiser(distribution).answers
        found = law(distribution, sampler, monkeypatch)
        assert set(found) == set(answers)
        assert max(abs(chance - 1 / len(answers)) for chance in found.values()) < 1e-12

    @pytest.mark.parametrize("rows", [1, 2, 4, 8])
    @pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 9])
    @pytest.mark.parametrize("temperature", ["", "+t1.0"])
    def test_forwards(self, rows: int, length: int, temperature: str) -> None:
        """Where every draft is accepted, of m tokens the first forward and one for each further B
        of m − 1; a token of probability .9995 is checked like any other, though `spec` writes it
        unchecked.
        """

        def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
            return [-99.0, -99.0, math.log(0.9995), *[math.log(0.0005 / 9)] * 9]

        sampler = f"spec-{rows}-lossless{temperature}"
        (run,) = decode(Toy(rule), [[5]], sampler, max_new_tokens=length)
        assert run.nfe == 1 + math.ceil((length - 1) / rows)
        assert run.rows == length
        (unchecked,) = decode(Toy(rule), [[5]], f"spec-{rows}", max_new_tokens=length)
        assert unchecked.nfe == 1

    @pytest.mark.parametrize(
        ("rows", "steps", "forwarded"),
        [(2, (0, 0, 1, 1, 2, 2), 7), (3, (0, 0, 1, 1, 1, 2), 8), (4, (0, 0, 1, 1, 1, 1), 9)],
    )
    def test_forwards_after_a_redrawn_token(
        self, rows: int, steps: tuple[int, ...], forwarded: int
    ) -> None:
        """The second draft is rejected and drawn anew, so no what-if row is the next canvas: the
        next step forwards it as its first row, and checks a draft with each of its rows.
        """

        def rule(canvas: tuple[int, ...], position: int, key: int) -> list[float]:
            token = 3 if position == 1 and canvas[0] else 2
            sure = 0.9 - 0.1 * position
            chances = [(1 - sure) / 9] * 12
            chances[token] = sure
            return [math.log(chance) for chance in chances]

        (run,) = decode(Toy(rule), [[5]], f"spec-{rows}-lossless", max_new_tokens=6)
        assert run.token_ids == (2, 3, 2, 2, 2, 2)
        assert run.steps == steps
        assert run.nfe == 2 + max(steps)
        assert run.rows == forwarded

    def test_accepting_by_beta_has_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The check that the enumeration can tell: `beta` prefers answers."""
        distribution = answer_distribution(
            pbcore.load_task("list_ops/replace_random", n=3, limit=1).samples[0]
        )
        found = law(distribution, "spec-8+t1.0", monkeypatch)
        assert sum(found.values()) == pytest.approx(1.0)
        assert max(found.values()) - min(found.values()) > 1e-3

    def test_is_left_alone(self) -> None:
        """It draws tokens of its own, so nothing may hold EOS back or choose others."""
        for sampler in ("spec-8-lossless+no_early_eos", "spec-8-lossless+counts"):
            with pytest.raises(SamplerNameError, match="spec chooses"):
                resolve(sampler)

"""`+aheadN`: the answers of the sampler alone, in no more calls, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pbcore
from benches.compare_samplers import Measured, verdict
from benches.look_ahead_seconds import size, widen
from pbcore.analysis.frontier_gap import kind
from pbcore.base.errors import InputError
from pbcore.ceilings.ceiling import ceiling
from pbcore.ceilings.outcomes import outcomes
from pbcore.decoding import DecodingError, decode, denoise, policy, resolve
from pbcore.decoding.protocol import traits, unforeseeable
from pbcore.decoding.sharing import ForwardStore
from pbcore.grid.cost import forward_bounds
from pbcore.models.base import Generation
from pbcore.names import SamplerNameError, parse
from pbcore.theory.distributions import answer_distribution
from tests.decoding.test_invariants import LENGTH, LOGITS, REGISTERED, Fixed, plain
from tests.decoding.toys import MASK, Shareable, Toy, scrambled
from tests.models.block_models import block_model

IDEAL = pbcore.load_model("ideal")
TINY = pbcore.load_model("tiny")
PLAIN = [
    plain(name) for name in REGISTERED if not unforeseeable(traits(policy(resolve(plain(name)))))
]
STEADY = Toy(
    lambda canvas, position, key: [0.0, *[30.0 * (i == position) for i in range(11)]]
)  # whatever the canvas


def answers(runs: list[Generation]) -> list[Generation]:
    """All of the runs but their price."""
    return [replace(run, nfe=0, rows=0, calls=None) for run in runs]


def calls(run: Generation) -> int:
    assert run.nfe is not None
    return run.nfe


def compared(model: Any, prompts: Any, sampler: str, ahead: int, **options: Any) -> tuple[int, int]:
    """Checks that a sampler that looks ahead differs from itself in price alone; its calls, and
    those without.
    """
    alone = decode(model, prompts, sampler, record=True, **options)
    ours = decode(model, prompts, f"{sampler}+ahead{ahead}", record=True, **options)
    assert answers(ours) == answers(alone)
    for run, one in zip(ours, alone, strict=True):
        assert calls(run) <= calls(one)
        assert calls(run) <= (run.rows or 0) <= max(0, calls(run) - 1) * ahead + 1
    return sum(map(calls, ours)), sum(map(calls, alone))


class TestTheSameAnswers:
    @pytest.mark.parametrize("sampler", PLAIN)
    @settings(max_examples=5, deadline=None, derandomize=True, phases=[Phase.generate])
    @given(
        values=st.lists(LOGITS, min_size=7, max_size=13),
        canvases=st.lists(
            st.lists(st.sampled_from([MASK, MASK, 2, 4]), min_size=LENGTH, max_size=LENGTH),
            min_size=1,
            max_size=4,
        ),
        ahead=st.sampled_from([2, 5, 16]),
        block=st.sampled_from([0, 2]),
        modifiers=st.sampled_from(["", "+t0.8", "+eos_stop", "+t0.8+eos_stop"]),
    )
    def test_of_every_policy(
        self,
        sampler: str,
        values: list[float],
        canvases: list[list[int]],
        ahead: int,
        block: int,
        modifiers: str,
    ) -> None:
        """Whatever the logits, in ragged batches, with blocks, temperatures and answers that end
        early.
        """
        if block:
            canvases = [canvas for canvas in canvases if canvas.count(MASK) % block == 0] or [
                [MASK] * LENGTH
            ]
            modifiers += f"+b{block}"
        toy = Toy(
            Fixed(values),
            vocab_size=5,
            frequencies=None if "pc" not in sampler else Toy().frequencies[:5],
        )  # type: ignore[index]
        compared(toy, [[3, -1, *canvas] for canvas in canvases], sampler + modifiers, ahead)

    @pytest.mark.parametrize(
        "sampler",
        [
            "confidence-k2+rcr",
            "confidence-k1+remdm2+b4",
            "random+linear5",
            "eb-0.5+counts+gap2",
            "entropy-k2+eos_last",
            "threshold-0.6+no_early_eos",
            "threshold-0.5+rounding+t1.0",
        ],
    )
    def test_with_modifiers(self, sampler: str) -> None:
        """Remasking, schedules, joint draws and rules for EOS look at nothing but the canvas's
        forward.
        """
        compared(Toy(scrambled(12, 2.0)), [[5]] * 4, sampler, 6)

    @pytest.mark.parametrize(
        "sampler", ["eb-0.1", "threshold-0.9", "klass-0.9", "confidence-k3+t1.0"]
    )
    @pytest.mark.parametrize("task", ["waiting_line/insert_random", "puzzle/latin_square"])
    def test_of_exact_marginals(self, sampler: str, task: str) -> None:
        """`ideal`'s noise is that of the forward that the sampler alone would run; ties fall alike,
        in fewer calls.
        """
        ours, alone = compared(IDEAL, pbcore.load_task(task, limit=4).samples, sampler, 16)
        assert ours < alone

    def test_of_a_trained_model(self) -> None:
        """Tokens and steps of `tiny` on texts, at less than ⅔ of the calls."""
        samples = pbcore.load_task("text_writing/w2s_medium", limit=3).samples
        alone, ours = (decode(TINY, samples, sampler) for sampler in ("eb-0.1", "eb-0.1+ahead16"))
        assert [(run.token_ids, run.steps) for run in ours] == [
            (run.token_ids, run.steps) for run in alone
        ]
        assert sum(run.nfe or 0 for run in ours) < 2 / 3 * sum(run.nfe or 0 for run in alone)

    @pytest.mark.parametrize(
        ("task", "most"), [("waiting_line/shuffle", 18), ("waiting_line/remove_random", 16)]
    )
    def test_calls_of_a_trained_model(self, task: str, most: int) -> None:
        """As many as when the guesses were first made, one move after the other, or fewer."""
        samples = pbcore.load_task(task, limit=4, seed=21).samples
        assert sum(map(calls, decode(TINY, samples, "eb-0.1+ahead16"))) <= most

    @pytest.mark.parametrize(
        "sampler", ["threshold-0.5", "confidence-k1+t1.0", "threshold-0.5+eos_stop"]
    )
    def test_of_block_models(self, sampler: str) -> None:
        """Guesses stay within the block, whose predecessors are stored."""
        model = block_model("sdar")
        prompts = [[5, 6, 7], [8, 9, 10, 11, 5], [6]]
        alone, ours = (decode(model, prompts, name, 8) for name in (sampler, f"{sampler}+ahead4"))
        assert [(run.token_ids, run.steps, run.store) for run in ours] == [
            (run.token_ids, run.steps, run.store) for run in alone
        ]
        assert all((run.nfe or 0) <= (one.nfe or 0) for run, one in zip(ours, alone, strict=True))

    def test_in_any_batch(self) -> None:
        """Rows of different lengths: neither answers nor prices depend on the neighbours."""
        tasks = ("waiting_line/remove_random", "puzzle/latin_square", "waiting_line/copy")
        samples = [sample for task in tasks for sample in pbcore.load_task(task, limit=2).samples]
        together = decode(IDEAL, samples, "eb-0.1+ahead8", batch_size=6)
        assert together == decode(IDEAL, samples, "eb-0.1+ahead8", batch_size=1)


class TestCalls:
    def test_what_is_foreseen_runs_once(self) -> None:
        """Where nothing depends on the canvas the likeliest guesses hold: a call of one canvas,
        then of three with the next two steps among them, the last of them for a single step. No
        canvas runs twice.
        """
        (run,) = decode(STEADY, [[5]], "left_to_right-k1+ahead3")
        assert (run.nfe, run.steps) == (4, tuple(range(8)))
        wanted = [tuple(canvas) for query in STEADY.queries for canvas in query.canvas.tolist()]
        assert len(wanted) == len(set(wanted)) == run.rows

    def test_a_wrong_guess_costs_no_call(self) -> None:
        """One guess a call, and logits that turn with every token: at worst a call a step, as
        without.
        """
        (run,) = decode(Toy(scrambled(12, 5.0)), [[5]], "confidence-k1+ahead2")
        assert run.nfe is not None
        assert 1 < run.nfe <= 8

    def test_bounds_of_calls(self) -> None:
        """An estimate takes no fixed number of them for known."""
        assert (
            forward_bounds(parse("confidence-k2+ahead8"), 8).low,
            forward_bounds(parse("confidence-k2+ahead8"), 8).high,
        ) == (
            1,
            4,
        )


class TestRefusals:
    @pytest.mark.parametrize(
        ("sampler", "reads"),
        [
            ("wino-0.6", "review"),
            ("dawn-0.9", "attention"),
            ("spec-8", "probe"),
            ("confidence-k1+adas40", "attention"),
            ("llada2-0.95", "mask"),
            ("fast_dllm_v2-1.0", "part"),
            ("confidence-k1+b4+prefix", "the cache prefix"),
        ],
    )
    def test_what_a_forward_of_the_canvas_does_not_give(self, sampler: str, reads: str) -> None:
        """Reviews, attention, what-if rows and caches aren't kept for canvases to come."""
        with pytest.raises(
            SamplerNameError, match=f"read more than those \\(.*{reads}.*\\); leave \\+ahead4 out"
        ):
            resolve(f"{sampler}+ahead4")

    def test_own_policies_are_checked_too(self) -> None:
        """A policy object that was never named."""
        declared = type("Reviewing", (), {"review": "seen", "select": None})()
        with pytest.raises(SamplerNameError, match=r"\(review\)"):
            denoise(Toy(), [Toy().encode([5], 4, 0)], declared, parse("mine+ahead4"))

    @pytest.mark.parametrize("number", ["0", "1", "2.5"])
    def test_numbers(self, number: str) -> None:
        """One canvas is what a forward has anyway."""
        with pytest.raises(SamplerNameError, match="unknown modifier"):
            parse(f"eb-0.1+ahead{number}")

    def test_no_number(self) -> None:
        """16 canvases, and the sampler's name says so, so that a record can be run again."""
        assert str(resolve("eb-0.1+ahead")) == "eb-0.1+ahead16"

    def test_bad_logits_of_guesses_are_told_when_they_count(self) -> None:
        """NaN on a canvas that the row comes to is an error; one on a wrong guess isn't."""
        pick = Toy(
            lambda canvas, i, key: [
                0.0,
                float("nan") if canvas[7] and not canvas[0] else 0.0,
                9.0 - i,
                *[0.0] * 9,
            ]
        )
        assert decode(pick, [[5]], "confidence-k1+ahead16") != []
        toy = Toy(
            lambda canvas, i, key: [
                0.0,
                float("nan") if sum(t > 0 for t in canvas) > 2 else 0.0,
                *[1.0] * 10,
            ]
        )
        with pytest.raises(
            DecodingError, match=r"toy gave logits that are NaN.* prompt 0 at step 3"
        ):
            decode(toy, [[5]], "confidence-k1+ahead4")

    def test_stores(self) -> None:
        """A store of forwards doesn't answer for them: the same answers and counts as without."""
        toy = Shareable()
        store = ForwardStore(toy)
        sampler = "confidence-k1+ahead4"
        assert decode(toy, [[5]] * 3, sampler, store=store) == decode(toy, [[5]] * 3, sampler)
        assert (store.shared, store.computed) == (0, 0)


class TestWidened:
    def test_the_same_answers_from_more_weights(self) -> None:
        """Inner columns that enter the output with 0 change no answer."""
        model = block_model("sdar")
        module: Any = model.network.module  # type: ignore[attr-defined]
        before = decode(model, [[5, 6, 7]], "eb-0.1", 8)
        had = size(module)
        widen(module, 2 * had)
        assert 2 * had <= size(module) < 4 * had
        assert [run.token_ids for run in decode(model, [[5, 6, 7]], "eb-0.1", 8)] == [
            run.token_ids for run in before
        ]


class TestTheory:
    def test_calls_are_not_steps(self) -> None:
        """The frontier in calls doesn't bind it, as each call holds several steps."""
        assert (kind("eb-0.1"), kind("eb-0.1+ahead16")) == ("order", "tries")

    def test_ceilings_are_those_of_the_sampler(self) -> None:
        """The same answers have the same ceiling. The enumeration counts steps, so it wants the
        sampler's own name.
        """
        sample = pbcore.load_task("list_ops/shuffle", n=4, limit=1).samples
        assert ceiling(sample, "random-k2+ahead8").mean == ceiling(sample, "random-k2").mean < 1
        with pytest.raises(InputError, match=r"\+ahead8 changes no answer; leave it out"):
            outcomes(answer_distribution(sample[0]), "random-k2+ahead8")


class TestVerdict:
    def test_says_what_holds(self) -> None:
        """A replacement has every interval above −3 points, two thirds of the calls and no task
        with more than 1.05 times them; one error in forty or a call too many isn't one.
        """
        scores = dict.fromkeys(range(200), 1.0)
        base = Measured(scores, ((1,),) * 200, 6.0, 6.0)
        fast = replace(base, calls=2.0)
        slow = replace(base, calls=6.5)
        wrong = replace(base, scores={**scores, 7: 0.0})
        each = {
            "base": [base, base],
            "fast": [fast, base],
            "slow": [fast, slow],
            "wrong": [fast, replace(wrong, calls=2)],
        }
        said = {name: verdict(name, "base", ["copy", "sort"], each) for name in each}
        assert said["fast"][0].startswith(
            "fast can replace base: lower ends of differences from -1.9 points"
        )
        assert "0.67 of its calls, at most 1.00 of them on a task (sort)" in said["fast"][0]
        assert "400 of 400 answers are those of base; errors on 0 of 2 tasks" in said["fast"][1]
        assert said["slow"][0].startswith("slow can not")
        assert said["wrong"][0].startswith(
            "wrong can replace base: lower ends of differences from -2.8 points (sort)"
        )
        assert "errors on 1 of 2 tasks" in said["wrong"][1]
        assert "more on sort" in said["slow"][1]

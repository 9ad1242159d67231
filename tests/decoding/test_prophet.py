"""Prophet's early exit: the authors' decodings, a slow twin, batches, and what is refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from pbcore.decoding import DecodingError, Move, Step, decode, denoise, resolve
from pbcore.decoding.samplers import of_name
from pbcore.decoding.sharing import reads_numbers
from pbcore.grid.cost import forward_bounds
from pbcore.models import load_model
from pbcore.models.base import complete
from pbcore.names import SamplerNameError, parse
from pbcore.theory import accuracy
from tests.decoding.toys import MASK, Toy, scrambled
from tests.models.block_models import block_model
from tests.reference import bundled, reference_cases

FULL = "confidence-k1+b8+prophet7.5-mid5-late2.5-start0-length5"


@cache
def llada() -> Any:
    return load_model(str(bundled("llada-tiny")))


def slow(
    toy: Toy, name: str, key: int, length: int, k: int, block: int
) -> tuple[tuple[int, ...], int]:
    """LLaDA's loop with the exit of the paper's code, place by place; token 0 is the mask."""
    asked = parse(name)
    count = asked.prophet_length or length
    region = range(asked.prophet_start, min(asked.prophet_start + count, length))
    steps = -(-block // k) * (length // block)
    canvas = [MASK] * length
    step = 0
    for start in range(0, length, block):
        while MASK in canvas[start : start + block]:
            step += 1
            logits = [toy.rule(tuple(canvas), place, key)[1:] for place in range(length)]
            chances = [torch.tensor(row).softmax(-1).tolist() for row in logits]
            token = [row.index(max(row)) + 1 for row in logits]
            open_ = [i for i in range(start, start + block) if canvas[i] == MASK]
            best = sorted(open_, key=lambda i: (-max(chances[i]), i))[:k]
            tops = [sorted(logits[i])[-2:] for i in region]
            gap = sum(high - low for low, high in tops) / len(tops) if tops else -1.0
            done = step / steps
            least = asked.prophet_late
            if done < 0.67:
                least = asked.prophet_mid
            if done < 0.33:
                least = asked.prophet_early
            if gap >= least:
                return tuple(
                    t if c == MASK else c for c, t in zip(canvas, token, strict=True)
                ), step
            for place in best:
                canvas[place] = token[place]
    return tuple(canvas), step


class TestAuthors:
    @pytest.mark.parametrize("most", [16, pytest.param(48, marks=pytest.mark.slow)])
    def test_their_decodings(self, most: int) -> None:
        """Tokens and forwards of all 80 cases, with and without an exit."""
        cases = [case for case in reference_cases("decode_prophet") if case["gen_length"] <= most]
        assert {case["exit"] for case in cases} == {True, False}
        for case in cases:
            name = f"confidence-k{case['k']}+b{case['block_length']}+prophet{case['early']}"
            name += f"-mid{case['mid']}-late{case['late']}-start{case['start']}"
            name += f"-length{case['length']}"
            (out,) = decode(llada(), [case["prompt"]], name, max_new_tokens=case["gen_length"])
            assert (list(out.token_ids), out.nfe) == (case["output"], case["nfe"]), name


class TestTwin:
    @pytest.mark.parametrize("sharpness", [0.5, 1.5, 4.0])
    @pytest.mark.parametrize(
        ("k", "block", "ending"),
        [
            (1, 4, "prophet3-mid2-late1"),
            (2, 4, "prophet4-mid2.5-late1-start2-length3"),
            (3, 6, "prophet2.2-mid1.6-late1.1-start9-length8"),
            (2, 12, "prophet"),
            (1, 12, "prophet0-start30-length2"),
        ],
    )
    def test_equals_a_slow_one(self, sharpness: float, k: int, block: int, ending: str) -> None:
        """Tokens and forwards of five rows together; a region behind the answer never exits."""
        toy = Toy(scrambled(sharpness=sharpness))
        name = f"confidence-k{k}+b{block}+{ending}"
        out = decode(toy, [[5]] * 5, name, max_new_tokens=12)
        for key, answer in enumerate(out):
            expected = slow(toy, name, key, 12, k, block)
            assert (answer.token_ids, answer.nfe) == expected

    def test_rows_leave_at_their_own_steps(self) -> None:
        """The exit of one row ends no other."""
        out = decode(Toy(), [[5]] * 8, "confidence-k1+prophet2-mid2-late2", max_new_tokens=12)
        assert len({answer.nfe for answer in out}) > 1

    @pytest.mark.parametrize(
        "sampler",
        [
            "confidence-k2+b4+prophet2.5-mid2-late1.5",
            "random-k1+b4+prophet2.5-mid2-late1.5-start3-length4",
            "entropy+linear3+b6+prophet2.5-mid2-late1.5",
            "margin-k1+prophet2.5-mid2-late1.5+t0.7",
            "confidence-k2+adas0.5+prophet2.5-mid2-late1.5",
            "confidence-k3+counts+prophet2.5-mid2-late1.5",
            "confidence-k1+eos_stop+prophet2.5-mid2-late1.5",
        ],
    )
    def test_batches_change_nothing(self, sampler: str) -> None:
        """Tokens, steps and forwards alone and among others."""
        prompts = [[5] * (1 + number % 3) for number in range(5)]
        together = decode(Toy(), prompts, sampler, max_new_tokens=12, batch_size=5)
        alone = decode(Toy(), prompts, sampler, max_new_tokens=12, batch_size=1)
        assert [(a.token_ids, a.steps, a.nfe) for a in together] == [
            (a.token_ids, a.steps, a.nfe) for a in alone
        ]

    def test_given_tokens_are_no_part_of_the_region(self) -> None:
        """In infilling the region's places are those to predict, and given tokens stay."""
        canvas = [7, MASK, MASK, 3, MASK, MASK, MASK, 4, MASK]
        (answer,) = decode(Toy(), [[5, -1, *canvas]], "confidence-k1+prophet0-mid0-late0")
        assert answer.nfe == 1
        assert [answer.token_ids[i] for i in (0, 3, 7)] == [7, 3, 4]
        assert MASK not in answer.token_ids

    def test_the_exit_takes_the_likeliest_tokens(self) -> None:
        """Also where others were drawn, as in the paper's code."""
        hot = decode(Toy(), [[5]] * 4, "confidence-k1+prophet0-mid0-late0+t3.0", 8)
        cold = decode(Toy(), [[5]] * 4, "confidence-k8", 8)
        assert [a.token_ids for a in hot] == [a.token_ids for a in cold]


class TestNames:
    def test_defaults_are_left_out(self) -> None:
        """The thresholds of the paper's code are those of +prophet alone."""
        assert str(resolve(FULL)) == "confidence-k1+b8+prophet-length5"
        assert resolve(FULL) == resolve("confidence-k1+b8+prophet-length5")
        assert str(resolve("confidence-k1+prophet6-late2")) == "confidence-k1+prophet6-late2"

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("confidence-k1+b8+prophet+prefix", r"leave \+prefix out"),
            ("confidence-k1+b8+prophet+dual", r"leave \+dual out"),
            ("confidence-k1+prophet+rcr", r"leave \+rcr out"),
            ("confidence-k1+prophet+remdm1", r"leave \+remdm out"),
            ("confidence-k1+b8+ada0.3+prophet", r"leave \+ada out"),
            ("confidence-k1+prophet+eos_last", r"leave \+eos_last out"),
            ("confidence-k2+prophet+gap2", r"leave \+gap2 out"),
            ("threshold-0.9+prophet", "goes with policies of k tokens a step, not threshold"),
            ("confidence-k1+prophet-length0", "unknown modifier"),
            ("confidence-k1+prophet-mid", "unknown modifier"),
        ],
    )
    def test_refused_in_a_line(self, text: str, error: str) -> None:
        with pytest.raises(SamplerNameError, match=error) as caught:
            resolve(text)
        assert "\n" not in str(caught.value)

    def test_models_that_cannot(self) -> None:
        """Block models predict one block; ideal says nothing of revealed tokens."""
        with pytest.raises(ValueError, match="it predicts the active block alone; leave the exit"):
            decode(block_model(), [[5]], "confidence-k1+prophet", 8)
        ideal = complete(load_model("ideal"))
        with pytest.raises(ValueError, match="reads the model's logits at revealed tokens, too"):
            denoise(
                ideal, [], resolve("confidence-k1+prophet").policy, parse("confidence-k1+prophet")
            )


class TestOthers:
    def test_costs_theory_and_sharing(self) -> None:
        """It may end with its first forward; no accuracy is derived, and no forward is shared."""
        bounds = forward_bounds(resolve("confidence-k2+b8+prophet"), 32)
        assert (bounds.low, bounds.high) == (1, 16)
        with pytest.raises(ValueError, match="no accuracy is derived for an early exit"):
            accuracy("shuffle", 4, "confidence-k2+prophet")
        name = parse("confidence-k1+prophet")
        assert not reads_numbers(of_name(name).policy, name)

    def test_finish_needs_the_declaration(self) -> None:
        """A policy of one's own may end an answer if it declares gaps."""

        class Ends:
            def select(self, step: Step) -> Move:
                return Move(step.best_one(step.confidence), finish=step.index == 1)

        class Declared(Ends):
            gaps = (0, 2)

            def select(self, step: Step) -> Move:
                assert step.gap is not None
                assert step.gap.shape == step.index.shape
                return Move(step.best_one(step.confidence), finish=step.index == 1)

        toy = Toy()
        requests = [toy.encode([5], 8, key) for key in range(3)]
        with pytest.raises(DecodingError, match=r"Move\.finish is for policies that declare gaps"):
            denoise(toy, requests, Ends(), parse("mine"))
        assert [a.nfe for a in denoise(toy, requests, Declared(), parse("mine"))] == [2, 2, 2]

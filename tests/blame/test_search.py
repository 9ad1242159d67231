"""The search for the step that broke an answer, with endings that a test makes up."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import ceil, log2

import pytest

from pbcore.blame.search import (
    MOST_ALONE,
    MOST_CLASHES,
    CantContinue,
    Ending,
    Which,
    WrongAnswer,
    search,
    together,
)
from pbcore.blame.taken import Canvas, Taken
from pbcore.results.record import Blame, FormerToken

MASK = 0
EOS = 9
Rule = Callable[[Canvas], bool]


def decoding(*steps: Sequence[int], former: Sequence[FormerToken] = ()) -> Taken:
    """An answer whose steps reveal tokens at these positions: token 1 at position 0, 2 at 1 …"""
    when = {place: step for step, places in enumerate(steps) for place in places}
    size = len(when)
    ids = tuple(place % 8 + 1 for place in range(size))
    at = [when[place] for place in range(size)]
    confidences = [1 - place / 100 for place in range(size)]
    return Taken((MASK,) * size, ids, at, confidences, former, MASK)


def verdict(taken: Taken, rule: Rule, which: Which = "any") -> tuple[Blame, list[Canvas]]:
    """The verdict on a wrong answer whose canvases end right by a rule, and what it asked for."""
    asked: list[Canvas] = []

    def endings(wanted: Sequence[tuple[int, Canvas]]) -> list[Ending]:
        asked.extend(canvas for _, canvas in wanted)
        return [Ending(rule(canvas)) for _, canvas in wanted]

    question = WrongAnswer(taken, Ending(rule(taken.empty)), {EOS}, str, which)
    (blame,) = together([search(question)], endings)
    return blame, asked


class TestVerdicts:
    def test_a_wrong_reference_blames_the_model(self) -> None:
        """Nothing else is asked then."""
        assert verdict(decoding([0, 1], [2]), lambda canvas: False) == (Blame("model"), [])

    def test_two_tokens_that_are_right_alone(self) -> None:
        """Positions 1 and 2 of the second step exclude each other."""
        blame, _ = verdict(decoding([0], [1, 2], [3]), lambda canvas: not (canvas[1] and canvas[2]))
        assert (blame.verdict, blame.step) == ("together", 1)
        assert [(token.at, token.alone) for token in blame.revealed] == [(1, True), (2, True)]
        assert blame.clash == [1, 2]

    def test_a_token_that_is_wrong_alone(self) -> None:
        """Position 2 breaks it with or without position 1."""
        blame, _ = verdict(decoding([0], [1, 2], [3]), lambda canvas: not canvas[2])
        assert (blame.verdict, blame.step) == ("token", 1)
        assert [(token.at, token.alone) for token in blame.revealed] == [(1, True), (2, False)]
        assert blame.clash == [2]

    def test_a_step_of_one_token_needs_no_further_canvas(self) -> None:
        blame, asked = verdict(decoding([0], [1], [2], [3]), lambda canvas: not canvas[1])
        assert (blame.verdict, blame.step) == ("token", 1)
        assert len(asked) == 2

    def test_a_step_that_took_tokens_back_is_undecided(self) -> None:
        """The step that broke it also masked position 1, where the end has another token."""
        gone = FormerToken(1, "7", 0, 1, 0.5, 7)
        taken = decoding([0], [2, 3], [1], former=[gone])
        blame, _ = verdict(taken, lambda canvas: not canvas[3])
        assert (blame.verdict, blame.step) == ("undecided", 1)
        assert "masked or replaced" in blame.reason

    def test_tokens_behind_the_first_eos_are_left_out(self) -> None:
        """They are no part of the answer; here position 1 ends it, and 2 to 5 stand behind."""
        taken = Taken((MASK,) * 6, (1, EOS, 2, 2, 2, 2), [0] * 6, [0.5] * 6, (), MASK)
        blame, asked = verdict(taken, lambda canvas: not (canvas[0] and canvas[1]))
        assert blame.verdict == "together"
        assert [token.at for token in blame.revealed] == blame.clash == [0, 1]
        assert len(asked) == 3

    def test_the_least_sure_are_tried(self) -> None:
        """Of twelve tokens eight: those with the lowest confidences, here the last ones."""
        blame, asked = verdict(decoding(range(12)), lambda canvas: 0 in canvas)
        assert len(asked) <= MOST_ALONE + MOST_CLASHES
        assert [token.at for token in blame.revealed if token.alone is None] == [0, 1, 2, 3]
        assert blame.clash == []

    def test_canvases_that_cant_be_continued(self) -> None:
        def never(wanted: Sequence[tuple[int, Canvas]]) -> list[Ending]:
            raise CantContinue("no")

        question = WrongAnswer(decoding([0], [1], [2]), Ending(True), {EOS}, str)
        assert together([search(question)], never) == [Blame("undecided", "no")]


FIVE = Taken((MASK,) * 5, (1, 2, 3, 4, 5), [0] * 5, [0.9, 0.5, 0.7, 0.6, 0.8], (), MASK)


class TestClash:
    """The smallest set of a step's tokens from which the answer ends wrong."""

    @pytest.mark.parametrize("clash", [(0, 1), (1, 3), (0, 1, 2), (0, 2, 4), (0, 1, 2, 3, 4)])
    def test_a_set_is_found(self, clash: tuple[int, ...]) -> None:
        """Whichever tokens of one step exclude each other, and no others."""
        blame, _ = verdict(FIVE, lambda canvas: not all(canvas[place] for place in clash))
        assert (blame.verdict, blame.clash) == ("together", list(clash))

    def test_a_pair_goes_before_larger_sets(self) -> None:
        """Positions 2, 3 and 4 clash, and so do 0 and 1."""

        def right(canvas: Canvas) -> bool:
            return not (all(canvas[2:5]) or all(canvas[:2]))

        assert verdict(FIVE, right)[0].clash == [0, 1]

    def test_what_was_written_twice_goes_first(self) -> None:
        """Any two tokens clash; positions 1 and 3 hold the same one."""
        taken = Taken((MASK,) * 4, (1, 2, 3, 2), [0] * 4, [0.4, 0.9, 0.3, 0.8], (), MASK)
        assert verdict(taken, lambda canvas: sum(map(bool, canvas)) < 2)[0].clash == [1, 3]

    def test_certain_tokens_and_padding_are_no_part_of_it(self) -> None:
        """A comma whose confidence rounds to 1 broke nothing, nor did what follows the end."""
        sure = [0.4, 1.0, 0.5, 0.999, 0.3]
        taken = Taken((MASK,) * 5, (1, 2, 3, EOS, EOS), [0] * 5, sure, (), MASK)
        blame, asked = verdict(taken, lambda canvas: not (canvas[0] and canvas[2]))
        assert blame.clash == [0, 2]
        assert (0, 2, 3, 0, 0) not in asked


class TestCost:
    @pytest.mark.parametrize("seed", range(20))
    def test_steps_are_halved(self, seed: int) -> None:
        """At most ⌈log₂ steps⌉ canvases lead to a step that breaks the answer, whatever happens at
        the others, and at most eight more say how.
        """
        draw = random.Random(seed)
        count = draw.randrange(1, 65)
        taken = decoding(*([place] for place in range(count)))
        endings = {taken.canvas(step): draw.random() < 0.5 for step in range(1, count)}
        endings |= {taken.empty: True, taken.canvas(count): False}
        blame, asked = verdict(taken, lambda canvas: endings.get(canvas, False))
        assert len(asked) <= ceil(log2(count)) + MOST_ALONE
        assert blame.step is not None
        assert endings[taken.canvas(blame.step)]
        assert not endings[taken.canvas(blame.step + 1)]

    @pytest.mark.parametrize(("which", "step"), [("first", 1), ("last", 4)])
    def test_the_first_and_the_last_look_at_all_steps(self, which: Which, step: int) -> None:
        """Right before steps 0, 1 and 4, wrong before 2, 3 and 5."""
        taken = decoding(*([place] for place in range(6)))
        wrong = {taken.canvas(number) for number in (2, 3, 5, 6)}
        blame, asked = verdict(taken, lambda canvas: canvas not in wrong, which)
        assert blame.step == step
        assert len(asked) == 5

    def test_a_round_of_all_searches_is_one_batch(self) -> None:
        """Three answers of 8 steps take three rounds; each step reveals one token."""
        rounds: list[int] = []

        def endings(wanted: Sequence[tuple[int, Canvas]]) -> list[Ending]:
            rounds.append(len(wanted))
            return [Ending(sum(map(bool, canvas)) < 3) for _, canvas in wanted]

        taken = decoding(*([place] for place in range(8)))
        searches = [search(WrongAnswer(taken, Ending(True), {EOS}, str)) for _ in range(3)]
        blames = together(searches, endings)
        assert [blame.step for blame in blames] == [2, 2, 2]
        assert rounds == [3, 3, 3]

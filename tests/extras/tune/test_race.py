"""Who leaves a race after a round, and who goes to the proof."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pbcore.extras.tune.race import FINALISTS, TWINS, Standing, cut, front
from pbcore.extras.tune.report import why_left
from pbcore.extras.tune.tuning import Left

MARGIN = 0.03
PROOF = 958


def standing(
    name: str,
    cost: float,
    p_loss: float = 0.5,
    p_good: float = 0.5,
    n: int = 100,
    runs: tuple[tuple[int, object], ...] = (),
) -> Standing:
    return Standing(name, cost, p_loss, p_good, n, runs)


class TestWhoLeaves:
    def test_not_faster(self) -> None:
        """Who costs what the reference costs leaves, however good it is."""
        outcome = cut([standing("same", 1.0, 1e-9), standing("fast", 0.5)], 4, MARGIN, PROOF)
        assert outcome.stay == ("fast",)
        assert outcome.left == {"same": "not faster than the reference"}

    def test_shown_to_be_worse(self) -> None:
        """A loss above the margin has to be shown: 5 % is enough, 6 % isn't."""
        racing = [standing("bad", 0.1, 0.9, 0.05), standing("poor", 0.1, 0.9, 0.06)]
        outcome = cut(racing, 4, MARGIN, PROOF)
        assert outcome.stay == ("poor",)
        assert outcome.left == {"bad": "shown to lose more than 3 points"}

    def test_slower_than_a_good_one(self) -> None:
        """One that is shown to be good sends the slower ones home, and no faster one; in the last
        round nobody, so that the proof has someone else.
        """
        racing = [standing("fast", 0.1), standing("good", 0.3, 1e-6), standing("slow", 0.6, 1e-9)]
        outcome = cut(racing, 4, MARGIN, PROOF)
        assert outcome.stay == ("fast", "good")
        assert outcome.left["slow"].startswith("slower than good,")
        assert cut(racing, 4, MARGIN, PROOF, last=True).stay == ("fast", "good", "slow")

    def test_good_is_shown_by_holm(self) -> None:
        """A p of 2 % shows nothing among four, and does alone with one other."""
        close = [standing("close", 0.3, 0.02), standing("slow", 0.6, 0.4)]
        others = [standing("a", 0.1), standing("b", 0.1)]
        assert cut(close, 4, MARGIN, PROOF).stay == ("close",)
        assert "slow" in cut([*close, *others], 4, MARGIN, PROOF).stay

    def test_twins(self) -> None:
        """Of samplers with the same answers and costs the shortest name stays, once enough
        questions have told them apart or not.
        """
        pair = [standing(name, 0.2, runs=((TWINS, "same"),)) for name in ("long-name", "short")]
        assert cut(pair, 4, MARGIN, PROOF).left == {
            "long-name": "the same answers at the same cost as short"
        }
        early = [standing(one.sampler, 0.2, runs=((TWINS - 1, "same"),)) for one in pair]
        assert len(cut(early, 4, MARGIN, PROOF).stay) == 2
        others = [standing(name, 0.2, runs=((TWINS, name),)) for name in ("long-name", "short")]
        assert len(cut(others, 4, MARGIN, PROOF).stay) == 2

    def test_who_joined_later_is_a_twin_of_its_rounds(self) -> None:
        """The one that answered more stays; a difference in a round that both ran keeps both."""
        old = standing("long-name", 0.2, n=300, runs=((100, "first"), (200, "second")))
        new = standing("short", 0.2, n=200, runs=((200, "second"),))
        other = standing("other", 0.2, n=200, runs=((200, "another"),))
        assert set(cut([new, old, other], 4, MARGIN, PROOF).stay) == {"long-name", "other"}

    def test_twins_take_one_place_in_the_proof(self) -> None:
        """At the end of the race few questions are enough."""
        pair = [standing(name, 0.2, runs=((1, "same"),)) for name in ("long-name", "short")]
        assert cut(pair, 4, MARGIN, PROOF, last=True).stay == ("short",)

    def test_the_surest_stays(self) -> None:
        """Many that look promising by chance don't take the place of the surest one."""
        lucky = [standing(f"lucky-{i}", 0.05, 0.2, n=900) for i in range(8)]
        outcome = cut([*lucky, standing("sure", 0.6, 0.01, n=900)], FINALISTS, MARGIN, PROOF)
        assert "sure" in outcome.stay
        assert len(outcome.stay) == FINALISTS

    def test_nobody(self) -> None:
        """A race that all have left has no one for the proof."""
        assert cut([standing("same", 1.2)], 4, MARGIN, PROOF).stay == ()


P = st.floats(0, 1)
RACING = st.lists(
    st.builds(standing, st.text("abc", min_size=1), st.floats(0.01, 2), P, P, st.integers(1, 900)),
    unique_by=lambda one: one.sampler,
    max_size=12,
)


@given(RACING, st.integers(1, 6), st.booleans())
def test_everybody_stays_or_leaves(racing: list[Standing], keep: int, last: bool) -> None:
    """Each sampler stays or leaves with one reason; no more stay than may, fastest first, and
    someone stays if anyone is faster and not shown to be worse.
    """
    outcome = cut(racing, keep, MARGIN, PROOF, last)
    assert sorted([*outcome.stay, *outcome.left]) == sorted(one.sampler for one in racing)
    assert len(outcome.stay) <= keep
    costs = {one.sampler: one.cost for one in racing}
    assert [costs[name] for name in outcome.stay] == sorted(costs[name] for name in outcome.stay)
    open_ = [one for one in racing if one.cost < 1 - 1e-6 and one.p_good > 0.05]
    if open_:
        assert outcome.stay


class TestPromise:
    @given(P, P, st.floats(0.01, 0.99), st.integers(1, 2000))
    def test_surer_and_faster_promise_more(
        self, one: float, other: float, cost: float, n: int
    ) -> None:
        """Promise falls with p and with cost, and lies between 0 and what is saved."""
        low, high = sorted((one, other))
        surer = standing("a", cost, low, n=n).promise(PROOF)
        assert surer >= standing("a", cost, high, n=n).promise(PROOF)
        assert surer >= standing("a", min(1.0, cost * 1.5), low, n=n).promise(PROOF)
        assert 0 <= surer <= 1 - cost


def test_front() -> None:
    """Only those that no other beats in cost and score, fastest first."""
    points = {"fast": (0.1, -0.2), "good": (0.5, 0.0), "beaten": (0.6, -0.1), "slow": (0.9, 0.0)}
    assert front(points) == ["fast", "good"]


def test_why_none_is_left() -> None:
    """Reasons with how many left for each, the most frequent first."""
    reasons = ["not faster than the reference", *["shown to lose more than 5 points"] * 2]
    left = [Left(f"random-k{k}", 1, reason, None) for k, reason in enumerate(reasons)]
    told = "2 shown to lose more than 5 points; 1 not faster than the reference"
    assert why_left(left) == told

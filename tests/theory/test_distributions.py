from dataclasses import replace
from functools import lru_cache
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.tasks.base import Sample, Task
from pbcore.tasks.registry import all_task_names, load_task
from pbcore.tasks.words import tokens
from pbcore.theory.answers import TooManyAnswers
from pbcore.theory.canvas import EOS, MASKED, NoDistribution, canvas_tokens
from pbcore.theory.distributions import answer_distribution, supports
from tests.reference import reference

ANSWERED = [name for name in all_task_names() if not name.startswith("text_writing")]
LISTED = [
    name for name in ANSWERED if not name.startswith(("questions/", "walk/"))
]  # test_products, test_chains
SIZES = {"shuffle": 4, "latin_square": 3}


def texts(sample: Sample) -> list[str]:
    """Every text of a small sample that its task could accept: all orders, insertions, removals,
    replacements; all squares.
    """
    label = sample.label
    if isinstance(label, str):
        return [label]
    if "symbols" in label:
        rows = list(permutations(label["symbols"]))
        squares = [(a, b, c) for a in rows for b in rows for c in rows]
        return ["\n".join(map(",".join, square)) for square in squares]
    items = label["input"]
    word = [label["word"]] if "word" in label else []
    lists = [list(order) for order in permutations(items)]
    lists += [items[:i] + word + items[i + d :] for i in range(len(items) + 1) for d in (0, 1)]
    return ["[" + ", ".join(f'"{item}"' for item in answer) + "]" for answer in lists]


@lru_cache(maxsize=64)
def small(name: str) -> tuple[Task, Sample, tuple[tuple[str, ...], ...]]:
    """A task, a small sample, and its valid answers as tokens, found by asking the scorer."""
    task = load_task(
        name, n=None if name.endswith("sudoku") else SIZES.get(name.split("/")[1], 4), limit=1
    )
    sample = task.samples[0]
    length = answer_distribution(sample).length
    valid = [
        text
        for text in dict.fromkeys(texts(sample))
        if task.score(text, sample, ["accuracy"])["accuracy"] == 1
    ]
    return (
        task,
        sample,
        tuple((*tokens(text), *[EOS] * (length - len(tokens(text)))) for text in valid),
    )


def slow_marginals(
    answers: tuple[tuple[str, ...], ...], revealed: list[str | None]
) -> list[dict[str, float]]:
    """The rule as documented: take the revealed tokens from left to right, skip each that leaves no
    answer, count.
    """
    alive = list(answers)
    for position, token in enumerate(revealed):
        if token is not None and any(a[position] == token for a in alive):
            alive = [a for a in alive if a[position] == token]
    columns = list(zip(*alive, strict=True))
    return [
        {token: column.count(token) / len(alive) for token in set(column)} for column in columns
    ]


def drawn(
    data: st.DataObject, answers: tuple[tuple[str, ...], ...], vocabulary: tuple[str, ...]
) -> list[str | None]:
    """Some tokens of an answer, a few of them replaced by others of the vocabulary."""
    longest = max(sum(token != EOS for token in answer) for answer in answers)
    size = len(answers[0])
    places = data.draw(st.sets(st.sampled_from(range(min(longest + 1, size)))))
    start = data.draw(st.sampled_from(answers))
    foreign = data.draw(st.sets(st.sampled_from(sorted(places)), max_size=3)) if places else set()
    revealed: list[str | None] = [start[p] if p in places else None for p in range(size)]
    for place in foreign:
        revealed[place] = data.draw(st.sampled_from(vocabulary))
    return revealed


class TestFits:
    @pytest.mark.parametrize("name", LISTED)
    @given(data=st.data())
    def test_equal_listing(self, name: str, data: st.DataObject) -> None:
        """A canvas fits if some answer that the scorer accepts has all of its tokens up to the
        first EOS.
        """
        _, sample, answers = small(name)
        law = answer_distribution(sample)
        revealed = drawn(data, answers, law.vocabulary)
        end = revealed.index(EOS) if EOS in revealed else len(revealed)
        seen = [(place, token) for place, token in enumerate(revealed[: end + 1]) if token]
        expected = any(all(answer[p] == token for p, token in seen) for answer in answers)
        ids = {token: i for i, token in enumerate(law.vocabulary)}
        canvas = np.array([MASKED if token is None else ids[token] for token in revealed])
        assert law.fits(canvas) == expected

    def test_an_unknown_token_fits_nothing(self) -> None:
        """Unless it stands behind the first EOS."""
        law = answer_distribution(load_task("waiting_line/shuffle", limit=1).samples[0])
        canvas = np.full(law.length, MASKED)
        assert law.fits(canvas)
        canvas[-1] = len(law.vocabulary)
        assert not law.fits(canvas)
        canvas[-2] = len(law.vocabulary) - 1
        assert law.fits(canvas)


class TestMarginals:
    @pytest.mark.parametrize("name", LISTED)
    @given(data=st.data())
    def test_equal_listing_and_filtering(self, name: str, data: st.DataObject) -> None:
        """For any revealed tokens, those that fit no answer included, the marginals are those of
        the answers the scorer accepts.
        """
        _, sample, answers = small(name)
        distribution = answer_distribution(sample)
        revealed = drawn(data, answers, distribution.vocabulary)
        ids = {token: i for i, token in enumerate(distribution.vocabulary)}
        canvas = np.array([MASKED if token is None else ids[token] for token in revealed])
        found = distribution.marginals(canvas)
        for row, expected in zip(found, slow_marginals(answers, revealed), strict=True):
            assert {distribution.vocabulary[i]: p for i, p in enumerate(row) if p} == pytest.approx(
                expected
            )

    def test_unknown_tokens_are_skipped(self) -> None:
        """An id outside the vocabulary says nothing."""
        for name in ("waiting_line/shuffle", "waiting_line/copy", "puzzle/latin_square"):
            distribution = answer_distribution(load_task(name, limit=1).samples[0])
            canvas = distribution.canvas.copy()
            canvas[[1, 3]] = len(distribution.vocabulary)
            assert (
                distribution.marginals(canvas) == distribution.marginals(distribution.canvas)
            ).all()

    def test_fifteen_people_are_counted(self) -> None:
        """Of 15! − 1 orders 14! − 1 begin with the first person; a first name fixes its last name
        and frees nobody else's place.
        """
        sample = load_task("waiting_line/shuffle", n=15, limit=1).samples[0]
        distribution = answer_distribution(sample)
        who = [tokens(f'["{item}"]')[1:-1] for item in sample.label["input"]]
        ids = {token: i for i, token in enumerate(distribution.vocabulary)}
        first = distribution.marginals(distribution.canvas)[1]
        assert first[ids[who[0][0]]] < first[ids[who[1][0]]] == pytest.approx(1 / 15)
        canvas = distribution.canvas.copy()
        canvas[1] = ids[who[3][0]]
        after = distribution.marginals(canvas)
        assert after[2][ids[who[3][1]]] == 1
        assert after[4][ids[who[3][0]]] == 0
        assert after[4][ids[who[0][0]]] == pytest.approx(1 / 14)

    def test_the_last_two_cannot_stay_where_all_others_stay(self) -> None:
        """With n − 2 people in their own places the last two must swap; a name that would leave
        them is skipped.
        """
        sample = load_task("waiting_line/shuffle", n=4, limit=1).samples[0]
        distribution = answer_distribution(sample)
        who = [tokens(f'["{item}"]')[1:-1] for item in sample.label["input"]]
        ids = {token: i for i, token in enumerate(distribution.vocabulary)}
        canvas = distribution.canvas.copy()
        canvas[[1, 4, 7]] = [ids[who[i][0]] for i in (0, 1, 2)]
        found = distribution.marginals(canvas)
        assert found[8][ids[who[3][1]]] == 1
        assert found[10][ids[who[2][0]]] == 1


class TestAnswerDistribution:
    @pytest.mark.parametrize(
        ("name", "n"),
        [(name, None) for name in LISTED]
        + [(name, 15) for name in LISTED if not name.startswith("puzzle")],
    )
    def test_every_label_is_possible(self, name: str, n: int | None) -> None:
        """The chain rule over a label's own tokens never meets a probability of 0."""
        for sample in load_task(name, n=n, limit=4).samples:
            self.assert_possible(sample)

    @pytest.mark.parametrize("name", [name for name in LISTED if not name.startswith("list_ops")])
    def test_official_labels_are_possible(self, name: str) -> None:
        """The official samples are understood like the own ones."""
        for sample in load_task(name, data_dir=reference("official-v1"), limit=3).samples:
            self.assert_possible(sample)

    @staticmethod
    def assert_possible(sample: Sample) -> None:
        distribution = answer_distribution(sample)
        ids = {token: i for i, token in enumerate(distribution.vocabulary)}
        label = tokens(sample.answer or "")
        canvas = distribution.canvas.copy()
        for position, token in enumerate([*label, *[EOS] * (distribution.length - len(label))]):
            assert distribution.marginals(canvas)[position, ids[token]] > 0
            canvas[position] = ids[token]
        assert (distribution.marginals(canvas)[np.arange(len(canvas)), canvas] == 1).all()

    def test_infilling_gives_the_formatting(self) -> None:
        """list_ops canvases ask for one token an item."""
        sample = load_task("list_ops/shuffle", n=5, limit=1).samples[0]
        distribution = answer_distribution(sample)
        assert (distribution.canvas == MASKED).sum() == 5
        assert distribution.length == 11
        assert canvas_tokens('["[MASK]", "[MASK]"]') == ['["', None, '", "', None, '"]']

    def test_answers_can_be_given(self) -> None:
        """A label of answers makes a sample of any task; one given twice counts once."""
        label = {"answers": ["New York", "Mexico City", "New York"]}
        distribution = answer_distribution(Sample("demo/city", 0, (), {}, label, 3))
        assert distribution.vocabulary[-1] == EOS
        assert distribution.marginals(distribution.canvas).max(1).tolist() == [0.5, 0.5, 1]

    def test_shared_names_are_listed(self) -> None:
        """Where a first name is two people's, the last name still has to fit."""
        sample = load_task("waiting_line/shuffle", n=3, limit=1).samples[0]
        sample = replace(sample, label={"input": ["Ann Lee", "Ann Fox", "Bob Ray"]})
        distribution = answer_distribution(sample)
        ids = {token: i for i, token in enumerate(distribution.vocabulary)}
        canvas = distribution.canvas.copy()
        canvas[[1, 4]] = [ids["Ann"], ids["Ann"]]
        found = distribution.marginals(canvas)
        assert found[2][ids[" Fox"]] == 1
        assert found[7][ids["Bob"]] == 1
        many = replace(
            sample, label={"input": [f"Ann {chr(65 + i)}x" for i in range(9)]}, max_new_tokens=64
        )
        with pytest.raises(TooManyAnswers, match="at most 8"):
            answer_distribution(many)

    def test_what_it_cannot_do_it_says(self) -> None:
        """Text tasks, short canvases, canvases that give what no answer holds."""
        with pytest.raises(NoDistribution, match="text_writing/w2s_easy"):
            answer_distribution(load_task("text_writing/w2s_easy", limit=1).samples[0])
        sample = load_task("waiting_line/shuffle", n=4, limit=1).samples[0]
        with pytest.raises(NoDistribution, match="13 tokens, the canvas only 8"):
            answer_distribution(sample, 8)
        with pytest.raises(NoDistribution, match="13 tokens"):
            answer_distribution(replace(sample, max_new_tokens=12))
        square = load_task("puzzle/latin_square", limit=1).samples[0]
        with pytest.raises(NoDistribution, match="31 tokens"):
            answer_distribution(square, 30)
        with pytest.raises(NoDistribution, match="'Q'"):
            answer_distribution(replace(sample, canvas='["Q[MASK]"]'))

    @pytest.mark.parametrize(
        "symbols", [["A", "B", "C", "D"], ["New York", "A", "B", "C"], ["a b", "c d", "e", "f"]]
    )
    def test_latin_squares_of_longer_symbols(self, symbols: list[str]) -> None:
        """Symbols of two or three tokens: the first cell is uniform over the symbols' first tokens,
        and 576 squares are listed.
        """
        sample = load_task("puzzle/latin_square", limit=1).samples[0]
        found = answer_distribution(
            replace(sample, label={**dict(sample.label), "symbols": symbols}), 64
        )
        vocabulary = list(found.vocabulary)
        first = found.marginals(np.array(found.canvas))[0]
        expected = dict.fromkeys((tokens(symbol)[0] for symbol in symbols), 0.25)
        assert {vocabulary[i]: round(float(p), 6) for i, p in enumerate(first) if p > 0} == expected

    def test_supports(self) -> None:
        """All lists and puzzles, no text."""
        assert {name for name in all_task_names() if supports(name)} == set(ANSWERED)
        with pytest.raises(ValueError, match="no task named"):
            supports("waiting_line/shufle")

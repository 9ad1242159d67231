"""Scores of list answers: the correct answers of each operation, and a diagnosis of wrong ones."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pbcore.metrics import answers
from pbcore.metrics.answers import JudgedScorer, ScoresAndDetails, label_part, label_text
from pbcore.tasks.base import Sample
from pbcore.tasks.lists import by_last_name
from pbcore.tasks.registry import task_spec
from pbcore.tasks.scoring import Details, Scored, register_scorer, scorer

Items = Sequence[str]
_LIST = re.compile(r"\[[^\[\]]*\]?")
BLANKS = {"\t": "a tab", "\u00a0": "a no-break space"}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a list task expects: `known` items may occur, `needed` ones must, `size` is the length
    of a correct answer. `near` lists wrong answers with a specific diagnosis: (answer, failure,
    why).
    """

    accepts: Callable[[list[str]], bool]
    known: Items
    needed: Items
    size: int
    near: tuple[tuple[list[str], str, str], ...] = ()


def one_answer(sample: Sample) -> Expected:
    """The label is the only right answer (copy, sort, reverse and all `*_index` operations)."""
    answer = answers.any_layout_list(label_text(sample))
    given = answers.any_layout_list(str(sample.input.get("context", "")))
    word = sample.input.get("word")
    near = tuple(
        (
            other,
            "wrong position",
            f"right for position {index}; the question says position {sample.input['index']}",
        )
        for index, other in _everywhere(given, word, len(answer))
        if "index" in sample.input and other != answer
    )
    return Expected(lambda items: items == answer, [*answer, *given], answer, len(answer), near)


def _everywhere(given: list[str], word: str | None, size: int) -> list[tuple[int, list[str]]]:
    """The results of insert, remove or replace at each index; the sizes determine which of the
    three it is.
    """
    new = [] if word is None else [str(word)]
    removed = len(given) + len(new) - size
    if removed not in (0, 1):
        return []
    return [
        (index, [*given[:index], *new, *given[index + removed :]])
        for index in range(len(given) + 1 - removed)
    ]


def sorted_by_last_name(sample: Sample) -> list[str]:
    """The label's items by last name, as the sort prompt says; the official labels are ordered by
    the whole names.
    """
    return sorted(answers.any_layout_list(label_text(sample)), key=by_last_name)


def permutation(sample: Sample) -> Expected:
    """Any order of the input (`list_ops/shuffle`)."""
    given = label_part(sample, "input", list)
    return Expected(lambda items: sorted(items) == sorted(given), given, given, len(given))


def other_permutation(sample: Sample) -> Expected:
    """Any order of the input except the original one (`waiting_line/shuffle`)."""
    given = label_part(sample, "input", list)
    unchanged = (list(given), "unchanged", "the order is the same as the original")
    return Expected(
        lambda items: sorted(items) == sorted(given) and items != given,
        given,
        given,
        len(given),
        (unchanged,),
    )


def inserted(sample: Sample) -> Expected:
    """The new item at any position, the others in their order."""
    given = label_part(sample, "input", list)
    word = label_part(sample, "word", str)
    return _anywhere(given, word, len(given) + 1, [*given, word])


def removed(sample: Sample) -> Expected:
    """One item removed, the others in their order."""
    given = label_part(sample, "input", list)
    return _anywhere(given, None, len(given) - 1, [], "nobody was removed")


def replaced(sample: Sample) -> Expected:
    """The new item in place of any one item, the others unchanged."""
    given = label_part(sample, "input", list)
    word = label_part(sample, "word", str)
    return _anywhere(given, word, len(given), [word], f'"{word}" replaced nobody')


def _anywhere(
    given: list[str], word: str | None, size: int, needed: Items, unchanged: str = ""
) -> Expected:
    """Any result of insert, remove or replace; `unchanged` says what is wrong with the list
    itself.
    """
    right = [answer for _, answer in _everywhere(given, word, size)]
    known = given if word is None else [*given, word]
    near = ((list(given), "unchanged", unchanged),) if unchanged else ()
    return Expected(lambda items: items in right, known, needed, size, near)


def diagnosis(items: list[str], expected: Expected) -> tuple[str, str]:
    """The diagnosis of a wrong list: the kind of failure (paper, Appendix H) and a sentence."""
    if not items:
        return "malformed", "the answer contains no list"
    for answer, failure, why in expected.near:
        if items == answer:
            return failure, why
    unknown = [item for item in items if item not in expected.known]
    words = {word for item in expected.known for word in item.split()}
    recombined = [item for item in unknown if len(item.split()) > 1 and set(item.split()) <= words]
    if recombined:
        return (
            "recombined",
            f"{answers.quoted(recombined)}: first and last names of different people",
        )
    if unknown:
        return "unknown item", f"{answers.quoted(unknown)} is neither in the list nor the new item"
    twice = answers.repeated([(item, 0) for item in items], Counter(expected.needed))
    if twice:
        times = []
        for entry in twice:
            count = len(entry["at"])
            times.append(f"{entry['item']} {'twice' if count == 2 else f'{count} times'}")
        return "item twice", ", ".join(times)
    missing = [item for item in expected.needed if item not in items]
    if missing:
        return "item missing", f"{answers.quoted(missing)} is missing"
    if len(items) != expected.size:
        failure = "item missing" if len(items) < expected.size else "extra item"
        return failure, f"{len(items)} items instead of {expected.size}"
    return "wrong order", "the items are right, but their order is wrong"


def layout_fault(items: Sequence[str]) -> str:
    """Why a list that is right in any layout is wrong in the official reading, which found these
    `items`.
    """
    kept = {sign for item in items for sign in item if sign.isspace() and sign != " "}
    blanks = sorted(sign for sign in kept if len(f"a{sign}b".splitlines()) == 1)
    causes = []
    if len(kept) > len(blanks):
        causes.append("the list spans several lines")
    for sign in blanks:
        causes.append(f"an item begins or ends with {BLANKS.get(sign, f'U+{ord(sign):04X}')}")
    if "" in items:
        causes.append('the empty item "" counts')
    return (
        f"right in another layout, but not as the official benchmark reads it: {', '.join(causes)}"
    )


@dataclass(frozen=True, slots=True)
class ListScorer:
    """`accuracy` of the lenient and `accuracy_strict` of the strict reading, both as in the
    official benchmark.

    `accuracy_any_layout` also accepts lists over several lines, other blanks and empty items; it is
    never lower than `accuracy`. `as_prompted(sample)` adds `accuracy_as_asked`, for official labels
    that don't follow the prompt: it compares the list, read as for `accuracy`, with the answer that
    the prompt requests. Each of the two differs from `accuracy` in one respect.
    """

    expect: Callable[[Sample], Expected]
    as_prompted: Callable[[Sample], list[str]] | None = None

    @property
    def metrics(self) -> tuple[str, ...]:
        always = ("accuracy", "accuracy_strict", "accuracy_any_layout")
        return (*always, "accuracy_as_asked") if self.as_prompted else always

    def score(
        self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]
    ) -> list[Scored]:
        return JudgedScorer(self._judge, self.metrics).score(predictions, samples, metrics)

    def _judge(self, text: str, sample: Sample) -> ScoresAndDetails:
        expected = self.expect(sample)
        items = answers.lenient_list(text)
        strict = answers.strict_list(text)
        free = answers.any_layout_list(text)
        right = expected.accepts(items)
        scores = {
            "accuracy": float(right),
            "accuracy_strict": float(strict is not None and expected.accepts(strict)),
            "accuracy_any_layout": float(right or expected.accepts(free)),
        }
        if self.as_prompted:
            scores["accuracy_as_asked"] = float(items == self.as_prompted(sample))
        if not right and scores["accuracy_any_layout"]:
            return scores, {"failure": "layout", "why": layout_fault(items)}
        if not right:
            failure, why = diagnosis(free, expected)
            details: Details = {"failure": failure, "why": why}
            twice = answers.repeated(answers.placed_items(text), Counter(expected.needed))
            if twice:
                details["repeated"] = twice
            return scores, details
        if not scores["accuracy_strict"]:
            return scores, {
                "why": "right, but not a list in brackets with every item in double quotes"
            }
        return scores, {}


def judge_several(text: str, sample: Sample) -> ScoresAndDetails:
    """Several list questions that are answered together, a list on each line. `accuracy`: the share
    of the questions whose list is right, the i-th list for the i-th question, each scored as its
    own task does. `accuracy_all`: whether all of them are, with no list more. `details` name the
    wrong questions, from 1, and what is wrong with the first.
    """
    questions = label_part(sample, "questions", list)
    found = list(_LIST.finditer(text))
    lists = [match[0] for match in found]
    wrong: dict[int, Details] = {}
    for number, question in enumerate(questions, 1):
        answer = lists[number - 1] if number <= len(lists) else ""
        asked = replace(
            sample, task=question["task"], input=question["input"], label=question["label"]
        )
        rule = scorer(task_spec(asked.task).scorer)
        [scored] = rule.score([answer], [asked], frozenset(rule.metrics))
        if not scored.scores["accuracy"]:
            wrong[number] = scored.details
    everything = not wrong and len(lists) == len(questions)
    scores = {"accuracy": 1 - len(wrong) / len(questions), "accuracy_all": float(everything)}
    if wrong:
        first, details = next(iter(wrong.items()))
        why = f"question {first}: {details['why']}"
        told: Details = {"wrong": list(wrong), "failure": details["failure"], "why": why}
        if "repeated" in details:
            start = found[first - 1].start()
            told["repeated"] = [
                {**entry, "at": [start + at for at in entry["at"]]} for entry in details["repeated"]
            ]
        return scores, told
    if not everything:
        return scores, {
            "failure": "extra list",
            "why": f"{len(lists)} lists for {len(questions)} questions",
        }
    return scores, {}


register_scorer("list_match", ListScorer(one_answer))
register_scorer("list_sort", ListScorer(one_answer, sorted_by_last_name))
register_scorer("list_shuffle", ListScorer(other_permutation))
register_scorer("list_permutation", ListScorer(permutation))
register_scorer("list_insert_random", ListScorer(inserted))
register_scorer("list_remove_random", ListScorer(removed))
register_scorer("list_replace_random", ListScorer(replaced))
register_scorer("questions", JudgedScorer(judge_several, ("accuracy", "accuracy_all")))

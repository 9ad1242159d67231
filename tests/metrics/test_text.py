"""The scorers of the text tasks: what they give, what they leave out and why, and what they say
about wrong answers.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pbcore.metrics import grammar, semantic, text
from pbcore.metrics.grammar import GrammarVerdict
from pbcore.metrics.languagetool.client import Match
from pbcore.metrics.text import (
    PARAPHRASING,
    SUMMARIZATION,
    WORDS_TO_SENTENCE,
    TextScorer,
    failure_kind,
    now_measurable,
)
from pbcore.tasks.base import Sample
from pbcore.tasks.scoring import Scored, scorer
from tests.reference import reference

WORDS = {"words": ["dog", "park"], "example": "The dog is in the park."}


def score(which: TextScorer, answer: str, label: object, *metrics: str) -> Scored:
    asked = frozenset(metrics or which.metrics)
    return which.score([answer], [Sample("text_writing/any", 0, (), {}, label, 64)], asked)[0]


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No grammar server and no BERTScore model."""
    monkeypatch.setenv("PBCORE_LANGUAGETOOL_URL", "http://127.0.0.1:9")
    monkeypatch.setenv(semantic.MODEL_VARIABLE, "no-such-model")
    monkeypatch.setenv(semantic.LAYER_VARIABLE, "1")


@pytest.mark.usefixtures("url")
class TestWordsToSentence:
    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("The dog is in the park.", (1, 1, 1, 1, 1)),
            ("The dog dog is in the park.", (1, 1, 0, 0, 0)),
            ("The Dog is in the park.", (0, 1, 1, 0, 1)),
            ("The dogs run.", (0, 0, 1, 0, 1)),
            ("", (0, 0, 0, 0, 0)),
        ],
    )
    def test_scores(self, answer: str, expected: tuple[int, ...]) -> None:
        """Inclusion counts letter case and takes parts of words; v1 is the product with grammar, v2
        grammar alone.
        """
        names = ("inclusion", "inclusion_any_case", "grammar", "v1", "v2")
        assert score(WORDS_TO_SENTENCE, answer, WORDS).scores == dict(
            zip(names, expected, strict=True)
        )

    @pytest.mark.parametrize("name", WORDS_TO_SENTENCE.metrics)
    def test_each_score_can_be_requested_alone(self, name: str) -> None:
        """What a composite needs is measured for it, and only what was requested is given."""
        assert score(WORDS_TO_SENTENCE, "The dog is in the park.", WORDS, name) == Scored(
            {name: 1.0}
        )

    def test_says_what_is_wrong(self) -> None:
        """A wrong answer comes with the findings, the missing words and the kind that is most
        telling of parallel decoding.
        """
        details = score(WORDS_TO_SENTENCE, "A dog bkrt the the tree.", WORDS).details
        assert [match["rule"] for match in details["matches"]] == ["REPEAT", "TYPO"]
        assert details["matches"][0] | {"message": ""} == {
            "rule": "REPEAT",
            "message": "",
            "offset": 11,
            "length": 7,
            "category": "GRAMMAR",
        }
        assert "missing words: park" in details["why"]
        assert score(WORDS_TO_SENTENCE, "The park.", WORDS).details == {
            "why": "missing words: dog",
            "failure": "word missing",
        }
        assert score(WORDS_TO_SENTENCE, "", WORDS).details["failure"] == "empty"
        assert score(WORDS_TO_SENTENCE, "The dog is in the park.", WORDS).details == {}

    def test_a_text_without_a_verdict_is_absent_alone(self) -> None:
        """The server's error on one answer is told there and nowhere else."""
        samples = [Sample("text_writing/w2s_easy", index, (), {}, WORDS, 64) for index in range(2)]
        bad, fine = WORDS_TO_SENTENCE.score(
            ["ERROR dog park", "dog park"], samples, frozenset({"grammar", "v1"})
        )
        assert bad.scores == {}
        assert (
            bad.details["absent"]["grammar"]
            == "LanguageTool gave no verdict: Error: Internal Error"
        )
        assert "grammar: LanguageTool gave no verdict" in bad.details["absent"]["v1"]
        assert fine.scores == {"grammar": 1.0, "v1": 1.0}

    def test_equals_the_official_inclusion(self) -> None:
        """The official verdicts on thousands of right, wrong and malformed sentences."""
        cases = [
            case
            for case in json.loads(reference("golden", "metric_cases.json").read_text())
            if "inclusion" in case
        ]
        rows: dict[str, list[dict[str, object]]] = {}
        for case in cases:
            if case["task"] not in rows:
                lines = (
                    reference("official-v1", *f"{case['task']}.jsonl".split("/"))
                    .read_text()
                    .splitlines()
                )
                rows[case["task"]] = [json.loads(line) for line in lines]
        assert len(cases) > 100
        for case in cases:
            label = rows[case["task"]][case["index"]]["answer"]
            assert score(WORDS_TO_SENTENCE, case["prediction"], label, "inclusion").scores == {
                "inclusion": case["inclusion"]
            }, case


@pytest.mark.usefixtures("url")
class TestSummarization:
    def test_scores(self) -> None:
        """ROUGE is stemmed, with the unstemmed value beside it, and v1 is ROUGE-L times grammar."""
        label = {"text": "Anna: Hi!", "summary": "Anna walks dogs."}
        scores = score(SUMMARIZATION, "Anna walked a dog.", label).scores
        assert scores == pytest.approx(
            {
                "grammar": 1,
                "rouge_l": 6 / 7,
                "rouge_1": 6 / 7,
                "rouge_2": 2 / 5,
                "rouge_l_unstemmed": 2 / 7,
                "v1": 6 / 7,
                "v2": 1,
            }
        )
        assert score(SUMMARIZATION, "Anna walked walked dogs.", label).scores["v1"] == 0.0

    def test_an_empty_answer_scores_zero_on_everything(self) -> None:
        """Nothing is never good."""
        scores = score(SUMMARIZATION, " ", {"text": "Anna: Hi!", "summary": "Anna walks."}).scores
        assert set(scores) == set(SUMMARIZATION.metrics)
        assert set(scores.values()) == {0.0}


SOURCE = {
    "text": "The man gave the old dog a bone.",
    "examples": "['A bone was given to the old dog.']",
}


class TestParaphrasing:
    @pytest.mark.usefixtures("url")
    def test_scores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All is measured against the input sentence, and v1 is the product of the three."""

        class Half:
            def f1(self, predictions: list[str], references: list[str]) -> list[float]:
                assert references == [SOURCE["text"]]
                return [0.5]

        monkeypatch.setattr(semantic, "bert_scorer", Half)
        scores = score(PARAPHRASING, "A bone was given to it.", SOURCE).scores
        assert scores == {"grammar": 1.0, "bertscore": 0.5, "inv_bleu": 1.0, "v1": 0.5, "v2": 1.0}

    @pytest.mark.usefixtures("unchecked")
    def test_what_cannot_be_measured_is_absent_with_a_reason(self) -> None:
        """Neither 0 nor 1 is made up, and composites go with what they need."""
        scored = score(PARAPHRASING, "A bone was given to it.", SOURCE)
        assert scored.scores == {"inv_bleu": 1.0}
        assert set(scored.details["absent"]) == {"grammar", "bertscore", "v1", "v2"}
        assert "no LanguageTool server answers" in scored.details["absent"]["grammar"]
        assert "bertscore" in scored.details["absent"]["v1"]

    @pytest.mark.usefixtures("unchecked")
    def test_only_what_was_requested_is_said_to_be_absent(self) -> None:
        """v1 needs grammar and BERTScore; who requests v1 alone is told of v1 alone."""
        scored = score(PARAPHRASING, "A bone was given to it.", SOURCE, "v1")
        assert scored.scores == {}
        assert set(scored.details["absent"]) == {"v1"}

    @pytest.mark.usefixtures("unchecked")
    def test_what_is_not_asked_for_is_not_looked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Overlap alone needs neither a server nor a model, and says nothing of them."""
        monkeypatch.setattr(grammar, "checker", lambda: pytest.fail("asked for a server"))
        monkeypatch.setattr(semantic, "bert_scorer", lambda: pytest.fail("asked for a model"))
        assert score(PARAPHRASING, "A bone.", SOURCE, "inv_bleu") == Scored({"inv_bleu": 1.0})


class TestNowMeasurable:
    @pytest.mark.parametrize(
        ("here", "absent", "again"),
        [
            (
                {"grammar"},
                {"grammar": "not installed", "v1": "grammar: not installed", "v2": "grammar: x"},
                True,
            ),
            ({"grammar"}, {"v1": "grammar: not installed"}, True),
            ({"grammar"}, {"bertscore": "no model", "v1": "bertscore: no model"}, False),
            ({"bertscore"}, {"bertscore": "no model", "v1": "bertscore: no model"}, True),
            (set(), {"grammar": "not installed"}, False),
            (
                {"grammar", "bertscore"},
                {"nfe": "the model does not report it", "mine": "grammar: own words"},
                False,
            ),
        ],
    )
    def test_what_lacked_a_tool_that_is_here(
        self, here: set[str], absent: dict[str, str], again: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A record is worth another scoring if one of the tools that it lacked is here, its own or
        a composite's.
        """
        monkeypatch.setattr(
            text, "_TOOLS", {name: lambda n=name: n in here for name in ("grammar", "bertscore")}
        )
        assert now_measurable(absent, {}) is again

    def test_one_text_without_a_verdict_is_no_missing_tool(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where other answers have the score, another scoring would find the same."""
        monkeypatch.setattr(text, "_TOOLS", {"grammar": lambda: True})
        assert not now_measurable({"grammar": "LanguageTool answered 500"}, {"grammar": 0.5})


class TestFailureKind:
    @pytest.mark.parametrize(
        ("rule", "category", "kind"),
        [
            ("ENGLISH_WORD_REPEAT_RULE", "MISC", "repeated word"),
            ("EN_A_VS_AN", "MISC", "a/an disagreement"),
            ("HAVE_PART_AGREEMENT", "GRAMMAR", "broken verb group"),
            ("MD_BASEFORM", "GRAMMAR", "broken verb group"),
            ("MORFOLOGIK_RULE_EN_US", "TYPOS", "misspelling"),
            ("DOUBLE_PUNCTUATION", "PUNCTUATION", "punctuation"),
            ("A_NNS", "GRAMMAR", "other grammar"),
        ],
    )
    def test_kinds(self, rule: str, category: str, kind: str) -> None:
        """Rules are sorted into the kinds of the paper's Appendix H, and a few broader ones."""
        assert failure_kind(Match(rule, "", 0, 1, category)) == kind

    @pytest.mark.parametrize("first", range(7))
    def test_the_most_telling_kind_names_the_failure(
        self, monkeypatch: pytest.MonkeyPatch, first: int
    ) -> None:
        """Of several matches in one answer the one that parallel decoding causes most counts,
        wherever it stands.
        """
        telling = [
            ("repeated word", "ENGLISH_WORD_REPEAT_RULE", "MISC"),
            ("a/an disagreement", "EN_A_VS_AN", "MISC"),
            ("broken verb group", "MD_BASEFORM", "GRAMMAR"),
            ("misspelling", "MORFOLOGIK_RULE_EN_US", "TYPOS"),
            ("punctuation", "DOUBLE_PUNCTUATION", "PUNCTUATION"),
            ("casing", "UPPERCASE_SENTENCE_START", "CASING"),
            ("other grammar", "A_NNS", "GRAMMAR"),
        ][first:]
        found = tuple(
            Match(rule, "said so", 2, 3, category) for _, rule, category in reversed(telling)
        )
        monkeypatch.setattr(
            grammar, "checker", lambda: SimpleNamespace(check=lambda texts: [GrammarVerdict(found)])
        )
        kind, rule, _ = telling[0]
        details = score(WORDS_TO_SENTENCE, "A dog park.", WORDS, "grammar").details
        assert (details["failure"], details["why"]) == (kind, f"{kind} at 'dog': said so ({rule})")


class TestRegistry:
    def test_the_scorers_have_the_names_that_tasks_use(self) -> None:
        """Importing the module is what makes the text tasks scorable; a label of another task is
        refused by name.
        """
        assert [
            scorer(name) for name in ("words_to_sentence", "summarization", "paraphrasing")
        ] == [
            WORDS_TO_SENTENCE,
            SUMMARIZATION,
            PARAPHRASING,
        ]
        with pytest.raises(
            ValueError, match="text_writing/any, sample 0: its scorer needs a label with words"
        ):
            score(WORDS_TO_SENTENCE, "x", {"summary": "y"}, "inclusion")

"""Grammar verdicts: the checker's bookkeeping with a server made here, and real verdicts where
LanguageTool is installed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from pbcore.extras.check.agreement import agreement_rows
from pbcore.metrics import grammar
from pbcore.metrics.grammar import GrammarChecker, GrammarVerdict, verdict_cache
from pbcore.metrics.languagetool import LanguageToolUnavailable, Match
from pbcore.metrics.languagetool.server import UserServer
from pbcore.tasks.scenes import dialogues, paraphrases, word_sets
from tests.metrics import fake_java
from tests.reference import reference

ITEMS = 100


@pytest.fixture(scope="module")
def real() -> Iterator[GrammarChecker]:
    """LanguageTool itself, or a skip."""
    try:
        checker = grammar.checker()
        checker.server.url()
    except LanguageToolUnavailable as error:
        pytest.skip(str(error))
    yield checker
    grammar.stop()


class TestVerdict:
    def test_a_match_or_no_text_is_zero(self) -> None:
        """1 means that something was written and nothing found; no verdict is no number."""
        match = Match("RULE", "Message", 0, 1, "MISC")
        assert [
            GrammarVerdict().score,
            GrammarVerdict((match,)).score,
            GrammarVerdict(empty=True).score,
        ] == [
            1.0,
            0.0,
            0.0,
        ]
        assert GrammarVerdict(problem="too long").score is None


class TestChecker:
    def test_equal_texts_are_asked_once(self, url: str, tmp_path: Path) -> None:
        """Blanks around an answer don't make another text; every answer gets its verdict, in
        order.
        """
        verdicts = grammar.checker().check(["It is is.", " It is is.\n", "", "It is.", " "])
        assert [verdict.score for verdict in verdicts] == [0.0, 0.0, 0.0, 1.0, 0.0]
        assert sorted((tmp_path / "asked.log").read_text().splitlines()) == [
            '"It is is."',
            '"It is."',
        ]

    def test_problems_are_not_remembered(self, url: str, tmp_path: Path) -> None:
        """A text without a verdict is asked about again in the next run."""
        for _ in range(2):
            verdict = grammar.checker().check(["ERROR"])[0]
            assert verdict.score is None
            assert verdict.problem == "LanguageTool gave no verdict: Error: Internal Error"
        assert len((tmp_path / "asked.log").read_text().splitlines()) == 2

    def test_the_checker_is_the_processes_own(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One checker as long as the settings stay; another when they change; absent, with a
        reason, when nobody answers.
        """
        first = grammar.checker()
        assert grammar.checker() is first
        monkeypatch.setenv("PBCORE_LANGUAGETOOL_URL", "http://127.0.0.1:9")
        for _ in range(2):
            with pytest.raises(
                LanguageToolUnavailable,
                match=r"no LanguageTool server answers at http://127\.0\.0\.1:9/",
            ):
                grammar.checker()

    def test_other_servers_give_other_verdicts(self, url: str, tmp_path: Path) -> None:
        """A verdict in the cache counts for the version and rules that gave it, and no others."""
        cache = verdict_cache(tmp_path / "grammar.sqlite")
        for identity in ("6.8-a", "6.8-b", "6.8-a"):
            server = UserServer(url)
            server.identity = identity
            GrammarChecker(server, cache).check(["It is is."])
        assert (tmp_path / "asked.log").read_text().splitlines() == ['"It is is."'] * 2

    def test_a_users_server_that_goes_away_ends_grammar(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """What follows has the reason, without another try; what is cached keeps its verdict."""
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        http = fake_java.ThreadingHTTPServer(("127.0.0.1", 0), fake_java.Handler)
        threading.Thread(target=http.serve_forever, daemon=True).start()
        checker = GrammarChecker(
            UserServer(f"127.0.0.1:{http.server_port}"), verdict_cache(tmp_path / "grammar.sqlite")
        )
        assert checker.check(["One."])[0].score == 1.0
        http.shutdown()
        http.server_close()
        with pytest.raises(LanguageToolUnavailable, match="dropped the connection 3 times"):
            checker.check(["Two."])
        monkeypatch.setattr(checker.server, "url", lambda lost="": pytest.fail("tried again"))
        with pytest.raises(LanguageToolUnavailable, match="Two"):
            checker.check(["Three."])
        assert checker.check(["One."])[0].score == 1.0


@pytest.mark.languagetool
class TestRealVerdicts:
    def test_finds_what_parallel_decoding_breaks(self, real: GrammarChecker) -> None:
        """A doubled word and a wrong article are found where they stand."""
        texts = [
            "The man drinks drinks water.",
            "She gave an disrespectful answer.",
            "The man drinks water.",
        ]
        doubled, article, fine = real.check(texts)
        assert [
            (match.rule, texts[0][match.offset : match.offset + match.length])
            for match in doubled.matches
        ] == [("ENGLISH_WORD_REPEAT_RULE", "drinks drinks")]
        assert [match.rule for match in article.matches] == ["EN_A_VS_AN"]
        assert fine == GrammarVerdict()

    def test_agrees_with_the_published_verdicts(self, real: GrammarChecker) -> None:
        """Grammar, inclusion, unstemmed ROUGE-L and 1 − BLEU of real answers equal what was
        published, to 1e-6.
        """
        path = reference("golden", "real_outputs.jsonl")
        published = [json.loads(line) for line in path.read_text().splitlines()]
        rows = {row.metric: row for row in agreement_rows(path)}
        for metric in ("grammar", "inclusion", "rougeL", "inv_bleu"):
            assert rows[metric].differing == []
            assert rows[metric].equal == sum(entry[metric] is not None for entry in published) > 0

    def test_own_references_are_clean(self, real: GrammarChecker) -> None:
        """Every reference sentence, summary and paraphrase of the built-in text tasks passes, so
        that 1 can be reached.
        """
        texts = [
            row["example"]
            for level in ("easy", "medium", "hard")
            for row in islice(word_sets(level, split="test", seed=0), ITEMS)
        ]
        texts += [row["summary"] for row in islice(dialogues(split="test", seed=0), ITEMS)]
        for row in islice(paraphrases(split="test", seed=0), ITEMS):
            texts += [row["text"], *row["examples"]]
        found = {
            text: [match.rule for match in verdict.matches]
            for text, verdict in zip(texts, real.check(texts), strict=True)
        }
        assert {text: rules for text, rules in found.items() if rules} == {}

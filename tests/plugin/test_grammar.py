"""Text cells whose grammar can't be measured: without a server, and with one that is killed in
mid-run (a stand-in for Java).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pbcore
from pbcore.metrics import grammar
from tests.metrics import fake_java
from tests.plugin.conftest import Run

CELLS = (
    "--model",
    "speaker",
    "--sampler",
    "eb-0.1",
    "--limit",
    "2",
    "--task",
    "w2s_easy",
    "--task",
    "w2s_hard",
)


@pytest.fixture
def server(
    project: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """An installed LanguageTool; any text with POISON kills its process. The model says what is
    right.
    """
    for name, value in fake_java.install(tmp_path / "java").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PBCORE_LANGUAGETOOL_URL", raising=False)
    monkeypatch.setenv("SPEAKER_SAYS", "The dog runs.")
    grammar.stop()
    yield
    grammar.stop()


@pytest.fixture
def nothing(
    project: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """No LanguageTool."""
    for name in ("PBCORE_LANGUAGETOOL_URL", "LTP_JAR_DIR_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SPEAKER_SAYS", "The dog runs.")
    grammar.stop()
    yield
    grammar.stop()


@pytest.mark.usefixtures("server")
class TestServerThatDies:
    def test_grammar_is_absent_with_the_cause_and_the_gate_fails(
        self, run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run with a server makes the baseline; in the next one the server dies for good: the
        other scores are kept, and nothing that needs grammar passes in silence.
        """
        good = run(*CELLS, "--update-baseline b.json")
        good.assert_outcomes(passed=2)
        monkeypatch.setenv("SPEAKER_SAYS", "POISON")
        grammar.stop()
        result = run(
            *CELLS, "--task copy --gate b.json --floor '*/w2s_easy/* grammar>=0' --out out"
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        rows = pbcore.results.load(project.path / "out").set_index("task")
        assert set(rows["status"]) == {"ok"}
        for task in ("text_writing/w2s_easy", "text_writing/w2s_hard"):
            assert "did not start or died, 2 times" in rows.loc[task, "absent"]["grammar"]
            assert rows.loc[task, "inclusion"] == 0.0
        result.stdout.fnmatch_lines(["gate FAILED: not comparable with b.json (same weights): *"])


class TestNoServer:
    @pytest.mark.usefixtures("nothing")
    def test_what_was_not_measured_is_a_dash_with_a_footnote(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """--no-download: the cell runs, its score is missing, the reason stands under the table,
        and a floor on grammar is not met.
        """
        monkeypatch.setenv("PBCORE_NO_DOWNLOAD", "")
        result = run(*CELLS, "--no-download --floor '*/w2s_easy/* grammar>=0' --out out")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.assert_outcomes(passed=2, failed=1)
        result.stdout.fnmatch_lines(
            [
                "w2s_easy *–*",
                "  – not measured: grammar (LanguageTool is not installed: run `pbcore*",
                "floors BROKEN*",
            ]
        )

    @pytest.mark.usefixtures("nothing")
    def test_a_single_answer_is_skipped(self, run: Run) -> None:
        """In the drill-down: it can't be said whether it is right."""
        result = run(
            "--model speaker --sampler eb-0.1 --task w2s_easy --sample 1 --no-download -rs"
        )
        result.assert_outcomes(skipped=1)
        result.stdout.fnmatch_lines(
            ["SKIPPED * sample 1: grammar was not measured (*pbcore install languagetool*"]
        )

    @pytest.mark.usefixtures("nothing")
    def test_a_download_that_fails_costs_grammar_alone(
        self, run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Offline, what else was computed and scored is in the record, beside the reason."""
        monkeypatch.delenv("PBCORE_NO_DOWNLOAD")
        monkeypatch.setenv("PBCORE_MAVEN_REPOSITORY", "http://127.0.0.1:9")
        run(*CELLS, "--out out").assert_outcomes(passed=2)
        rows = pbcore.results.load(project.path / "out")
        assert rows["inclusion"].notna().all()
        for absent in rows["absent"]:
            assert (
                "LanguageTool 6.8 could not be downloaded from http://127.0.0.1:9 to "
                in absent["grammar"]
            )


class TestResume:
    def test_grammar_is_scored_once_it_can_be(
        self,
        nothing: None,
        run: Run,
        project: pytest.Pytester,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A resumed run scores the stored answers of cells that were measured without LanguageTool;
        answers and seconds stay as they are, and the next time there is nothing to do.
        """
        run(*CELLS, "--out out").assert_outcomes(passed=2)
        before = pbcore.results.load(project.path / "out")
        assert "grammar" not in before
        run(*CELLS, "--resume out").assert_outcomes(passed=2)
        assert "grammar" not in pbcore.results.load(project.path / "out")
        for name, value in fake_java.install(tmp_path / "java").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv(
            "SPEAKER_SAYS", "It is is."
        )  # a cell that is decoded again would say this
        run(*CELLS, "--resume out").assert_outcomes(passed=2)
        after = pbcore.results.load(project.path / "out")
        assert after["grammar"].tolist() == [1.0, 1.0]
        assert after["seconds"].tolist() == before["seconds"].tolist()
        assert not {key for absent in after["absent"] for key in absent} & {"grammar", "v1", "v2"}
        samples = pbcore.results.load_samples(project.path / "out").values()
        assert {sample.text for cell in samples for sample in cell} == {"The dog runs."}
        assert {sample.scores["grammar"] for cell in samples for sample in cell} == {1.0}
        asked = (tmp_path / "java" / "asked.log").read_text()
        run(*CELLS, "--resume out").assert_outcomes(passed=2)
        assert (tmp_path / "java" / "asked.log").read_text() == asked

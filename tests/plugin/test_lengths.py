"""`--n`: items of lists and words of word sets, own and official."""

from __future__ import annotations

from pathlib import Path

import pytest

import pbcore
from pbcore.metrics import grammar
from pbcore.tasks import load_task
from tests.plugin.conftest import Run
from tests.reference import reference

SPEAKER = ("--model", "speaker", "--sampler", "eb-0.1", "--out", "out")
WORDS = ("--task", "text_writing/w2s_*")


@pytest.fixture(autouse=True)
def no_grammar(project: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No LanguageTool: the word sets are scored for their words alone."""
    for name in ("PBCORE_LANGUAGETOOL_URL", "LTP_JAR_DIR_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SPEAKER_SAYS", "The dog threw a ball in the park.")
    grammar.stop()


def texts(project: pytest.Pytester) -> set[str]:
    samples = pbcore.results.load_samples(project.path / "out").values()
    return {sample.text for cell in samples for sample in cell}


class TestWordSets:
    def test_official_files_of_several_n(
        self, run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """--n 1,3 measures both files, in turns; the record says which n; --resume takes cells
        over, but not those of another n.
        """
        asked = ("--n", "1,3", "--data-dir", str(reference("official-v1-words")), "--limit", "4")
        run(*SPEAKER, *WORDS, *asked).assert_outcomes(passed=3)
        rows = pbcore.results.load(project.path / "out").set_index("task")
        assert set(rows["length"]) == {"1,3"}
        assert set(rows["data_source"]) == {"official"}
        assert set(rows["n"]) == {4}
        [samples] = [
            s
            for name, s in pbcore.results.load_samples(project.path / "out").items()
            if "w2s_easy" in name
        ]
        assert [sample.index for sample in samples] == [0, 1, 2, 3]
        assert [sample.scores["inclusion"] for sample in samples] == [
            1,
            1,
            0,
            0,
        ]  # dog; dog, park, ball; sun; sun, beach, water
        monkeypatch.setenv("SPEAKER_SAYS", "Something else.")
        run("--resume out", *SPEAKER[:-2], *WORDS, *asked).assert_outcomes(passed=3)
        assert texts(project) == {"The dog threw a ball in the park."}
        run(
            "--resume out", *SPEAKER[:-2], *WORDS, *asked, "--n 1,4 --resume-anyway"
        ).assert_outcomes(passed=3)
        assert texts(project) == {"Something else."}

    def test_one_sample_of_several_files(self, run: Run) -> None:
        """--sample takes the numbers of all files together: 25 lists of 4 in turns with 100 of 15,
        so 3 is the second of 15.
        """
        ideal = ("--model", "ideal", "--task", "shuffle", "--sampler", "random-k16", "--n", "4,15")
        official = ("--data-dir", str(reference("official-v1")))
        result = run(*ideal, *official, "--sample 3")
        result.assert_outcomes(failed=1)
        prompt = (
            load_task("waiting_line/shuffle", reference("official-v1"), n=15)
            .samples[1]
            .input["context"]
        )
        assert prompt[:40] in result.stdout.str()
        beyond = run(*ideal, *official, "--sample 125")
        assert "--sample 125: waiting_line/shuffle has samples 0 to 124" in beyond.stderr.str()

    def test_own_words(self, run: Run, project: pytest.Pytester) -> None:
        """Own sets take --n too; lists of the run take the same n."""
        run(*SPEAKER, "--task w2s_hard --task copy --n 5 --limit 2").assert_outcomes(passed=2)
        assert set(pbcore.results.load(project.path / "out")["length"]) == {"5"}

    def test_a_profile_keeps_its_words_beside_long_lists(self, run: Run) -> None:
        """--n 15 is for the lists, and no error for the word sets of the profile; it is one where
        --task names them.
        """
        assert run("--n 15 --co -q").ret == pytest.ExitCode.OK
        result = run("--n 15", *WORDS, "--co -q")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert (
            "text_writing/w2s_easy: n = 15; give an integer from 1 to 7 (words)"
            in result.stderr.str()
        )

    def test_an_n_without_a_file(self, run: Run) -> None:
        """There are no official sets of two words."""
        result = run(
            *WORDS, "--n 1,2", "--data-dir", str(reference("official-v1-words")), "--co -q"
        )
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "easy_n2.jsonl; files of this task" in result.stderr.str()

"""`pbcore list samplers` and the page that it writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import Tensor

from pbcore.cli import main
from pbcore.decoding import register_policy, resolve
from pbcore.decoding.catalog import GROUPS, described, samplers_table
from pbcore.decoding.policies import policies
from pbcore.decoding.step import Step
from pbcore.models.frequencies import load_frequencies, tokenizer_of
from tests.decoding.twins import ELSEWHERE, TWINS
from tests.models.checkpoints import llama_checkpoint

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"


def built_in() -> set[str]:
    return {name for name, cls in policies().items() if cls.__module__.startswith("pbcore.")}


def test_each_has_a_twin() -> None:
    """Each policy of the package is held against a slow twin, here or in tests named there."""
    held = {resolve(name).name.policy for name, _ in TWINS}
    assert built_in() == held | set(ELSEWHERE)
    for policy, file in ELSEWHERE.items():
        assert policy in (TESTS / file).read_text(encoding="utf-8"), (policy, file)


class TestList:
    def test_all_are_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Every policy with its kind and defaults."""
        assert main(["list", "samplers", "--details"]) == 0
        said = capsys.readouterr().out
        assert all(
            re.search(rf"^  {name}  \((unmasker|remasker|reviser)\)  ", said, re.MULTILINE)
            for name in built_in()
        )
        assert "gamma = 0.6, back = 0.9; arXiv 2507.18578; 1, with a shadow block per step" in said

    def test_one_line_each_by_what_is_read(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Under headings, with what to try first."""
        assert main(["list", "samplers"]) == 0
        parts = capsys.readouterr().out.split("\n\n")[0].split("\n")
        headings = [line for line in parts if not line.startswith("  ")]
        assert len(headings) == len(GROUPS)
        assert len(parts) == len(described()) + len(headings)
        assert parts.index("Attention:") < parts.index(
            next(line for line in parts if line.startswith("  dawn  "))
        )
        assert {
            item.group
            for item in described()
            if item.name in ("threshold", "meanfield", "joint", "spec")
        } == {
            "numbers",
            "distributions",
            "tokens",
            "what-if",
        }

    @pytest.mark.parametrize("options", [[], ["--details"]])
    def test_a_narrow_terminal(
        self,
        options: list[str],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """All of it in 80 columns, and nothing is left out."""
        assert main(["list", "samplers", *options]) == 0
        whole = capsys.readouterr().out
        monkeypatch.setenv("COLUMNS", "80")
        assert main(["list", "samplers", *options]) == 0
        narrow = capsys.readouterr().out
        assert max(map(len, narrow.splitlines())) <= 80
        assert narrow.split() == whole.split()

    def test_a_users_policy_is_described_by_its_fields(self, own_policies: None) -> None:
        """A parameter without a default by its name alone; without a docstring there is no rule to
        show.
        """

        @register_policy("mine")
        @dataclass(frozen=True)
        class Mine:
            gamma: float
            k: int | None = None
            low: float = 0.5

            def select(self, step: Step) -> Tensor:
                return step.masked

        Mine.__doc__ = None
        (mine,) = (item for item in described() if item.name == "mine")
        assert (mine.parameters, mine.rule) == (
            "gamma, k (by the rule), low = 0.5",
            "no description",
        )

    def test_facts(self) -> None:
        """Kinds follow from what a policy does, papers and state from its docstring."""
        facts = {item.name: item for item in described()}
        assert [
            facts[name].kind for name in ("threshold", "wino", "joint", "+rcr", "+remdmN-early")
        ] == [
            "unmasker",
            "remasker",
            "reviser",
            "remasker",
            "remasker",
        ]
        assert [facts[name].parameters for name in ("+rcr-max", "+remdmN")] == ["–", "N rounds"]
        assert facts["eb"].paper == "arXiv 2505.24857"
        assert facts["klass"].state == "each slot's last distribution and last divergences"
        assert facts["threshold"].state == "–"


class TestDocs:
    def test_the_tables_are_up_to_date(self, request: pytest.FixtureRequest) -> None:
        """docs/samplers.md has the tables that `pbcore list samplers --markdown` prints;
        --force-regen writes them.
        """
        file = DOCS / "samplers.md"
        page = file.read_text(encoding="utf-8")
        tables = samplers_table()
        # From the first heading to the last row before the next section.
        first = re.escape(tables.partition("\n")[0])
        shown = re.compile(rf"^{first}$(?:\n(?!## )[^\n]*)*\n\|[^\n]*", re.MULTILINE)
        if request.config.getoption("force_regen"):
            file.write_text(shown.sub(lambda found: tables, page), encoding="utf-8")
        assert tables in page, "add --force-regen to this test"


class TestFrequencies:
    def test_counts_a_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The tokens of a text file, under the model's own tokenizer."""
        folder = llama_checkpoint(tmp_path / "model")
        corpus = tmp_path / "corpus.txt"
        output = tmp_path / "table.json"
        corpus.write_text("abcd\nABCD\nabcd\n")
        assert (
            main(
                [
                    "list",
                    "samplers",
                    "--frequencies",
                    str(corpus),
                    "--model",
                    str(folder),
                    "--output",
                    str(output),
                ]
            )
            == 0
        )
        assert re.search(r"\d+ tokens, \d+ different ones", capsys.readouterr().out)
        tokenizer, size = tokenizer_of(str(folder))
        counted = load_frequencies(output, size)
        assert counted[tokenizer.piece("abcd")[0]] == 2 * counted[tokenizer.piece("ABCD")[0]] > 0

    def test_says_what_is_missing(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Without a model there is no tokenizer, without a file no table."""
        assert main(["list", "samplers", "--frequencies", "train"]) == 2
        assert "--model NAME" in capsys.readouterr().err

    def test_a_corpus_that_is_not_there(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A wrong path is named."""
        folder = llama_checkpoint(tmp_path / "model")
        assert (
            main(
                [
                    "list",
                    "samplers",
                    "--frequencies",
                    str(tmp_path / "no.txt"),
                    "--model",
                    str(folder),
                    "--output",
                    str(tmp_path / "t"),
                ]
            )
            == 2
        )
        assert "no.txt" in capsys.readouterr().err

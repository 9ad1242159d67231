"""pbcore.report.latex: tables of scores for LaTeX with booktabs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.report.answers import answers_alone
from pbcore.report.captions import proof_caption
from pbcore.report.headline import RunVerdicts
from pbcore.report.latex import latex_table, latex_text
from pbcore.report.scopes import scopes
from pbcore.report.tables import category_table, scores_table
from pbcore.results import CellRecord, SampleRecord, create
from tests.outputs.entries import stored
from tests.results import factory

TASKS = ("waiting_line/copy", "waiting_line/shuffle", "puzzle/sudoku")


def entries() -> list[tuple[CellRecord, list[SampleRecord]]]:
    """Two models, two samplers, three tasks; the faster sampler of each is worse on shuffle."""
    made = []
    for model in ("tiny", "my_model"):
        for task in TASKS:
            for k, right in ((1, 1.0), (2, 0.5 if task.endswith("shuffle") else 1.0)):
                sampler = f"confidence-k{k}"
                made.append(factory.cell(model, task, sampler, n=20, right=right, nfe=32 // k))
    return made


def scores() -> list[str]:
    """The lines of the table of all scores."""
    whole, _ = scopes(factory.rows(record for record, _ in entries()))
    return latex_table(scores_table(whole), "More.").splitlines()


def rows(lines: list[str]) -> list[list[str]]:
    """The entries between the rules."""
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    return [line.removesuffix(r" \\").split(" & ") for line in body]


class TestTable:
    def test_the_frame(self) -> None:
        """booktabs, names on the left and numbers on the right, tasks under their category."""
        lines = scores()
        assert lines[1:7] == [
            r"\begin{table}",
            r"\centering",
            r"\caption{Scores in \% [95 \% interval], n = 20 questions a cell. More.}",
            r"\begin{tabular}{llrrrrrr}",
            r"\toprule",
            r" &  &  &  &  & \multicolumn{2}{c}{waiting line} & \multicolumn{1}{c}{puzzle} \\",
        ]
        heads = r"model & sampler & mean & tokens/step & TPF & copy & shuffle & sudoku \\"
        assert lines[7] == heads
        assert lines[-3:] == [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
        assert not any(r"\hline" in line for line in lines)

    def test_entries(self) -> None:
        """Scores with their intervals; the best of each model in bold, also where several are."""
        first, second, third, _ = rows(scores())
        assert first == [
            "tiny",
            r"\texttt{confidence-k1}",
            r"\textbf{100.0} {\scriptsize[91--100]}",
            "1.00",
            "0.56",
            *[r"\textbf{100} {\scriptsize[84--100]}"] * 3,
        ]
        assert second[3:] == [
            r"\textbf{2.00}",
            r"\textbf{1.13}",
            r"\textbf{100} {\scriptsize[84--100]}",
            r"50 {\scriptsize[30--70]}",
            r"\textbf{100} {\scriptsize[84--100]}",
        ]
        assert third[0] == r"my\_model"
        assert r"\textbf" in third[2]

    def test_what_was_not_measured(self) -> None:
        """Its mark, never in bold."""
        kept = [record for record, _ in entries()][:-1]
        whole, _ = scopes(factory.rows(kept))
        last = rows(latex_table(scores_table(whole)).splitlines())[-1]
        assert (last[2], last[-1]) == ("--", r"$\cdot$")

    def test_a_single_row_has_no_best(self) -> None:
        """There is nothing to compare it with; another model has its own."""
        alone = factory.cell("alone")[0]
        whole, _ = scopes(factory.rows([alone]))
        assert r"\textbf" not in latex_table(scores_table(whole))
        whole, _ = scopes(factory.rows([alone, *(record for record, _ in entries())]))
        first, best, *_ = rows(latex_table(scores_table(whole)).splitlines())
        assert r"\textbf" not in " ".join(first)
        assert r"\textbf" in " ".join(best)

    def test_a_category(self) -> None:
        """Its caption says which; its own tasks alone."""
        _, (waiting, _) = scopes(factory.rows(record for record, _ in entries()))
        lines = latex_table(category_table(waiting)).splitlines()
        assert r"\caption{waiting line: scores in \% [95 \% interval], n = 20" in lines[3]
        assert [row[-1].startswith(r"\textbf") for row in rows(lines)] == [True, False] * 2


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"a_b & 50 % #1 {x} $5", r"a\_b \& 50 \% \#1 \{x\} \$5"),
        ("~x^2\\y", r"\textasciitilde{}x\textasciicircum{}2\textbackslash{}y"),
        ("7.6× – −1 a·b", r"7.6$\times$ -- $-$1 a$\cdot$b"),
        ("ü\n", r"ü\textbackslash{}n"),
    ],
)
def test_foreign_text(text: str, printed: str) -> None:
    """No sign of it is a command."""
    assert latex_text(text) == printed


class TestCaption:
    def test_the_test_and_its_outcome(self) -> None:
        """The lines of the verdict, for each model."""
        made = [entry for entry in entries() if entry[0].task != "waiting_line/shuffle"]
        cells = factory.rows(record for record, _ in made)
        verdicts = RunVerdicts(cells, map(answers_alone, stored(made)), {}).in_words()
        told = proof_caption(verdicts)
        assert told.startswith("Bold: the best of each model. Test over all tasks: each sampler")
        first = verdicts[0]
        assert f"{first.model}: " in told
        assert (first.lines[-1] if first.chosen else first.title) in told

    def test_without_a_verdict(self) -> None:
        """There was no test."""
        assert proof_caption([]) == "Bold: the best of each model."


class TestExport:
    def test_files(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A table of all tasks and one for each category; those that are written again say so."""
        run = factory.write(create(tmp_path, "a"), entries())
        words = ["export", str(run.path), "--latex", str(tmp_path / "tex")]
        for again in ("", " (rewritten)"):
            assert main(words) == 0
            assert capsys.readouterr().out.splitlines() == [
                f"{tmp_path / 'tex' / name}.tex{again}"
                for name in ("scores", "waiting_line", "puzzle")
            ]
        lines = (tmp_path / "tex" / "scores.tex").read_text(encoding="utf-8").splitlines()
        # models are sorted in a run
        assert sorted([*lines[:3], *lines[4:]]) == sorted([*scores()[:3], *scores()[4:]])
        assert re.search(r"caption\{.*Test over all tasks: .*tiny: ", lines[3])

    def test_a_category_of_any_name(self, tmp_path: Path) -> None:
        """It names no file outside the folder, and takes none from another."""
        tasks = ("a b\\..\\c/copy", "a-b-..-c/sort", "scores/reverse")
        cells = [factory.cell(task=task) for task in tasks]
        run = factory.write(create(tmp_path, "a"), cells)
        assert main(["export", str(run.path), "--latex", str(tmp_path / "tex")]) == 0
        names = sorted(path.name for path in (tmp_path / "tex").iterdir())
        assert names == ["a-b-..-c-2.tex", "a-b-..-c.tex", "scores-2.tex", "scores.tex"]

"""The page of a comparison: differences by cell, flips, both runs side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.analysis.compare import compare_runs
from pbcore.cli import main
from pbcore.report.comparison import comparison_text
from pbcore.report.page.compare import comparison_page
from pbcore.results import RunDir, create
from pbcore.results.load import load_stored
from tests.report.page.browsing import settled
from tests.report.page.conftest import Tab
from tests.report.page.films import filmed, run
from tests.report.page.test_write import Reader, data_of
from tests.results import factory


def two_runs(tmp_path: Path, n: int = 60) -> tuple[RunDir, RunDir]:
    """Run A has a cell in which 15 answers got worse and one got better, one that is the same, and
    one of its own.
    """
    sides = []
    for name, right in (("a", [0.0] * 15 + [1.0] * (n - 15)), ("b", [1.0] * (n - 1) + [0.0])):
        entries = [
            factory.cell(right=right, n=n),
            factory.cell(task="waiting_line/copy", right=1.0, n=n),
        ]
        if name == "a":
            entries.append(factory.cell(sampler="random-k2", n=n))
        sides.append(factory.write(create(tmp_path, name), [filmed(entry) for entry in entries]))
    return sides[0], sides[1]


def three_samplers(tmp_path: Path) -> Path:
    """A run of three samplers, of which one has nine answers wrong."""
    wrong = {"ar": 9, "confidence-k2": 0, "random-k2": 0}
    entries = [
        factory.cell(sampler=one, right=[float(i >= n) for i in range(20)])
        for one, n in wrong.items()
    ]
    return factory.write(create(tmp_path, "run"), [filmed(entry) for entry in entries]).path


def page_of(tmp_path: Path) -> str:
    a, b = two_runs(tmp_path)
    head = load_stored(a.path)
    base = load_stored(b.path)
    return comparison_page(compare_runs(head, base), head, base, (a.path, b.path))


class TestPage:
    def test_differences(self, tmp_path: Path) -> None:
        """Worst first: the difference with its interval and adjusted test, the flips, and what has
        no partner.
        """
        words = " ".join(" ".join(Reader(page_of(tmp_path)).text).split())
        assert (
            words.startswith("Differences comparison FAILED: ")
            or "comparison FAILED: changed from" in words
        )
        assert "2 of 3 cells compared: 1 changed, 1 the same; level 0.05" in words
        assert (
            "mean of 2 cells: B 99.2, A 87.5, difference -11.7, 95 % interval -18.7 to -5.3"
            in words
        )
        row = words[words.index("tiny confidence-k2 shuffle") :]
        assert row.startswith(
            "tiny confidence-k2 shuffle −23.3 [−36.0 to −12.1] ↓ 15 ↑ 1 changed – 98.3 75.0"
        )
        assert "random-k2 shuffle new: in A only" in words

    def test_changes_come_first(self, tmp_path: Path) -> None:
        """A cell that got better stands before those without a change, which are folded."""
        sides = []
        for name, share in (("a", 1.0), ("b", 0.4)):
            entries = [
                factory.cell(task=f"waiting_line/{task}", right=share if task == "sort" else 1.0)
                for task in ("copy", "reverse", "shuffle", "sort")
            ]
            sides.append(factory.write(create(tmp_path, name), entries))
        head, base = (load_stored(side.path) for side in sides)
        html = comparison_page(compare_runs(head, base), head, base, (sides[0].path, sides[1].path))
        first, _, fold = html.partition('<details data-fold="same">')
        assert first.count('<tr data-model="tiny"') == 1
        assert 'data-task="waiting_line/sort"' in first
        assert fold.count('<tr data-model="tiny"') == 3
        assert "3 cells with the same score of every answer" in fold

    def test_the_same_number_as_in_the_terminal(self, tmp_path: Path) -> None:
        """Halves go up in both, as in a run's own report."""
        sides = [
            factory.write(
                create(tmp_path, name),
                [factory.cell(right=[1.0] * right + [0.0] * (400 - right), n=400)],
            )
            for name, right in (("a", 361), ("b", 386))
        ]
        runs = [load_stored(side.path) for side in sides]
        comparison = compare_runs(runs[0], runs[1])
        html = comparison_page(comparison, runs[0], runs[1], (sides[0].path, sides[1].path))
        words = " ".join(" ".join(Reader(html).text).split())
        assert "−6.3 [" in words
        assert " 96.5 90.3 " in words
        assert " 96.5 90.3 -6.3 " in " ".join(comparison_text(comparison, "a", "b").split())

    def test_rows_beside_calls(self, tmp_path: Path) -> None:
        """Of both runs, where either forwarded what-if rows; other comparisons lack the columns."""
        sides = [
            factory.write(create(tmp_path, name), [factory.cell(nfe=nfe, rows=rows)])
            for name, nfe, rows in (("a", 8, 64), ("b", 16, None))
        ]
        head, base = (load_stored(side.path) for side in sides)
        html = comparison_page(compare_runs(head, base), head, base, (sides[0].path, sides[1].path))
        words = " ".join(" ".join(Reader(html).text).split())
        assert "NFE rows tokens/step tokens/row samples/s other conditions" in words
        assert "16.0 → 8.0 16.0 → 64.0 2.00 → 4.00 2.00 → 0.50" in words
        assert "neither is seconds" in words
        assert "tokens/row" not in page_of(tmp_path / "plain")

    def test_cells_name_their_partners(self, tmp_path: Path) -> None:
        """Each cell knows the other run's and which samples flipped."""
        cells = data_of(page_of(tmp_path))["cells"]
        shuffle = {
            cell["side"]: cell for cell in cells if cell["id"].endswith("shuffle/confidence-k2")
        }
        assert cells[shuffle["A"]["pair"]] is not shuffle["A"]
        assert (
            cells[shuffle["A"]["pair"]]["id"]
            == shuffle["B"]["id"]
            == "B:tiny/shuffle/confidence-k2"
        )
        assert (
            shuffle["A"]["flips"]
            == {"worse": list(range(15)), "better": [59]}
            == shuffle["B"]["flips"]
        )

    def test_command(self, tmp_path: Path) -> None:
        """`pbcore compare A B --html` writes it; B may be a baseline file, which has no answers."""
        a, b = two_runs(tmp_path)
        file = tmp_path / "out" / "page.html"
        assert main(["compare", str(a.path), str(b.path), "--html", str(file)]) == 1
        assert {cell["side"] for cell in data_of(file.read_text())["cells"]} == {"A", "B"}

    def test_two_samplers_of_one_run(self, tmp_path: Path) -> None:
        """Each side has the named sampler's cells alone; they name each other and what flipped."""
        path = three_samplers(tmp_path)
        page = tmp_path / "page.html"
        assert (
            main(
                [
                    "compare",
                    str(path),
                    str(path),
                    "--sampler",
                    "ar=confidence-k2",
                    "--html",
                    str(page),
                ]
            )
            == 1
        )
        cells = data_of(page.read_text())["cells"]
        assert [(cell["id"], cell["pair"]) for cell in cells] == [
            ("A:tiny/shuffle/ar", 1),
            ("B:tiny/shuffle/confidence-k2", 0),
        ]
        assert cells[0]["flips"] == {"worse": list(range(9)), "better": []} == cells[1]["flips"]
        words = " ".join(" ".join(Reader(page.read_text()).text).split())
        assert words.startswith("run, sampler ar against confidence-k2 · run")
        assert "tiny confidence-k2 → ar shuffle −45.0" in words

    def test_cells_without_a_partner(self, tmp_path: Path) -> None:
        """Several cells of A may have one partner; what neither name ever ran for a task is left
        out.
        """
        samplers = ("ar", "confidence-k2", "random-k2")
        entries = [factory.cell(sampler=one) for one in samplers] + [
            factory.cell(task="waiting_line/copy")
        ]
        path = factory.write(create(tmp_path, "run"), [filmed(entry) for entry in entries]).path
        run = load_stored(path)
        comparison = compare_runs(
            run, run, samplers={"ar": "confidence-k2", "random-k2": "confidence-k2"}
        )
        cells = data_of(comparison_page(comparison, run, run, (path, path)))["cells"]
        assert {
            (cell["id"], cells[cell["pair"]]["id"] if "pair" in cell else None) for cell in cells
        } == {
            ("A:tiny/shuffle/ar", "B:tiny/shuffle/confidence-k2"),
            ("A:tiny/shuffle/random-k2", "B:tiny/shuffle/confidence-k2"),
            ("B:tiny/shuffle/confidence-k2", "A:tiny/shuffle/ar"),
        }


@pytest.mark.slow
@pytest.mark.browser
class TestBrowser:
    def test_flips_side_by_side(self, tab: Tab, tmp_path: Path) -> None:
        """From the table to the flipped answers alone, then both runs' films under one slider."""
        file = tmp_path / "page.html"
        file.write_text(page_of(tmp_path))
        page = tab.page
        page.goto(file.as_uri())
        page.get_by_role("link", name="↓ 15 ↑ 1").click()
        settled(page)
        assert page.locator("#view tbody tr").count() == 16
        flips = page.locator("#view tbody td:nth-child(3)").all_inner_texts()
        assert (flips.count("↓ got worse"), flips.count("↑ got better")) == (15, 1)
        page.get_by_role("link", name="sample 3").click()
        settled(page)
        assert page.locator(".film h4").all_inner_texts() == [
            "A: tiny · confidence-k2",
            "B: tiny · confidence-k2",
        ]
        page.get_by_role("link", name="next ›").click()
        settled(page)
        assert page.locator("h3").inner_text().startswith("sample 4")
        page.get_by_label("beside it").select_option("")
        settled(page)
        assert page.locator(".film ol.canvas").count() == 1

    def test_axe(self, tab: Tab, tmp_path: Path) -> None:
        """axe finds nothing on it."""
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing"
        )
        file = tmp_path / "page.html"
        file.write_text(page_of(tmp_path))
        tab.page.goto(file.as_uri())
        assert [one["id"] for one in axe.Axe().run(tab.page).response["violations"]] == []


def test_no_shared_cells(tmp_path: Path) -> None:
    """Runs without a common cell have a page that says what each has."""
    a = run(tmp_path, "a")
    b = create(tmp_path, "b")
    entry = factory.cell("other")
    factory.write(b, [(replace(entry[0]), entry[1])])
    head = load_stored(a.path)
    base = load_stored(b.path)
    words = " ".join(
        Reader(comparison_page(compare_runs(head, base), head, base, (a.path, b.path))).text
    )
    assert "0 of 9 cells compared" in words
    assert "missing: in B only" in words

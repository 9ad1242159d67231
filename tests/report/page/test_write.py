"""report.html as a file: what reads without a script, how it is kept small and harmless, and when
it is written.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.links import docs
from pbcore.cli import main
from pbcore.report.page import write_page
from pbcore.report.page.html import read_element
from pbcore.report.page.write import page
from pbcore.report.report import read_report
from pbcore.results import create, error_cell
from pbcore.results.merge import merge
from pbcore.theory.ceiling import Ceiling
from tests.report.page.films import filmed, run
from tests.results import factory
from tests.results.damage import ODD_TEXTS

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "{{data}}",
    "\x1b[31m\u202e\x00",
    "=1+1",
)


class Reader(HTMLParser):
    """Tags, attributes and visible text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._hidden = False
        self.feed(html.replace("<wbr>", ""))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(data)


def data_of(html: str, name: str = "page") -> Any:
    data = read_element(html, name)
    assert data is not None
    return data


class TestStatic:
    def test_tables_read_without_a_script(self, tmp_path: Path) -> None:
        """Scores with intervals, rates, PBx and AUP stand in the HTML itself."""
        html = write_page(run(tmp_path).path).read_text(encoding="utf-8")
        words = " ".join(" ".join(Reader(html).text).split())
        assert "tiny confidence-k2 50.0 [28–72] 4.00 2.25 8.0" in words
        assert (
            "tiny threshold 1 2.00 2.00 2.00 2.00 –" in words
        )  # PB90 … PB60; a single point has no area
        assert "– under AUP: an area needs two points at least." in words
        assert "tiny confidence 1 – – – – –" in words
        assert (
            "– under PB90, PB80, PB70, PB60: no sampler of the policy reached that score." in words
        )
        assert "waiting line" in words

    def test_ceilings(self, tmp_path: Path) -> None:
        """Cells whose ceiling is known have it beside their score, and the bits lost; other runs
        lack the columns.
        """
        cell, samples = factory.cell(n=4)
        known = replace(cell, ceiling=Ceiling(0.375, "exact", 0.375, 0.375), bits_lost=1.25)
        pages = [
            write_page(factory.write(create(tmp_path, name), [(one, samples)]).path).read_text(
                encoding="utf-8"
            )
            for name, one in (("a", known), ("b", cell))
        ]
        words = [" ".join(" ".join(Reader(html).text).split()) for html in pages]
        assert "tiny confidence-k2 100.0 [51–100] 37.5 1.25 2.00" in words[0]
        assert "ceiling" not in words[1]
        assert "bits lost" not in words[1]

    @pytest.mark.parametrize(
        ("model", "command"),
        [
            ("tiny", "pytest tiny/copy/random-k3 --limit 20"),
            (
                "mü [1]\n",
                r"pytest 'mü [1]\x0a/copy/random-k3' --limit 20",
            ),
        ],
    )
    def test_the_command_of_a_cell(self, tmp_path: Path, model: str, command: str) -> None:
        """Is one word for a shell, with line breaks escaped as in node ids."""
        entries = [factory.cell(model, "waiting_line/copy", "random-k3")]
        html = write_page(factory.write(create(tmp_path, "a"), entries).path)
        [shown] = data_of(html.read_text(encoding="utf-8"))["cells"]
        assert dict(shown["facts"])["run it again"] == command

    def test_rows_beside_calls(self, tmp_path: Path) -> None:
        """A run with what-if rows has tokens per row and rows in its tables, points and cells;
        others lack them.
        """
        asking = factory.cell(sampler="spec-8", n=4, rows=64)
        pages = [
            write_page(factory.write(create(tmp_path, name), entries).path).read_text(
                encoding="utf-8"
            )
            for name, entries in (("a", [asking, factory.cell(n=4)]), ("b", [factory.cell(n=4)]))
        ]
        words = [" ".join(" ".join(Reader(html).text).split()) for html in pages]
        assert "spec-8 100.0 [51–100] 2.00 1.13 0.50 16.0 64.0" in words[0]
        assert "confidence-k2 100.0 [51–100] 2.00 1.13 2.00 16.0 16.0" in words[0]
        assert "neither is seconds, which depend on the machine" in words[0]
        axes = [[axis["key"] for axis in data_of(html)["points"]["axes"]] for html in pages]
        assert ["rows" in keys for keys in axes] == [True, False]
        facts = {cell["sampler"]: dict(cell["facts"]) for cell in data_of(pages[0])["cells"]}
        assert (facts["spec-8"]["rows"], facts["spec-8"]["tokens/row"]) == ("64.00", "0.50")
        assert "rows" not in facts["confidence-k2"]
        assert "tokens/row" not in words[1]

    def test_the_verdict_comes_first(self, tmp_path: Path) -> None:
        """Before the curves, so that a narrow screen and a reader aloud have it first."""
        html = write_page(run(tmp_path).path).read_text()
        places = [
            html.index(part) for part in ('class="heads"', 'class="curves"', 'id="at=scores"')
        ]
        assert places == sorted(places)

    def test_blame_leads_to_answers(self, tmp_path: Path) -> None:
        """Cells without a wrong answer are counted, not listed; the others' samplers are links."""
        entries = []
        for sampler, right in (("confidence-k1", 1.0), ("confidence-k2", 0.0)):
            verdict = "together" if right == 0 else None
            entries.append(
                factory.blamed(factory.cell(sampler=sampler, n=4, right=right), [verdict] * 4)
            )
        html = write_page(factory.write(create(tmp_path, "a"), entries).path).read_text()
        part = html[html.index('data-fold="Why wrong"') :]
        part = part[: part.index("</details>")]
        assert re.findall(r'<a href="([^"]*)">', part) == ["#cell=tiny/shuffle/confidence-k2"]
        assert "Left out: 1 cell in which no answer is wrong." in part

    def test_links_lead_to_cells(self, tmp_path: Path) -> None:
        """Every cell of the run has its address in the tables."""
        html = write_page(run(tmp_path).path).read_text(encoding="utf-8")
        links = {attrs["href"] for tag, attrs in Reader(html).tags if tag == "a"}
        assert {f"#cell={cell['id']}" for cell in data_of(html)["cells"]} <= links

    def test_what_is_missing_and_why(self, tmp_path: Path) -> None:
        """Failed cells, absent scores and tasks that were not run are named where the mean would
        stand.
        """
        good, samples = factory.cell(n=4)
        failed = error_cell(
            factory.cell(task="waiting_line/copy")[0], "OSError: no such checkpoint"
        )
        unscored = replace(
            good,
            id="g",
            task="waiting_line/sort",
            headline="grammar",
            scores={},
            absent={"grammar": "no Java"},
        )
        other = factory.cell(sampler="random-k2", n=4)
        entries = [(good, samples), (failed, []), (unscored, samples), other]
        html = write_page(factory.write(create(tmp_path, "a"), entries).path).read_text(
            encoding="utf-8"
        )
        words = " ".join(" ".join(Reader(html).text).split())
        assert "copy could not be run: OSError: no such checkpoint" in words
        assert "sort grammar not measured: no Java" in words
        assert "sort, copy not run" in words or "copy, sort not run" in words
        # the verdict comes first
        assert html.index('<article class="card') < html.index('id="at=not measured, and notes"')

    def test_a_run_of_nothing_but_errors(self, tmp_path: Path) -> None:
        """It has a page that says so."""
        entry = error_cell(factory.cell()[0], "RuntimeError: out of memory"), []
        html = write_page(factory.write(create(tmp_path, "a"), [entry]).path).read_text(
            encoding="utf-8"
        )
        assert "RuntimeError: out of memory" in " ".join(Reader(html).text)

    def test_a_failed_cell_sorts_without_its_score(self, tmp_path: Path) -> None:
        """Its entry says `error`, and by that it stands, though its record holds a score."""
        cell, samples = factory.cell(right=0.8)
        made = factory.write(
            create(tmp_path, "a"), [(replace(cell, status="error", error="killed"), samples)]
        )
        html = write_page(made.path).read_text(encoding="utf-8")
        assert re.findall(r'data-v="([^"]*)" data-task="waiting_line/shuffle"', html) == ["", ""]

    def test_dummies_are_left_out(self, tmp_path: Path) -> None:
        """Random weights have no scores in the tables."""
        entries = [factory.cell(n=3), factory.cell("dummy", n=3, dummy=True)]
        html = write_page(factory.write(create(tmp_path, "a"), entries).path).read_text(
            encoding="utf-8"
        )
        assert "dummy: random weights, so its scores are left out" in " ".join(Reader(html).text)
        assert not any(attrs.get("data-model") == "dummy" for _, attrs in Reader(html).tags)


@pytest.fixture(scope="module")
def plain_tags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The elements of a page without hostile text."""
    cell, samples = filmed(factory.cell(n=2))
    failed = error_cell(replace(cell, id="e", task="waiting_line/copy"), "x")
    made = factory.write(
        create(tmp_path_factory.mktemp("plain"), "a"), [(cell, samples), (failed, [])]
    )
    return [tag for tag, _ in Reader(write_page(made.path).read_text(encoding="utf-8")).tags]


class TestSelfContained:
    def test_no_request(self, tmp_path: Path) -> None:
        """No address but data: and links within the page; the policy forbids all others and names
        the style and the script by their digests.
        """
        html = write_page(run(tmp_path).path).read_text(encoding="utf-8")
        for tag, attrs in Reader(html).tags:
            assert "src" not in attrs, tag
            leads = attrs.get("href") or "#"
            assert leads.startswith(("#", "data:,")) or (tag, leads) == ("a", docs("results.md"))
        policy = next(
            a["content"]
            for tag, a in Reader(html).tags
            if a.get("http-equiv") == "Content-Security-Policy"
        )
        assert policy is not None
        assert policy.startswith("default-src 'none'; ")
        for tag in ("script", "style"):
            (inner,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
            assert base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode() in policy

    def test_size(self, tmp_path: Path) -> None:
        """A run too big for its page has its wrong answers there, and the page says what it leaves
        out.
        """
        made = run(tmp_path, n=100)
        report = read_report([made.path])
        sizes = {}
        for size in (350_000, 10**7):
            html = page(report, size=size)
            sizes[size] = len(html)
            shown, total = map(
                int, re.search(r'name="answers" content="(\d+)/(\d+)"', html).groups()
            )  # type: ignore[union-attr]
            assert total == 800
            assert ('<p class="note">This file holds' in html) == (shown < total)
        assert shown == total
        assert sizes[350_000] <= sizes[10**7]

    @pytest.mark.parametrize("text", [*HOSTILE, *ODD_TEXTS])
    def test_hostile_text(self, tmp_path: Path, text: str, plain_tags: list[str]) -> None:
        """Whatever names, answers, errors and prompts hold, the page has the same elements and its
        data are whole.
        """
        cell, samples = filmed(factory.cell(n=2))
        hostile = [
            factory.failing(
                text,
                replace(cell, model=text, id=f"{text}/shuffle/s", absent={"grammar": text}),
                [
                    replace(one, text=text, tokens=[text, text], details={"why": text})
                    for one in samples
                ],
            ),
            (
                error_cell(
                    replace(cell, id=f"e{text}", task="waiting_line/copy", model=text), text or "x"
                ),
                [],
            ),
        ]
        html = write_page(factory.write(create(tmp_path, "b"), hostile).path).read_text(
            encoding="utf-8"
        )
        tags = [tag for tag, _ in Reader(html).tags]
        assert set(plain_tags) >= set(tags)
        assert plain_tags.count("script") == tags.count("script")
        number = next(i for i, one in enumerate(data_of(html)["cells"]) if one["n"])
        assert data_of(html, "answers")["answers"][number][0].get("why", "") == text
        assert all(not name.startswith("on") for _, attrs in Reader(html).tags for name in attrs)


class TestWhenWritten:
    def test_report(self, tmp_path: Path) -> None:
        """`pbcore report -o` writes the page anew from what is kept, samples and prompts
        included.
        """
        made = run(tmp_path)
        assert main(["report", str(made.path), "-o", str(tmp_path / "out")]) == 0
        html = (tmp_path / "out" / "report.html").read_text()
        own = write_page(made.path).read_text(encoding="utf-8")
        assert data_of(html) == {**data_of(own), "where": "../a"}
        packed = re.compile(r'id="page">[^<]*<')
        assert packed.sub("", html) == packed.sub("", own)

    def test_runs_side_by_side(self, tmp_path: Path) -> None:
        """Cells that two runs share stand under both names, each with its own answers."""
        runs = [run(tmp_path, name) for name in "ab"]
        assert main(["report", *(str(one.path) for one in runs), "-o", str(tmp_path / "out")]) == 0
        data = data_of((tmp_path / "out" / "report.html").read_text())
        ids = [cell["id"] for cell in data["cells"]]
        assert len(ids) == len(set(ids)) == 16
        assert {cell["model"] for cell in data["cells"]} == {
            f"{m} of {r}" for m in ("ideal", "tiny") for r in "ab"
        }
        assert all(cell["n"] == 6 and cell["questions"] >= 0 for cell in data["cells"])

    def test_results_without_samples(self, tmp_path: Path) -> None:
        """A file that a CI kept has a page with tables alone."""
        made = run(tmp_path)
        made.assemble()
        assert main(["report", str(made.path / "results.json"), "-o", str(tmp_path / "out")]) == 0
        assert data_of((tmp_path / "out" / "report.html").read_text())["cells"] == []

    def test_merge(self, tmp_path: Path) -> None:
        """The merged run has its page, with the prompts of its parts."""
        made = run(tmp_path)
        assert main(["merge", str(made.path), "-o", str(tmp_path / "all")]) == 0
        assert data_of((tmp_path / "all" / "report.html").read_text(), "answers")["questions"]

    def test_questions_are_packed(self, tmp_path: Path) -> None:
        """What all prompts of a task share stands once, and they can be put together again."""
        made = run(tmp_path)
        html = write_page(made.path).read_text()
        data = data_of(html) | data_of(html, "answers")
        assert len(data["questions"]) == 2
        from pbcore.tasks import load_task

        asked = load_task("waiting_line/copy", limit=6)
        number = next(c["questions"] for c in data["cells"] if c["task"] == "waiting_line/copy")
        questions = data["questions"][number]
        assert len(questions["before"]) > 100
        for sample in asked.samples:
            own = questions["of"][str(sample.index)]
            assert questions["before"] + own["prompt"] + questions["after"] == sample.prompt
            assert (own["label"], own["only"]) == (sample.answer, True)


def test_questions_that_were_not_kept(tmp_path: Path) -> None:
    """They are made again where the data is here, with the settings of run.json; others have
    none.
    """
    made = run(tmp_path)
    whole = data_of(write_page(made.path).read_text(), "answers")["questions"]
    shutil.rmtree(made.path / "questions")
    assert data_of(write_page(made.path).read_text(), "answers")["questions"] == whole
    entry = filmed(factory.cell("tiny", "waiting_line/copy", data_hash="0" * 64))
    other = factory.write(create(tmp_path, "other"), [entry]).path
    assert data_of(write_page(other).read_text(), "answers")["questions"] == []


def test_merging_is_not_disturbed(tmp_path: Path) -> None:
    """Two shards with the same questions merge to one file of them a task."""
    runs = [run(tmp_path, name) for name in "ab"]
    merged = merge([one.path for one in runs], tmp_path / "all")
    assert len(list((merged.path / "questions").iterdir())) == 2

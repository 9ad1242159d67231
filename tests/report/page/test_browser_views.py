"""report.html in a real browser: plots, the table of all answers, what can be taken away."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.report.page import write_page
from pbcore.results import RunDir, create
from tests.report.page.browsing import CELL, column, opened, settled, until
from tests.report.page.conftest import Tab
from tests.report.page.films import filmed, run
from tests.report.page.test_browser import FIRST, HOSTILE
from tests.report.page.test_view import served
from tests.results import factory

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LISTED = "document.documentElement.dataset.listed === location.hash"


def listed(tab: Tab, address: str) -> Any:
    page = opened(tab, address)
    until(page, LISTED)
    return page


class TestFilters:
    def test_a_task_alone(self, tab: Tab, tmp_path: Path) -> None:
        """Verdict, plot and scores are those of the task, and the means of all tasks are away;
        without the filter they are as before.
        """
        entries = [
            factory.cell(task=task, sampler=sampler, right=right, n=n, nfe=nfe)
            for task, n in (("waiting_line/copy", 8), ("waiting_line/shuffle", 24))
            for sampler, right, nfe in (
                ("confidence-k1", 1.0, 32),
                ("random-k2", 1.0 if "copy" in task else 0.5, 8 if "copy" in task else 16),
            )
        ]
        address = write_page(factory.write(create(tmp_path, "a"), entries).path).as_uri()
        page = opened(tab, address)
        heat = "table.heat >>"
        assert page.locator("table.means").is_visible()
        before = page.locator("table.heat").inner_text()
        points = page.locator("figure.first-plot .dot")
        assert "mean of 2 tasks" in points.last.get_attribute("aria-label")
        assert "score 75.0" in page.locator(".card:visible").inner_text()
        page.locator("#filter-task").select_option("waiting_line/shuffle")
        settled(page)
        rows = page.locator("table.heat tbody tr").all_inner_texts()
        assert [row.split() for row in rows] == [
            ["tiny", "confidence-k1", "100"],
            ["tiny", "random-k2", "50"],
        ]
        assert not page.locator("table.means").is_visible()
        assert "50.0 % [31–69], 2 tokens per step" in points.last.get_attribute("aria-label")
        card = page.locator(".card:visible").inner_text()
        assert "score 12 against 24 of 24" in card
        assert "75.0" not in card
        page.get_by_role("button", name="show all").click()
        settled(page)
        assert page.locator("table.heat").inner_text() == before
        assert column(page, heat, 2) == ["100.0", "75.0"]

    def test_further_columns(self, tab: Tab, address: str) -> None:
        """One measure of speed stands in front, the others on demand; CSV has what is shown."""
        page = opened(tab, address)
        head = page.locator("table.means thead tr").last
        before = head.inner_text().split("\t")
        rates = [name for name in before if "NFE" in name or "/" in name or name == "TPF"]
        assert rates == ["tokens/step", "TPF"]
        part = page.locator("section", has=page.locator("table.means"))
        part.get_by_role("button", name="more columns").click()
        after = head.inner_text()
        assert all(name in after for name in ("TPF", "NFE", "samples/s"))

    def test_order_and_variety_keeps_its_task(self, tab: Tab, tmp_path: Path) -> None:
        """Its rows, and those on factors, have the task's own name, by which the page filters."""
        entries = [
            factory.cell(task=task, right=[1.0, 0.0] * 4, seeds=2)
            for task in ("waiting_line/copy", "waiting_line/shuffle")
        ]
        told = [
            (replace(cell, decoding={"distinct": 1.5, "pass_at": {"1": 0.5}}), samples)
            for cell, samples in entries
        ]
        address = write_page(factory.write(create(tmp_path, "a"), told).path).as_uri()
        page = opened(tab, f"{address}#task=waiting_line/copy")
        for title in ("Order and variety", "What changes with each factor"):
            section = page.locator("details.further", has=page.locator("h3", has_text=title))
            section.locator("summary").first.click()
            until(page, "location.hash.includes('open=')")
            rows = section.locator("tbody tr:visible")
            assert rows.count() == 1
            assert rows.locator("td").first.inner_text() == "copy"
        names = page.locator("#filter-task option").all_inner_texts()
        assert sorted(names) == ["all", "waiting_line/copy", "waiting_line/shuffle"]

    def test_a_sampler_in_plots_too(self, tab: Tab, two_categories: str) -> None:
        """Its points stay, without lines to others; tables of policies, whose points they divide,
        are away.
        """
        page = opened(tab, f"{two_categories}#sampler=threshold-0.9")
        plot = page.locator("figure.plot").first
        assert plot.locator(".dot:visible").count() == 2
        assert plot.locator("svg.plot-area .line").count() == 0
        assert set(column(page, "table.means >>", 1)) == {"threshold-0.9"}
        assert page.locator("table.policies:visible").count() == 0

    def test_sorting_stands_in_the_address(self, tab: Tab, two_categories: str) -> None:
        """A page with its address is sorted alike."""
        page = opened(tab, f"{two_categories}#model=tiny")
        page.get_by_role("button", name="more columns").first.click()
        page.locator("table.means thead th[data-key=nfe]").locator("button").click()
        assert page.url.endswith("#model=tiny&sort=figures.1~5~up")
        other = opened(tab, page.url.replace("~up", "~down"))
        other.reload()
        settled(other)
        assert column(other, "table.means >>", 5) == ["16.0", "8.0"]

    def test_links_keep_filters(self, tab: Tab, two_categories: str) -> None:
        """From a filtered page into a cell and by its link back."""
        page = opened(tab, f"{two_categories}#model=tiny&at=waiting_line")
        page.locator(FIRST).first.click()
        settled(page)
        page.get_by_role("link", name="← all cells").click()
        settled(page)
        assert page.locator("#filter-model").input_value() == "tiny"


class TestPlot:
    def test_points_tell_their_figures(self, tab: Tab, two_categories: str) -> None:
        """Beside their mark, pointed at or focused; arrow keys go on to the next."""
        page = opened(tab, two_categories)
        figure = page.locator("figure.first-plot")
        dot = figure.locator(".dot").first
        dot.focus()
        told = figure.locator(".tip")
        assert told.inner_text().splitlines()[:3] == [
            "ideal confidence-k2",
            "50.0 % [32–68], mean of 3 tasks",
            "4 tokens per step",
        ]
        mark, box = dot.locator(".mark").bounding_box(), told.bounding_box()
        gap = max(box["x"] - mark["x"] - mark["width"], mark["x"] - box["x"] - box["width"])
        assert 0 < gap < 20
        assert box["y"] < mark["y"] < box["y"] + box["height"]
        page.keyboard.press("ArrowRight")
        assert "ideal threshold-0.9" in told.inner_text()

    def test_intervals_are_drawn(self, tab: Tab, two_categories: str) -> None:
        """Each point's, without pointing at it."""
        plot = opened(tab, two_categories).locator("figure.first-plot svg.plot-area")
        assert plot.locator(".bar").count() == plot.locator(".dot").count() == 4

    def test_axes(self, tab: Tab, two_categories: str) -> None:
        """Those that cells have can be chosen, in all plots; they stand in the address."""
        page = opened(tab, two_categories)
        options = page.locator("#axis-x option").all_inner_texts()
        assert options[0] == "tokens per step"
        assert "forwards per answer" in options
        assert "tokens per row" not in options  # no cell has what-if rows
        page.locator("#axis-x").select_option("nfe")
        assert page.url.endswith("#x=nfe")
        figure = page.locator("figure.first-plot")
        assert figure.locator(".axis").first.text_content() == "forwards per answer"
        dot = figure.locator(".dot").first
        dot.focus()
        assert "8 forwards per answer" in figure.locator(".tip").inner_text()
        page.reload()
        settled(page)
        assert page.locator("#axis-x").input_value() == "nfe"
        assert figure.locator(".axis").first.text_content() == "forwards per answer"
        page.locator("#axis-y").select_option("tokens_per_step")
        assert figure.locator("svg.plot-area .bar").count() == 0  # intervals are those of scores

    def test_the_front_follows_the_axis(self, tab: Tab, tmp_path: Path) -> None:
        """Fewer forwards are better: the front of one axis is not that of the other."""
        entries = [
            factory.cell(sampler=name, right=right, n=20, nfe=nfe)
            for name, right, nfe in (("a-k1", 1.0, 32), ("b-k1", 0.5, 8), ("c-k1", 0.3, 16))
        ]
        page = opened(tab, write_page(factory.write(create(tmp_path, "a"), entries).path).as_uri())
        front = page.locator("figure.first-plot svg.plot-area .front")
        assert front.get_attribute("d").count(",") == 2
        page.locator("#axis-x").select_option("nfe")
        assert front.get_attribute("d").count(",") == 2

    def test_linear_axis(self, tab: Tab, two_categories: str) -> None:
        """Ticks stand at equal distances, and the address says so; and back."""
        page = opened(tab, two_categories)
        ticks = page.locator("figure.first-plot .tick")
        names = "(all) => all.map((one) => Number(one.dataset.x))"
        before = ticks.evaluate_all(names)
        page.get_by_role("button", name="linear axis").click()
        assert page.url.endswith("#scale=linear")
        linear = ticks.evaluate_all(names)
        steps = {round(b - a, 6) for a, b in pairwise(linear)}
        assert len(steps) == 1
        page.get_by_role("button", name="linear axis").click()
        assert ticks.evaluate_all(names) == before

    def test_legend_switches_lines(self, tab: Tab, two_categories: str) -> None:
        """A line goes and comes again in all plots, and the address says so."""
        page = opened(tab, two_categories)
        figure = page.locator("figure.first-plot")
        shown = figure.locator(".dot:visible").count()
        figure.get_by_role("button", name="tiny · threshold").click()
        assert figure.locator(".dot:visible").count() == shown - 1
        assert "#off=" in page.url
        page.reload()
        settled(page)
        assert figure.locator(".dot:visible").count() == shown - 1
        figure.get_by_role("button", name="tiny · threshold").click()
        assert figure.locator(".dot:visible").count() == shown
        assert "off" not in page.url

    def test_folds_stand_in_the_address(self, tab: Tab, two_categories: str) -> None:
        """A fold that was opened is open where its address is."""
        page = opened(tab, two_categories)
        page.locator("details.category summary", has_text="puzzle").first.click()
        until(page, "location.hash.includes('open=')")
        other = opened(tab, page.url)
        other.reload()
        settled(other)
        assert other.locator("details.category[open] h2").all_inner_texts() == ["puzzle"]
        assert other.locator("details.category[open] .matrix").is_visible()

    def test_the_chosen_sampler_is_named(self, tab: Tab, tmp_path: Path) -> None:
        """A ring and the words of the model's card."""
        entries = [
            factory.cell(sampler=name, right=1.0, n=100, nfe=nfe)
            for name, nfe in (("confidence-k1", 32), ("threshold-0.9", 6))
        ]
        page = opened(tab, write_page(factory.write(create(tmp_path, "a"), entries).path).as_uri())
        assert page.locator("figure.first-plot .chosen-name").text_content() == "use threshold-0.9"
        assert page.locator(".card .use code").inner_text() == "threshold-0.9"
        assert page.locator("figure.first-plot .chosen").count() == 1
        assert column(page, "table.heat:has(.best)", 1) == ["confidence-k1", "threshold-0.9"]
        assert page.locator("table.heat tr.best th").all_inner_texts() == ["threshold-0.9"]

    def test_fifty_series(self, tab: Tab, tmp_path: Path) -> None:
        """Twelve are seen, the others on demand."""
        entries = [
            factory.cell(sampler=f"random-k1+b{b}", right=b / 50, n=50, nfe=16)
            for b in range(1, 51)
        ]
        page = opened(tab, write_page(factory.write(create(tmp_path, "a"), entries).path).as_uri())
        figure = page.locator("figure.first-plot")
        assert figure.locator(".dot:visible").count() == 12
        figure.get_by_text("38 more curves").click()
        figure.locator("details li button", has_text="random+b7").first.click()
        assert figure.locator(".dot:visible").count() == 13


class TestAnswers:
    def test_all_in_one_table(self, tab: Tab, address: str) -> None:
        """Counted, searched and filtered, each state in the address."""
        page = listed(tab, f"{address}#answers=all")
        count = page.locator("#view .note").first
        assert count.inner_text() == "48 of 48 answers"
        page.locator("#answers-only").select_option("wrong")
        until(page, LISTED)
        assert count.inner_text() == "12 of 48 answers"
        page.locator("#answers-q").fill("no such text")
        until(page, "location.hash.includes('q=')")
        until(page, LISTED)
        assert count.inner_text() == "0 of 48 answers"
        assert page.url.endswith("#answers=all&only=wrong&q=no%20such%20text")
        page.reload()
        until(page, LISTED)
        assert page.locator("#answers-q").input_value() == "no such text"

    def test_by_kind_and_model(self, tab: Tab, address: str) -> None:
        """Kinds of failure as the records name them, beside the page's own filters."""
        page = listed(tab, f"{address}#answers=all&model=tiny&kind=item%20missing")
        assert page.locator("#view .note").first.inner_text() == "6 of 24 answers"
        assert set(column(page, "#view table", 6)) == {"item missing"}
        page.locator("#filter-task").select_option("waiting_line/copy")
        settled(page)
        until(page, LISTED)
        assert page.locator("#view .note").first.inner_text() == "3 of 12 answers"

    def test_right_under_one_wrong_under_another(self, tab: Tab, address: str) -> None:
        """Each opens beside the right one."""
        page = listed(
            tab, f"{address}#answers=all&right=threshold-0.9&wrong=confidence-k2&model=tiny"
        )
        assert set(column(page, "#view table", 2)) == {"confidence-k2"}
        assert set(column(page, "#view table", 3)) == {"✗ wrong"}
        page.locator("#view tbody td:nth-child(3) a").first.click()
        settled(page)
        assert page.locator("section h4").all_inner_texts()[-2:] == [
            "tiny · confidence-k2: ✗ wrong",
            "tiny · threshold-0.9: ✓ right",
        ]

    def test_a_question_under_all_samplers(self, tab: Tab, address: str) -> None:
        """With its prompt and label, and what differs from the label."""
        page = opened(tab, f"{address}{CELL}&sample=0")
        page.get_by_role("link", name="this question under all samplers").click()
        settled(page)
        until(page, LISTED)
        assert column(page, "#view table", 0) == ["shuffle 0"] * 4
        assert "prompt" in page.locator("dl.question").inner_text()
        wrong = page.locator("#view tbody tr", has_text="✗ wrong").first
        assert wrong.locator("ins").count()
        assert wrong.locator("del").count()

    def test_exact_confidences(self, tab: Tab, address: str) -> None:
        """Every token's, to read."""
        page = opened(tab, f"{address}{CELL}&sample=1")
        page.get_by_text("All tokens with their confidences").click()
        rows = page.locator("details table tbody tr:visible")
        assert rows.nth(0).inner_text().split() == ["0", '["', "1", "0.900"]

    def test_hostile_answers(self, tab: Tab, tmp_path: Path) -> None:
        """Texts, kinds, reasons and names that are code are text in the table and in its diff,
        too.
        """
        cell, samples = factory.cell(n=len(HOSTILE), right=0.0)
        told = [
            replace(one, text=bad, details={"why": bad, "failure": [bad]})
            for one, bad in zip(samples, HOSTILE, strict=True)
        ]
        kinds = dict.fromkeys(HOSTILE, 1)
        bad = replace(
            cell,
            sampler=HOSTILE[1],
            model=HOSTILE[0],
            id="tiny/x",
            failures=dict(sorted(kinds.items())),
        )
        page = listed(
            tab,
            write_page(factory.write(create(tmp_path, "a"), [(bad, told)]).path).as_uri()
            + "#answers=all",
        )
        assert page.locator("#view tbody tr").count() == len(HOSTILE)
        assert HOSTILE[0] in page.locator("#view tbody").inner_text()
        assert page.evaluate("window.hit") is None
        assert page.locator("#view img, #view script").count() == 0
        assert all(url.startswith("file:") for url in tab.requests)

    def test_emoji_stay_whole(self, tab: Tab, tmp_path: Path) -> None:
        """A family is one sign; a joiner between letters is shown."""
        cell, samples = factory.cell(n=2, right=1.0)
        texts = ("👨‍👩‍👧‍👦 👩🏽‍💻", "a\u200db")
        told = [replace(one, text=text) for one, text in zip(samples, texts, strict=True)]
        page = listed(
            tab,
            write_page(factory.write(create(tmp_path, "a"), [(cell, told)]).path).as_uri()
            + "#answers=all",
        )
        assert column(page, "#view table", 7) == [texts[0], "aU+200Db"]


SAMPLERS = ("confidence-k2", "random-k2", "threshold-0.9")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run whose page has room for some of its 720 answers; two tasks, two seeds."""
    made = create(tmp_path_factory.mktemp("crowded"), "a")
    entries = [
        filmed(
            factory.cell(
                task=task,
                sampler=sampler,
                right=[float((7 * i + 3 * place) % 10 >= 4 - place) for i in range(120)],
                seeds=2,
            )
        )
        for task in ("waiting_line/copy", "waiting_line/shuffle")
        for place, sampler in enumerate(SAMPLERS)
    ]
    drawn = random.Random(0)
    long = []
    for cell, samples in entries:  # texts that hardly get smaller
        texts = [replace(sample, text=drawn.randbytes(200).hex()) for sample in samples]
        long.append((cell, texts))
    factory.write(made, long).assemble()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pbcore.report.page.data.LEAST", 60_000)
        patch.setattr("pbcore.report.page.write.SIZE", 0)
        write_page(made.path)
    return made


def right_and_wrong(run: RunDir, right: str, wrong: str, task: str = "") -> set[tuple[str, ...]]:
    """(task, index, seed) of answers right under one sampler and wrong under another, as
    samples.jsonl has them.
    """
    verdicts: dict[tuple[str, ...], dict[str, bool]] = defaultdict(dict)
    for line in (run.path / "samples.jsonl").read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        _, name, sampler = sample["cell"].split("/")
        place = (name, str(sample["index"]), str(sample["seed"]))
        verdicts[place][sampler] = sample["scores"]["accuracy"] == 1
    return {
        place
        for place, known in verdicts.items()
        if known[right] and not known[wrong] and task in (place[0], "")
    }


class TestCounts:
    @pytest.mark.parametrize(
        ("task", "pairs"), [("", [(0, 2), (2, 0)]), ("shuffle", [(1, 0)])], ids=["all", "one"]
    )
    def test_right_and_wrong_as_in_the_samples(
        self, tab: Tab, crowded: RunDir, task: str, pairs: list[tuple[int, int]]
    ) -> None:
        """The page counts every answer of the run, also those whose texts it leaves out, as the
        served page does.
        """
        file = (crowded.path / "report.html").as_uri()
        only = f"&task=waiting_line/{task}" if task else ""
        with served(crowded.path) as server:
            for right, wrong in pairs:
                names = (SAMPLERS[right], SAMPLERS[wrong])
                expected = right_and_wrong(crowded, *names, task)
                assert expected
                view = f"#answers=all&right={names[0]}&wrong={names[1]}{only}"
                of = 120 if task else 240
                for address in (file, server):
                    page = listed(tab, f"{address}{view}")
                    count = page.locator("#view .note").first.inner_text()
                    assert count.startswith(f"{len(expected)} of {of} answers")
                    assert ("are not in this file" in count) <= (address == file)
                    more = page.get_by_role("button", name="show more")
                    if more.is_visible():
                        more.click()
                    places = [tuple(text.split()) for text in column(page, "#view table", 0)]
                    assert sorted(places) == sorted(place[:2] for place in expected)

    def test_some_texts_are_left_out(self, tab: Tab, crowded: RunDir) -> None:
        """Their rows have a verdict and say so; a search that needs texts says what it left out."""
        file = (crowded.path / "report.html").as_uri()
        page = listed(tab, f"{file}#answers=all&only=right")
        count = page.locator("#view .note").first.inner_text()
        samples = (crowded.path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
        right = sum(json.loads(line)["scores"]["accuracy"] == 1 for line in samples)
        assert count.startswith(f"{right} of 720 answers (the texts of ")
        row = page.locator("#view tbody tr", has_text="not in this file").first
        assert "✓ right" in row.inner_text()
        page = listed(tab, f"{file}#answers=all&q=Ann")
        count = page.locator("#view .note").first.inner_text()
        assert "more could not be searched, as their texts are not in this file: pbcore" in count

    def test_choices_of_a_cell(self, tab: Tab, crowded: RunDir) -> None:
        """A cell's choices count what is here and what there is."""
        page = opened(tab, f"{(crowded.path / 'report.html').as_uri()}{CELL}")
        first, wrong = page.locator("#view select option").all_inner_texts()
        held = page.locator("#view tbody tr").count()
        assert first == f"all ({held} of 120)"
        samples = [
            json.loads(line)
            for line in (crowded.path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        own = [one for one in samples if one["cell"] == CELL.removeprefix("#cell=")]
        count = sum(one["scores"]["accuracy"] == 0 for one in own)
        assert wrong.endswith(f"{count})")

    def test_two_samplers_of_a_comparison(self, tab: Tab, crowded: RunDir, tmp_path: Path) -> None:
        """Each is on a side of its own; their answers are counted against each other."""
        a, b = SAMPLERS[0], SAMPLERS[2]
        page_file = tmp_path / "page.html"
        words = ["compare", str(crowded.path), str(crowded.path), "--sampler", f"{b}={a}"]
        main([*words, "--html", str(page_file)])
        page = listed(tab, f"{page_file.as_uri()}#answers=all&right={a}&wrong={b}")
        expected = len(right_and_wrong(crowded, a, b))
        count = page.locator("#view .note").first.inner_text()
        assert count.startswith(f"{expected} of 240 answers")


class TestTakeAway:
    def test_csv(self, tab: Tab, tmp_path: Path) -> None:
        """What is shown, with texts that a spreadsheet would calculate quoted."""
        entries = [factory.cell("=HYPERLINK(1)", n=4), factory.cell(n=4)]
        page = opened(tab, write_page(factory.write(create(tmp_path, "a"), entries).path).as_uri())
        part = page.locator("section", has=page.locator("table.means")).last
        part.locator(".take summary").click()
        with page.expect_download() as download:
            part.get_by_role("button", name="CSV").click()
        assert download.value.suggested_filename == "a-figures.csv"
        head, first, *_ = Path(download.value.path()).read_text().splitlines()
        columns = '"model","sampler","mean score %","mean score % low","mean score % high"'
        assert head.startswith(f'{columns},"tokens/step"')
        assert first.startswith('"\'=HYPERLINK(1)","confidence-k2","100","51.0109","100","2"')

    def copied(self, page: Any, take: Any, button: str) -> str:
        """What a button of a fold copies."""
        page.evaluate(
            "document.execCommand = () => { window.copied = document.activeElement.value; return"
            " true; }"
        )
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        page.evaluate("delete window.copied")
        take.locator("summary").click()
        take.get_by_role("button", name=button).click()
        until(page, "window.copied !== undefined")
        text: str = page.evaluate("window.copied")
        return text

    def test_markdown(self, tab: Tab, address: str) -> None:
        """Copied as text that others read."""
        page = opened(tab, address)
        part = page.locator("section", has=page.locator("table.means")).last
        lines = self.copied(page, part.locator(".take"), "copy Markdown").splitlines()
        assert lines[0].startswith("| model | sampler | mean score % |")
        assert lines[1].startswith("| --- | --- |")
        assert lines[2].startswith("| ideal | confidence-k2 | 50.0 [28–72] |")

    def test_latex_is_that_of_the_command(self, tab: Tab, tmp_path: Path) -> None:
        """`pbcore export --latex` writes what the button copies, of all scores and a category."""
        tasks = ("waiting_line/copy", "waiting_line/shuffle", "puzzle/a_task & more")
        made = [
            factory.cell(model, task, sampler, n=12, right=right, nfe=nfe)
            for model, task, (sampler, right, nfe) in product(
                ("tiny", "my_model"),
                tasks,
                (("confidence-k1", 1.0, 32), ("threshold-0.9", 0.6, 7), ("random-k2", 0.35, 16)),
            )
        ][:-1]
        run_dir = factory.write(create(tmp_path, "a"), made).path
        page = opened(tab, write_page(run_dir).as_uri())
        main(["export", str(run_dir), "--latex", str(tmp_path / "tex")])
        page.locator(".category summary").first.click()
        for name, table in {"scores": "table.heat", "waiting_line": "table.matrix"}.items():
            behind = "xpath=ancestor::div[1]/following-sibling::details[@class='take'][1]"
            take = page.locator(table).first.locator(behind)
            text = self.copied(page, take, "copy LaTeX")
            assert text == (tmp_path / "tex" / f"{name}.tex").read_text(encoding="utf-8")

    def test_plots(self, tab: Tab, address: str) -> None:
        """SVG that stands alone, and PNG."""
        page = opened(tab, address)
        page.locator("figure.first-plot .take summary").click()
        found = {}
        for kind in ("SVG", "PNG"):
            with page.expect_download() as download:
                page.locator("figure.first-plot").get_by_role("button", name=kind).click()
            found[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
        assert found["a-mean-over-2-tasks.png"].startswith(b"\x89PNG")
        svg = found["a-mean-over-2-tasks.svg"].decode()
        assert "var(--" not in svg
        assert "tiny · threshold" in svg


def test_the_hint_works_from_anywhere(
    tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that leaves answers out names its run by the path where it is read."""
    monkeypatch.setattr("pbcore.report.page.data.LEAST", -1)
    monkeypatch.setattr("pbcore.report.page.write.SIZE", 0)
    made = run(tmp_path, "it's a run", n=30)
    page = opened(tab, write_page(made.path).as_uri())
    assert page.locator("code.hint").inner_text() == f"pbcore view '{tmp_path}/it'\\''s a run'"

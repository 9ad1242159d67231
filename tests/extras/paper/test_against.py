"""pbcore.extras.paper.against: scores beside published figures."""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd
import pytest

from pbcore.extras.paper import published
from pbcore.extras.paper.against import BesidePublished, against, shared_differences
from pbcore.extras.paper.published import read_published
from pbcore.report.rows import CellRow
from tests.reference import bundled
from tests.results import factory

figures = cache(published.figures)  # read once; nobody changes a table
SOURCES = {"llada-1.5": "GSAI-ML/LLaDA-1.5", "dream-7b": "Dream-org/Dream-v0-Instruct-7B"}


def ours(**facts: Any) -> list[CellRow]:
    return factory.rows(
        [factory.cell(**{"model": "llada-1.5", "sampler": "confidence-k2", "n": 100, **facts})[0]]
    )


def of(rows: list[BesidePublished], source: str) -> list[BesidePublished]:
    return [row for row in rows if row.source == source]


class TestFigures:
    def test_they_are_those_that_were_published(self) -> None:
        """The package's figures equal the reference's files, value by value."""
        own = figures()
        keys = ["model", "task", "sampler", "prompts"]
        for name in ("paper_tables.csv", "parallelbench_v2.csv"):
            theirs = read_published(bundled(name))
            assert theirs is not None
            mine = own[own["prompts"] == theirs["prompts"].iloc[0]]
            mine = mine[mine["published_by"].isna()]
            columns = [
                c for c in theirs.columns if c in mine.columns and theirs[c].dtype == "float64"
            ]
            columns = [c for c in columns if theirs[c].notna().any() and c != "output_length"]
            assert {"accuracy", "grammar", "score"} <= set(columns)
            one, other = (table.set_index(keys).sort_index()[columns] for table in (mine, theirs))
            pd.testing.assert_frame_equal(
                one, other, check_exact=False, rtol=1e-4, check_index_type=False
            )

    def test_without_the_reference(self) -> None:
        """LLaDA 1.5 on shuffle: 19 % in Table 5 ... and Tables 6 and 7 have the other
        categories.
        """
        paper = figures()
        paper = paper[paper["prompts"] == "v1"]
        assert sorted(paper["table"].unique()) == [5, 6, 7]
        assert paper["model"].nunique() == 11
        assert paper["task"].nunique() == 17


NAMES = {  # the paper's name → checkpoints that it stands for
    "LLaDA": ["GSAI-ML/LLaDA-8B-Instruct"],
    "LLaDA 1.5": ["GSAI-ML/LLaDA-1.5"],
    "Dream 7B": ["Dream-org/Dream-v0-Instruct-7B"],
    "DiffuCoder": ["apple/DiffuCoder-7B-Instruct", "apple/DiffuCoder-7B-cpGRPO"],
    "Qwen2.5 3B": ["Qwen/Qwen2.5-3B-Instruct"],
    "Qwen2.5 7B": ["Qwen/Qwen2.5-7B-Instruct"],
    "Qwen3 4B": ["Qwen/Qwen3-4B"],
    "Llama 3.1 8B": ["meta-llama/Llama-3.1-8B-Instruct"],
    "Llama 3.2 3B": ["meta-llama/Llama-3.2-3B-Instruct"],
}


def test_the_official_site() -> None:
    """A model that neither the paper's tables nor the rewrite's runs have at this sampler."""
    cells = ours(model="llada-8b", sampler="threshold-0.9+prefix", task="waiting_line/copy")
    (row,) = against(cells, figures(), {"llada-8b": "GSAI-ML/LLaDA-8B-Instruct"})
    assert (row.source, row.theirs) == ("official site", 1.0)
    assert row.their_tokens_per_step == pytest.approx(8.0, rel=0.5)


class TestNames:
    @pytest.mark.parametrize(
        ("name", "source"), [(name, source) for name, all in NAMES.items() for source in all]
    )
    def test_the_papers_names(self, name: str, source: str) -> None:
        """Each checkpoint finds the paper's figures of its name alone; two tokens a step for
        diffusion models, one token after the other for the rest.
        """
        sampler = "confidence-k2" if name in list(NAMES)[:4] else "ar"
        rows = of(
            against(ours(model="mine", sampler=sampler), figures(), {"mine": source}),
            "paper, Table 5",
        )
        assert {row.published_model for row in rows} == {name}
        other = "ar" if sampler != "ar" else "confidence-k2"
        assert (
            of(
                against(ours(model="mine", sampler=other), figures(), {"mine": source}),
                "paper, Table 5",
            )
            == []
        )

    def test_api_models_match_by_as_alone(self) -> None:
        """What Mercury and Claude were then is not what their names stand for now."""
        rest = set(figures()[lambda table: table["prompts"] == "v1"]["model"]) - NAMES.keys()
        mercury, claude = sorted(rest, key=lambda name: "Mercury" not in name)
        for name, sampler in ((mercury, "server"), (claude, "ar")):
            assert (
                against(ours(model="mine", sampler=sampler), figures(), {"mine": name.lower()})
                == []
            )
            rows = against(ours(model="mine", sampler=sampler), figures(), {}, {"mine": name})
            assert {row.published_model for row in rows} == {name}


class TestMatch:
    def test_by_source_of_the_checkpoint(self) -> None:
        """The paper's name and the rewrite's hub id both stand for our model; the difference is
        ours minus theirs.
        """
        rows = against(ours(right=0.5), figures(), SOURCES)
        [paper] = of(rows, "paper, Table 5")
        rewrite = of(rows, "2026 rewrite")
        assert (paper.published_model, paper.metric, paper.n) == ("LLaDA 1.5", "accuracy", 100)
        assert {row.published_model for row in rewrite} == {"GSAI-ML/LLaDA-1.5"}
        assert paper.difference == pytest.approx(0.5 - paper.theirs)
        assert paper.low < 0.5 < paper.high
        assert paper.outside == (not paper.low <= paper.theirs <= paper.high)

    @pytest.mark.parametrize(
        ("sampler", "sources"),
        [
            ("confidence-k2+dual", {"paper, Table 5", "2026 rewrite"}),
            ("confidence-k2+b8", set()),
            ("confidence-k2+t1.0", set()),
            ("threshold-0.9", {"2026 rewrite"}),
            ("threshold-1", {"2026 rewrite"}),
            ("factor-1.0-ref", {"2026 rewrite"}),
            ("factor-1.0", set()),
            ("ar", set()),
        ],
    )
    def test_by_sampler(self, sampler: str, sources: set[str]) -> None:
        """A cache doesn't prevent a match, blocks and temperatures do; the paper's tables have two
        tokens a step.
        """
        rows = against(ours(sampler=sampler), figures(), SOURCES)
        assert {row.source for row in rows} == sources

    def test_autoregressive_models(self) -> None:
        """They match the paper's with the sampler `ar`, by the hub id as a model's name too."""
        rows = against(ours(model="Qwen/Qwen3-4B", sampler="ar"), figures(), {})
        assert [row.published_model for row in rows] == ["Qwen3 4B"]

    def test_a_name_given_for_a_model(self) -> None:
        """A checkpoint folder may be one of theirs; unknown names are refused with those that
        exist.
        """
        cells = ours(model="my-folder")
        assert against(cells, figures(), {}) == []
        [joined] = of(against(cells, figures(), {}, {"my-folder": "LLaDA 1.5"}), "paper, Table 5")
        assert joined.differs[0] == "model: ours is my-folder, by --as"
        [mercury] = against(
            ours(model="mercury", sampler="server"), figures(), {}, {"mercury": "Mercury"}
        )
        assert mercury.published_model == "Mercury"
        assert not against(ours(model="mercury", sampler="server"), figures(), {})
        with pytest.raises(
            ValueError, match=r"no model 'nobody' in these runs; they have my-folder"
        ):
            against(cells, figures(), {}, {"nobody": "LLaDA 1.5"})
        with pytest.raises(
            ValueError, match=r"no model 'LLaDA 9' in the published figures; they have LLaDA, "
        ):
            against(cells, figures(), {}, {"my-folder": "LLaDA 9"})

    def test_scores_of_text(self) -> None:
        """Each metric that both have; the rewrite's ROUGE-L is beside ours without stemmer."""
        record, _ = factory.cell(
            model="llada-1.5",
            task="text_writing/summarization",
            headline="rouge_l",
            right=[0.4, 0.5] * 50,
        )
        scores = {**record.scores, "rouge_l_unstemmed": record.scores["rouge_l"]}
        record.scores.update(scores)
        rows = against(factory.rows([record]), figures(), SOURCES)
        assert [row.metric for row in of(rows, "paper, Table 6")] == ["rouge_l"]
        assert [row.metric for row in of(rows, "2026 rewrite")] == ["rouge_l_unstemmed"]


class TestHonesty:
    def test_what_differs(self) -> None:
        """Own data of other lengths and numbers, caches and prompts are named; what is equal is
        not.
        """
        rows = against(
            ours(sampler="confidence-k2+dual", n=16, length="3-6", right=1.0), figures(), SOURCES
        )
        [paper] = of(rows, "paper, Table 5")
        assert paper.differs == (
            "data: ours own, theirs official",
            "length: ours n = 3-6, theirs n = 15",
            "samples: ours 16, theirs 100",
            "cache: ours dual, theirs not published",
        )
        [theirs] = of(rows, "2026 rewrite")
        assert "prompts: ours v1, theirs rewrite-2026" in theirs.differs
        assert not any(note.startswith("length") for note in theirs.differs)

    def test_the_same_questions(self) -> None:
        """Official data of n = 15 leaves only the cache, which no table names."""
        rows = against(ours(data_source="official", length="15"), figures(), SOURCES)
        assert of(rows, "paper, Table 5")[0].differs == ("cache: ours none, theirs not published",)

    def test_text_after_the_first_eos(self) -> None:
        """The official code scores it; we only with --official-text."""
        cells = ours(task="text_writing/w2s_easy", headline="grammar", data_source="official")
        note = "text: ours up to the first EOS, theirs the whole canvas (--official-text)"
        assert note in of(against(cells, figures(), SOURCES), "paper, Table 6")[0].differs

    def test_counted_by_source(self) -> None:
        """A note stands once, with the number of rows that it holds for."""
        cells = [*ours(), *ours(task="waiting_line/copy", length="15")]
        notes = shared_differences(of(against(cells, figures(), SOURCES), "paper, Table 5"))[
            "paper, Table 5"
        ]
        assert next(iter(notes.items())) == ("data: ours own, theirs official", 2)
        assert notes["length: ours n = unknown, theirs n = 15"] == 1

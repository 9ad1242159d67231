"""What a cell of a model behind a server knows of its requests, and what they cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pbcore.extras.servers import plugin
from pbcore.extras.servers.model import Session
from pbcore.extras.servers.reply import AnswerStore
from pbcore.extras.servers.spec import ServerSpec
from pbcore.plugin import rundir
from tests.plugin.fakes import Config

ROW = {"key": "k", "text": "a", "seconds": 1.0, "asked": "2026-01-01T00:00:00", "outcomes": []}


class TestPlugin:
    def answers(self, **facts: Any) -> Session:
        spec = ServerSpec("mine", "m", "http://h/v1")
        return Session(spec, AnswerStore(None), 8, **{"asked": 4, "seconds": 2.5, **facts})

    def test_forwards_by_the_servers_counters(self) -> None:
        """Over the requests of this cell; unknown where answers were kept, none were asked for, or
        nothing counted.
        """
        steps = {"denoising_steps": 20.0, "committed_tokens": 60.0}
        counted = self.answers(counters=steps)
        assert counted.rates() == {"nfe_mean": 5.0, "tokens_per_forward": 3.0}
        assert list(counted.absent()) == ["tokens_per_step"]
        assert (
            self.answers(counters={"denoising_steps": 20.0}).rates()["tokens_per_forward"] is None
        )
        for facts in (
            {"kept": 1},
            {"asked": 0},
            {"counters": {"denoising_steps": 0.0}},
            {"counters": {}},
        ):
            unknown = self.answers(**{"counters": steps, **facts})
            assert (unknown.rates(), "tokens_per_step" in unknown.absent()) == ({}, False)

    def test_kept_answers_have_no_time(self) -> None:
        """The reason counts them."""
        assert self.answers().rounds() == [2.5]
        assert self.answers(kept=1).rounds() == []
        assert self.answers(kept=3).absent() == {
            "seconds": "3 of 7 answers were kept from an earlier run"
        }
        assert self.answers().absent() == {}

    def test_what_was_spent(self, tmp_path: Path) -> None:
        """Answers beside the cells, with their cost where it is known; without answers there is no
        line.
        """
        config: Any = Config(tmp_path, out=tmp_path / "out")
        run = rundir.run_dir(config)
        assert plugin.pytest_pbcore_summary(config) == []
        run.cells_dir.mkdir(parents=True)
        for number, costs in enumerate(([0.25, None], [0.5])):
            rows = "".join(
                json.dumps({**ROW, "key": f"k{place}", "cost": cost}) + "\n"
                for place, cost in enumerate(costs)
            )
            run.answers_file(f"cell{number}").write_text(rows)
        kept = plugin.kept_answers(run.cells_dir)
        assert [(len(file.replies), sum(file.costs)) for file in kept] == [(2, 0.25), (1, 0.5)]
        assert plugin.pytest_pbcore_summary(config) == [
            f"3 answers of servers kept in {run.cells_dir}, 0.7500 USD by the declared prices"
        ]

    def test_free_answers_name_no_price(self, tmp_path: Path) -> None:
        """Without declared prices their cost is not known."""
        config: Any = Config(tmp_path, out=tmp_path / "out")
        run = rundir.run_dir(config)
        run.cells_dir.mkdir(parents=True)
        run.answers_file("cell").write_text(json.dumps({**ROW, "cost": None}) + "\n")
        assert plugin.pytest_pbcore_summary(config) == [
            f"1 answer of servers kept in {run.cells_dir}"
        ]

    def test_a_limit_is_one_for_all_workers(self, tmp_path: Path) -> None:
        """Kept in the run's directory, but in the drill-down, which writes nothing."""
        assert plugin._budget(Config(tmp_path)) is None  # type: ignore[arg-type]
        assert plugin._budget(Config(tmp_path, out=tmp_path / "a", max_cost=1.0)) is not None  # type: ignore[arg-type]
        assert (tmp_path / "a" / "cells").is_dir()
        drilled: Any = Config(tmp_path, out=tmp_path / "b", max_cost=1.0, drilled=True)
        assert plugin._budget(drilled) is not None
        assert not (tmp_path / "b").exists()

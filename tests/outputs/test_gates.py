"""A gate that passed, one that failed and one that was refused, wherever it is told, whole."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import pytest

from pbcore.analysis.run_verdict import judge_run
from pbcore.cli import main
from pbcore.grid.plan import make_plan
from pbcore.grid.settings import Settings
from pbcore.report.markdown import report_text
from pbcore.report.page import write_page
from tests.analysis.toys import rerun_command
from tests.outputs.entries import FACTS, Check, Entry, readable, written
from tests.results import factory

LOST = {
    ("shuffle", "threshold-0.9"): (1, 4, 6, 7),
    ("copy", "confidence-k2"): (3, 7),
    ("copy", "threshold-0.9"): (3, 7),
    ("shuffle", "confidence-k2"): (1,),
}
OTHER = {"digest": "w2", "weights": "w2"}


def cells(lost: Iterable[tuple[str, str]] = (), **facts: object) -> list[Entry]:
    """Two tasks under two samplers, eight answers each; those of `lost` have wrong ones."""
    return [
        factory.cell(
            "tiny",
            f"waiting_line/{task}",
            sampler,
            [float(index not in wrong or (task, sampler) not in lost) for index in range(8)],
            **facts,  # type: ignore[arg-type]
        )
        for (task, sampler), wrong in LOST.items()
    ]


class TestGate:
    @pytest.mark.parametrize(
        ("outcome", "run"),
        [
            ("passed", cells([("shuffle", "confidence-k2")], model_identity=OTHER)),
            ("failed", cells(LOST, model_identity=OTHER)),
            ("repeatable", cells(LOST)),
            ("refused", cells(seed=1)),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_told(
        self,
        same: Check,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        outcome: str,
        run: list[Entry],
    ) -> None:
        """Terminal, gate.md, JUnit, report.md, page and `pbcore compare`, one after the other."""
        monkeypatch.chdir(tmp_path)
        written(tmp_path, cells(), "base")
        head = written(tmp_path, run, "run")
        plan = make_plan(Settings(model=("tiny",), task=("copy",), gate=(Path("base"),)))
        ruling = judge_run(plan, head.read(), True, rerun_command, print)
        facts = FACTS | {"gate": ruling.text}
        head.write_run(facts)
        report = report_text(factory.report((record for record, _ in run), **facts))
        page = readable(write_page(head.path).read_text(encoding="utf-8"))
        status = main(["compare", "run", "base", "--html", "compare.html", "--width", "120"])
        compared = readable(Path("compare.html").read_text(encoding="utf-8"))
        parts = {
            "terminal": "\n".join([*ruling.text, "…", *ruling.last]),
            "gate.md": "\n".join(ruling.markdown),
            "JUnit": "\n".join(f"gate::{name}: {reason}" for name, reason in ruling.failures),
            "report.md": report[: report.index("Measured")],
            "page": page[page.index("gate ") : page.index("## Quality over speed")],
            f"compare, exit status {status}": capsys.readouterr().out,
            "page of compare": compared[compared.index("comparison ") : compared.index("mean of")],
        }
        text = "\n\n".join(f"== {title}\n{told}" for title, told in parts.items())
        same(text.replace(str(files("pbcore.benches")), "benches"))

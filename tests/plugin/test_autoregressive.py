"""Autoregressive models in a run."""

from __future__ import annotations

import pytest

import pbcore.results
from pbcore.models import model_names
from tests.plugin.conftest import Run
from tests.plugin.test_collection import ids

pytestmark = pytest.mark.skipif(
    "tiny-ar" not in model_names(), reason="no embedded tiny-ar in this copy"
)
COPY = ("--task", "copy", "--limit", "3")


class TestGrid:
    def test_a_profile_runs_ar_and_leaves_infilling_out(self, run: Run) -> None:
        """Beside a diffusion model, which keeps the profile's samplers."""
        result = run("--model tiny --model tiny-ar --task copy --task list_ops/copy --co -q")
        found = [name.partition("[")[2] for name in ids(result)]
        assert [name for name in found if name.startswith("tiny-ar")] == ["tiny-ar/copy/ar]"]
        assert "tiny/copy/confidence-k2]" in found
        none = run("--model tiny-ar --task list_ops/copy --co -q")
        none.stdout.fnmatch_lines(["left out: 1 cell, tiny-ar × list_ops: infilling*"])

    def test_samplers_go_to_those_who_can_run_them(self, run: Run) -> None:
        result = run(
            "--model tiny --model tiny-ar --sampler ar-lookup010 --sampler confidence-k2 --task"
            " copy --co -q"
        )
        assert [name.partition("[")[2] for name in ids(result)] == [
            "tiny/copy/confidence-k2]",
            "tiny-ar/copy/ar-lookup10]",
        ]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--sampler ar-draft5", "*--sampler ar-draft…: add --draft MODEL*"),
            ("--sampler ar-draft5 --draft tiny-ra", "*--draft: unknown model 'tiny-ra'*tiny-ar*"),
            (
                "--sampler ar-drfat5",
                "*ar-drfat5 is not one of autoregressive models: use ar, ar-lookup10*",
            ),
        ],
    )
    def test_what_is_missing_is_told_before_anything_runs(
        self, options: str, message: str, run: Run
    ) -> None:
        result = run("--model tiny-ar", *COPY, options)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([message])


class TestRecords:
    def test_forwards_and_ends_are_recorded(self, run: Run, project: pytest.Pytester) -> None:
        """One token a forward by measurement; drafts of the model itself are always right, six
        tokens a forward.
        """
        samplers = ("--sampler", "ar", "--sampler", "ar-draft5", "--draft", "tiny-ar")
        run("--model tiny-ar", *COPY, *samplers, "--out out").assert_outcomes(passed=2)
        rows = pbcore.results.load(project.path / "out").set_index("sampler")
        assert rows.loc["ar", "tokens_per_step"] == 1.0
        assert rows.loc["ar-draft5", "tokens_per_step"] > 3.0
        assert rows.loc["ar-draft5", "accuracy"] == rows.loc["ar", "accuracy"]
        assert rows.loc["ar-draft5", "decoding"]["draft_forwards"] > rows.loc["ar-draft5", "nfe"]
        assert rows.loc["ar", "decoding"]["finish"] == {"stop": 3}
        assert rows.loc["ar", "model_info"]["autoregressive"] is True


class TestDrillDown:
    def test_a_wrong_answer_shows_its_tokens_step_by_step(self, run: Run) -> None:
        """Fifteen people are more than `tiny-ar` has learned."""
        result = run("--model tiny-ar --task sort --n 15 --sampler ar-lookup10 -x --limit 6")
        result.assert_outcomes(failed=1, passed=result.parseoutcomes().get("passed", 0))
        result.stdout.fnmatch_lines(["trajectory  step  1  0 '* *", "*step  2  *"])

"""--gate-time with --against: this code and another checkout's, timed interleaved from the command
line.
"""

from __future__ import annotations

import shutil

import pytest

from pbcore.analysis.timing import interleaved
from tests.plugin.conftest import ROOT, Run


class TestGateTime:
    @pytest.mark.slow
    def test_code_that_sleeps_while_decoding_fails(
        self, run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The head is a copy of the package with a sleep in `decode`: screen, exit code and gate.md
        say that it is slower.
        """
        head = project.path / "doctored"
        shutil.copytree(
            ROOT / "pbcore", head / "pbcore", ignore=shutil.ignore_patterns("__pycache__")
        )
        code = head / "pbcore" / "decoding" / "run.py"
        code.write_text(
            code.read_text().replace(
                "    prompts = list(prompts)\n",
                "    __import__('time').sleep(1)\n    prompts = list(prompts)\n",
            )
        )
        assert "sleep(1)" in code.read_text()
        monkeypatch.setattr(interleaved, "HEAD", head)
        result = run(
            "--model ideal --limit 2 --task copy --sampler random-k8 --out out --gate-time 10%",
            "--against",
            str(ROOT),
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                f"timing FAILED against {ROOT}, interleaved: 1 cell judged, 1 slower, *",
                "  SLOWER   ideal/copy/random-k8: slower by more than 10 %: *",
            ]
        )
        assert "timing FAILED" in (project.path / "out" / "gate.md").read_text()

    def test_a_base_that_cannot_run_a_cell_does_not_judge_it(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """Its reason is on the screen; a time gate that judged no cell at all fails."""
        (project.path / "base" / "pbcore").mkdir(parents=True)
        (project.path / "base" / "pbcore" / "__init__.py").write_text(
            "raise ImportError('torch is too new')"
        )
        result = run(
            "--model ideal --limit 2 --task copy --sampler random-k8 --gate-time 10% --against base"
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                "timing against base, interleaved:",
                "  1 cell *: timing not judged: *torch is too new*",
                "timing FAILED: *",
            ]
        )

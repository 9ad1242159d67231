"""`pbcore check model`."""

from __future__ import annotations

from typing import Any

import pytest

from pbcore.cli import main
from pbcore.extras.check.remote import ComparedPrompt
from pbcore.models.entry import LoadOptions


class TestCheck:
    @pytest.mark.parametrize(
        ("same", "status", "said"),
        [(5, 0, "the same likeliest token everywhere"), (4, 1, "not wh")],
    )
    def test_one_other_token_fails(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        same: int,
        status: int,
        said: str,
    ) -> None:
        """The options reach the check, and each prompt has a row, whose difference has two digits
        and an exponent.
        """
        asked: dict[str, Any] = {}

        def compare(name: str, **options: Any) -> list[ComparedPrompt]:
            asked.update(options, name=name)
            return [ComparedPrompt(5, 0.25, 5), ComparedPrompt(5, 1.24e-6, same)]

        monkeypatch.setattr("pbcore.extras.check.remote.compare_with_remote", compare)
        words = [
            "check",
            "model",
            "x",
            "--mask-id",
            "3",
            "--eos-id",
            "4",
            "--block",
            "8",
            "--trust-remote-code",
        ]
        assert main(words) == status
        options = LoadOptions(mask_id=3, eos_id=4, block=8)
        assert asked == {
            "name": "x",
            "trust_remote_code": True,
            "device": "cpu",
            "options": options,
        }
        lines = capsys.readouterr().out.splitlines()
        assert [line.split() for line in lines[2:4]] == [
            ["0", "5", "2.5e-01", "5", "of", "5"],
            ["1", "5", "1.2e-06", str(same), "of", "5"],
        ]
        assert lines[-1].startswith(f"x: {said}")

"""`pbcore check model`, against a small module that stands for the authors'
code.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.cli import main
from tests.models.block_models import block_checkpoint

CODE = """
from transformers import Qwen3Config, Qwen3ForCausalLM


class OwnConfig(Qwen3Config):
    model_type = "sdar"


class SDARForCausalLM(Qwen3ForCausalLM):
    config_class = OwnConfig

    def forward(self, input_ids, attention_mask=None):
        CHANGE
        return super().forward(input_ids, attention_mask=attention_mask)
"""


def with_code(folder: Path, change: str) -> str:
    """A small SDAR checkpoint with code of its own, which does `change` before each forward."""
    auto = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.SDARForCausalLM"}
    block_checkpoint(folder, auto_map=auto)
    (folder / "own.py").write_text(CODE.replace("CHANGE", change))
    return str(folder)


@pytest.fixture(autouse=True)
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of checkpoints is copied to a folder of the test."""
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )


class TestCheck:
    def test_equal(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Code that computes what we compute gives three equal prompts and success."""
        folder = with_code(tmp_path / "equal", "pass")
        assert main(["check", "model", folder, "--trust-remote-code"]) == 0
        shown = capsys.readouterr().out
        assert all(f"{n} of {n}" in shown for n in (17, 24, 31))
        assert "the same likeliest token everywhere" in shown

    def test_different(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Code that sees no mask, so each token sees all before it only, is told from ours."""
        folder = with_code(tmp_path / "different", "attention_mask = None")
        assert main(["check", "model", folder, "--trust-remote-code"]) == 1
        assert "not what its authors published" in capsys.readouterr().out

    def test_code_runs_only_when_trusted(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Without --trust-remote-code nothing of the checkpoint runs."""
        folder = with_code(tmp_path / "careful", "pass")
        (Path(folder) / "own.py").write_text("raise SystemExit('ran')")
        assert main(["check", "model", folder]) != 0
        assert "add --trust-remote-code" in capsys.readouterr().err

    def test_what_cannot_be_compared(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A checkpoint without code, code that fails, and models without a checkpoint are one line
        each.
        """
        plain = str(block_checkpoint(tmp_path / "plain"))
        broken = with_code(tmp_path / "broken", "raise KeyError('cache')")
        assert main(["check", "model", plain]) == 2  # whatever is trusted
        assert "nothing to compare" in capsys.readouterr().err
        for name, why in (
            (plain, "brings no code"),
            (broken, "failed in a forward (KeyError: 'cache')"),
            ("ideal", "masked"),
        ):
            assert main(["check", "model", name, "--trust-remote-code"]) != 0
            assert why in capsys.readouterr().err

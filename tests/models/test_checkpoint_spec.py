"""Checkpoints of a file that `--models` names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.errors import InputError
from pbcore.models import load_model, model_names, resolve_model
from pbcore.models.causal import CausalModel
from pbcore.models.errors import ModelError
from pbcore.models.identity import identity
from pbcore.models.registry import add_models_file
from tests.models.causal import causal_checkpoint
from tests.models.checkpoints import edit_config

REFERENCE = Path(__file__).parents[1] / "reference"


def written(folder: Path, text: str) -> Path:
    file = folder / "models.yaml"
    file.write_text(text)
    return file


class TestCheckpoints:
    def test_one_by_its_architecture(self, tmp_path: Path) -> None:
        """What pbcore would refuse loads as the file says, and the record has it."""
        folder = tmp_path / "other"
        shutil.copytree(REFERENCE / "llada2-tiny", folder)
        edit_config(folder, expert_capacity=48, model_type="lately")
        text = f"mine:\n  checkpoint: {folder}\n  architecture: llada2\n  mask_id: 510\n"
        assert add_models_file(written(tmp_path, text)) == ["mine"]
        assert "mine" in model_names()
        entry = resolve_model("mine")
        assert (entry.loaded_as, entry.declared, entry.mask_id) == ("masked", "llada2", 510)
        with pytest.warns(UserWarning, match="not honoured are expert_capacity 48"):
            model = load_model("mine")
        assert (model.name, model.info["architecture"]) == ("mine", "llada2")

    def test_an_autoregressive_one(self, tmp_path: Path) -> None:
        folder = causal_checkpoint(tmp_path / "m")
        edit_config(folder, mask_token_id=1)
        text = f"plain:\n  checkpoint: {folder}\n  architecture: causal\n"
        add_models_file(written(tmp_path, text))
        assert resolve_model("plain").loaded_as == "causal"
        assert isinstance(load_model("plain"), CausalModel)

    def test_beside_servers(self, tmp_path: Path) -> None:
        """A file may have both, and is read again as it is then."""
        server = "far:\n  base_url: http://127.0.0.1:1/v1\n  model: x\n"
        file = written(tmp_path, f"{server}near:\n  checkpoint: tiny\n  block: 4\n")
        assert sorted(add_models_file(file)) == ["far", "near"]
        assert resolve_model("far").served
        assert resolve_model("near").block == 4
        file.write_text(f"{server}near:\n  checkpoint: tiny\n  block: 8\n")
        add_models_file(file)
        assert resolve_model("near").block == 8

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("m:\n  checkpoint: tiny\n  architecture: lada\n", "'lada'; give one of llada, dream"),
            ("m:\n  checkpoint: tiny\n  colour: red\n", r"models\.yaml, model m.*colour"),
            ("m:\n  checkpoint: tiny\n  block: four\n", "block"),
            ("m:\n  checkpoint: tinny\n", "unknown model 'tinny'"),
            ("tiny:\n  checkpoint: tiny\n", "named 'tiny' exists already"),
            ("m:\n  checkpoint: ideal\n  architecture: llada\n", "no checkpoint"),
        ],
    )
    def test_what_is_wrong_is_named(self, text: str, said: str, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=said):
            add_models_file(written(tmp_path, text))

    def test_delimiters_of_adablock(self, tmp_path: Path) -> None:
        """The file says them; they are part of the model's identity, and an unknown one is
        refused.
        """
        folder = REFERENCE / "llada-tiny"
        text = f"mine:\n  checkpoint: {folder}\n  delimiter_ids: [7, 5]\n"
        add_models_file(written(tmp_path, text))
        model: Any = load_model("mine")
        assert model.delimiter_ids == {5, 7}
        assert identity(model)["delimiter ids"] == "5 7"
        text = f"mine:\n  checkpoint: {folder}\n  delimiter_ids: [512]\n"
        add_models_file(written(tmp_path, text))
        with pytest.raises(ModelError, match="delimiter_ids 512 is outside its vocabulary"):
            load_model("mine")

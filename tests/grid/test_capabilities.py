"""What a model can run, known before it is loaded."""

from __future__ import annotations

import pytest

from pbcore.grid.capabilities import Capabilities
from pbcore.models import register_model
from pbcore.models.ideal import Ideal
from pbcore.models.registry import FACTORIES


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> str:
    """A model registered for one test."""
    monkeypatch.setattr(FACTORIES, "_registered", dict(FACTORIES.all()))
    register_model("own", lambda **options: Ideal())
    return "own"


class TestMayDecodeItself:
    def test_families_that_do_and_users_models(self, own: str) -> None:
        """The registry's others go through the loop."""
        given = {
            "diffusiongemma-26b": True,
            own: True,
            "tiny": False,
            "ideal": False,
        }
        assert {model: Capabilities(model).may_decode_itself for model in given} == given

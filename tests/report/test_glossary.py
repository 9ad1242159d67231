"""pbcore.report.glossary: what the names of a report mean."""

from __future__ import annotations

import pytest

from pbcore.decoding.policies import policies
from pbcore.report.glossary import about_model, about_sampler, glossary
from tests.results import factory


class TestSamplers:
    def test_rule_setting_and_modifiers(self) -> None:
        """The policy's rule without its reference, its number, and what each modifier adds."""
        told = about_sampler("confidence-k2+b8+prefix")
        assert told.startswith("Reveals the k positions whose predicted token is most probable")
        assert "arXiv" not in told
        assert "here k 2" in told
        assert "in blocks of 8 tokens" in told
        assert "before the block is cached" in told
        assert "+dual" not in told

    @pytest.mark.parametrize("name", ["none_of_ours-k2", "<b>", ""])
    def test_unknown(self, name: str) -> None:
        """Nothing is said of a name that isn't known here."""
        assert about_sampler(name) == ""

    def test_every_policy(self) -> None:
        """Each has a rule of its own."""
        rules = [about_sampler(name) for name in policies()]
        assert all(rules)
        assert len(set(rules)) == len(rules)


def test_models() -> None:
    """pbcore's own in words, also of one run among several; others by their weights."""
    assert "exact probabilities" in about_model("ideal", {})
    assert about_model("tiny of run-a", {}) == about_model("tiny", {})
    assert about_model("mine", {"source": "org/weights"}) == "weights: org/weights"
    assert about_model("mine", {}) == ""


def test_glossary() -> None:
    """The models of some cells, then its samplers, once each."""
    cells = factory.rows(
        [factory.cell("tiny", task)[0] for task in ("waiting_line/copy", "puzzle/sudoku")]
    )
    assert list(glossary(cells)) == ["tiny", "confidence-k2"]

"""The README's promises: its example runs, its links lead somewhere, its names are real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pbcore
from pbcore.decoding import resolve

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def example() -> str:
    """The sampler of the section on own samplers."""
    match = re.search(r"<!-- example -->\n```python\n(.*?)```", README, re.S)
    assert match
    return match[1]


class TestReadme:
    def test_example_shows_up_as_a_sampler(self, pytester: pytest.Pytester) -> None:
        """The policy of the README, in a user's conftest.py, runs under its name beside the built-in ones."""
        assert len(example().splitlines()) <= 20
        pytester.makeconftest(example())
        bench = (ROOT / "benches" / "test_list_ops.py").read_text()
        pytester.makepyfile(test_list_ops=bench)
        fixtures = [arg for name in ("benchmark", "cells", "models") for arg in ("-p", f"fixtures.{name}")]
        result = pytester.runpytest_subprocess(
            *fixtures, "--model", "ideal", "--sampler", "mine-k2", "--task", "list_ops/copy", "--limit", "2", "--out", "run",
            f"--rootdir={pytester.path}",
        )  # fmt: skip
        result.assert_outcomes(passed=1)
        assert list(pbcore.results.load(pytester.path / "run")["sampler"]) == ["mine-k2"]

    @pytest.mark.parametrize("link", re.findall(r"\]\(((?!http)[^)#]+)", README))
    def test_links(self, link: str) -> None:
        """Every link into the repository leads to a file."""
        assert (ROOT / link).exists()

    def test_sampler_names_are_real(self) -> None:
        """Every sampler that the README names can be built."""
        names = re.findall(
            r"`((?:random|confidence|left_to_right|margin|entropy|threshold|factor|eb)-[^`\s/]+)`", README
        )
        assert len(names) >= 8
        for name in names:
            resolve(name)

    def test_commands(self) -> None:
        """The two commands for a fresh machine are where .ci/run and a newcomer look for them."""
        for marker in ("main", "tests"):
            assert re.search(rf"<!-- {marker} -->\n```bash\n[^\n]*pip install -c constraints.txt[^\n]*\n```", README)

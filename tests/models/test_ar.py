"""Names of autoregressive samplers."""

from __future__ import annotations

import pytest

from pbcore.decoding import resolve
from pbcore.models.ar import drafts
from pbcore.names import SamplerNameError, parse


class TestDrafts:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("ar", {}),
            ("ar+t1.0", {}),
            ("ar-lookup10", {"lookup": 10}),
            ("ar-draft5+t0.7", {"draft": 5}),
        ],
    )
    def test_reads_what_drafts_and_how_many(self, name: str, expected: dict[str, int]) -> None:
        assert drafts(parse(name)) == expected

    @pytest.mark.parametrize(
        "name",
        [
            "ar-k2",
            "ar-lookup",
            "ar-lookup0",
            "ar-draft1.5",
            "ar-5",
            "ar-lookup10-draft5",
            "ar+b8",
            "ar+dual",
            "ar+rcr",
        ],
    )
    def test_anything_else_is_refused_with_what_there_is(self, name: str) -> None:
        with pytest.raises(SamplerNameError, match="ar-lookup10"):
            drafts(parse(name))


class TestResolve:
    def test_one_name_per_sampler(self) -> None:
        assert str(resolve("ar-lookup010+t1")) == "ar-lookup10+t1.0"
        assert str(resolve("ar")) == "ar"

    def test_blocks_are_refused(self) -> None:
        with pytest.raises(SamplerNameError, match=r"ar\+b8"):
            resolve("ar+b8")

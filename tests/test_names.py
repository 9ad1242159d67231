"""Sampler names."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.names import (
    MODIFIERS,
    Modifier,
    SamplerName,
    SamplerNameError,
    canonical,
    examples,
    parse,
)

names = st.builds(
    SamplerName,
    policy=st.sampled_from(["confidence", "left_to_right", "eb"]),
    arguments=st.lists(st.sampled_from([("k", "2"), ("", "0.9"), ("ref", "")]), max_size=2).map(
        tuple
    ),
    block=st.none() | st.integers(1, 64),
    cache=st.sampled_from([None, "prefix", "dual"]),
    temperature=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    remask=st.none() | st.just("rcr"),
    counts=st.none() | st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple),
    eos_stop=st.booleans(),
    no_early_eos=st.booleans(),
    eos_last=st.booleans(),
    adas=st.none() | st.sampled_from([0.0, 40.0, 0.5]),
    at_once=st.sampled_from([0, 1, 64]),
)


class TestParse:
    @given(names)
    def test_round_trip(self, name: SamplerName) -> None:
        """A printed name reads back as itself, in characters that pytest's -k takes."""
        assert parse(str(name)) == name
        assert re.fullmatch(r"[\w.+-]+", str(name))

    def test_parts(self) -> None:
        """Every part of a full name lands in its field."""
        name = parse("klass-0.9-kl0.01+b8+prefix+t1.0+eos_stop")
        assert name.arguments == (("", "0.9"), ("kl", "0.01"))
        assert (name.policy, name.block, name.cache, name.temperature, name.eos_stop) == (
            "klass",
            8,
            "prefix",
            1.0,
            True,
        )

    def test_remasking_and_schedules(self) -> None:
        """`+remdm2`, `+rcr`, `+linear8` and explicit counts are told apart."""
        assert (
            parse("confidence-k1+remdm2").remask,
            parse("confidence-k1+remdm2").remask_rounds,
        ) == ("remdm", 2)
        assert parse("confidence-k1+rcr").remask == "rcr"
        early = parse("confidence-k1+remdm12-early")
        assert (early.remask, early.remask_rounds, early.remask_variant) == ("remdm", 12, "early")
        assert (
            parse("confidence-k1+rcr-max").remask,
            parse("confidence-k1+rcr-max").remask_variant,
        ) == ("rcr", "max")
        assert not parse("confidence-k1+remdm1").remask_variant
        assert (parse("margin+linear8").schedule, parse("margin+linear8").schedule_steps) == (
            "linear",
            8,
        )
        assert parse("margin+s1_0_2").counts == (1, 0, 2)

    def test_one_spelling(self) -> None:
        """Modifiers are put in one order and temperature is written one way."""
        assert canonical("confidence-k2+t1+remdm1-early+b8") == "confidence-k2+b8+remdm1-early+t1.0"
        assert canonical("confidence-k2+rcr-max+b8") == "confidence-k2+b8+rcr-max"
        assert canonical("confidence-k2+t1+prefix+b8") == "confidence-k2+b8+prefix+t1.0"

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("", "not a policy name"),
            ("Confidence-k2", "not a policy name"),
            ("confidence-", "not a parameter"),
            ("confidence-k2+y9", "unknown modifier"),
            ("confidence-k2+b0", "unknown modifier"),
            ("confidence-k2+rcr-early", "unknown modifier"),
            ("confidence-k2+remdm-early", "unknown modifier"),
            ("confidence-k2+rcr+rcr-max", "a second time"),
            ("confidence-k2+b8+b4", "a second time"),
            ("confidence-k2+prefix+dual", "a second time"),
            ("confidence+s1_2+linear4", "not both"),
        ],
    )
    def test_complaints(self, text: str, complaint: str) -> None:
        """A name that can't be read says which part and what is allowed."""
        with pytest.raises(SamplerNameError, match=complaint):
            parse(text)


class TestModifiers:
    @pytest.mark.parametrize("modifier", MODIFIERS, ids=examples)
    def test_examples(self, modifier: Modifier) -> None:
        """Each is read, sets its own fields alone, and is written as it was read."""
        for example in modifier.examples:
            name = parse(f"eb+{example}")
            assert str(name) == f"eb+{modifier.written(name)}" == f"eb+{example}"
            others = [one for one in MODIFIERS if one is not modifier]
            assert not any(one.written(name) for one in others)
            assert not modifier.written(parse("eb"))

    def test_every_field_has_one(self) -> None:
        """No part of a name but its policy and parameters is set otherwise, or by two."""
        set_by = [field for modifier in MODIFIERS for field in modifier.fields]
        declared = [field.name for field in fields(SamplerName)]
        assert sorted(set_by) == sorted(set(declared) - {"policy", "arguments"})

    def test_an_unknown_one(self) -> None:
        """The refusal names all."""
        with pytest.raises(SamplerNameError) as refused:
            parse("eb+y9")
        assert all(examples(modifier) in str(refused.value) for modifier in MODIFIERS)

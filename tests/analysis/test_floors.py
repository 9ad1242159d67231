"""pbcore.analysis.floors: any text is a floor that means what it says, or refused in one line."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.analysis.floors import broken_floors, parse_floor
from pbcore.analysis.verdict_text import gate_text
from pbcore.base.errors import InputError
from tests.analysis.test_verdict import gate
from tests.results import factory
from tests.results.damage import ODD_TEXTS

PARTS = [
    "tiny/copy/*",
    "*",
    "[",
    "[!a]*",
    "accuracy",
    "nfe",
    "tokens_per_step",
    "seeds",
    "id",
    "dummy",
    "_",
    " ",
    "  ",
    "\t",
    ">=",
    "<=",
    ">",
    "<",
    "=",
    "==",
    "0.98",
    "98%",
    "%",
    "1",
    "0",
    "1.",
    ".5",
    "-1",
    "1e5",
    "nan",
    "inf",
    "٣",
    "9" * 20,
    "9" * 400,
    *ODD_TEXTS,
]


@pytest.mark.parametrize(
    "count",
    [pytest.param(500, id="quick"), pytest.param(20_000, id="nightly", marks=pytest.mark.nightly)],
)
def test_any_text(count: int) -> None:
    """Wrong and traceback are 0; what is read back from a floor's own text is that floor."""
    random = Random(5)
    outcomes = Counter[str]()
    cells = [factory.cell()[0]]
    for _ in range(count):
        if random.random() < 0.4:
            parts = [
                random.choice(PARTS[:4]),
                " ",
                random.choice(PARTS[4:10]),
                *random.choices(PARTS[14:19] + PARTS[20:26], k=2),
            ]
        else:
            parts = random.choices(PARTS, k=random.randrange(1, 8))
        text = "".join(parts)
        try:
            floor = parse_floor(text)
            broken = broken_floors([floor], cells)
        except InputError as error:
            outcomes["told" if "\n" not in str(error) and len(str(error)) < 400 else "unclear"] += 1
        except Exception as error:  # noqa: BLE001 - the count of these is what the test asserts
            outcomes[f"traceback {type(error).__name__}: {error}"] += 1
        else:
            outcomes[
                "read" if parse_floor(str(floor)) == floor and len(broken) <= 1 else "wrong"
            ] += 1
    assert set(outcomes) == {"told", "read"}, outcomes


class TestFloors:
    def test_kept_broken_and_unmatched(self) -> None:
        """A floor holds, is broken with the value named, or matches nothing, which fails as
        well.
        """
        run = [factory.cell(task="waiting_line/copy", right=0.9)]
        for text, ok in (
            ("tiny/copy/* accuracy>=0.9", True),
            ("tiny/copy/* accuracy >= 90%", True),
            ("*/* nfe<=16", True),
            ("tiny/copy/* accuracy>=0.98", False),
            ("tiny/sort/* accuracy>=0.1", False),
            ("tiny/* grammar>=0.1", False),
        ):
            broken = broken_floors([parse_floor(text)], [record for record, _ in run])
            assert gate(run, []).with_floors(broken).ok is ok, text
        broken = broken_floors([parse_floor("tiny/copy/* accuracy>=0.98")], [run[0][0]])
        assert "accuracy is 0.9" in gate_text(gate(run, []).with_floors(broken))

    @pytest.mark.parametrize(
        "text", ["", "accuracy>=1", "tiny/* accuracy=1", "tiny/* accuracy>=high", "tiny/* >=1"]
    )
    def test_unreadable(self, text: str) -> None:
        """A floor that can't be read shows the form."""
        with pytest.raises(InputError, match="tiny/copy"):
            parse_floor(text)

    @given(st.sampled_from([">=", "<=", ">", "<"]), st.integers(0, 1000))
    def test_round_trip(self, sign: str, thousandths: int) -> None:
        """A floor prints as it is read."""
        floor = parse_floor(f"a/*/b+t1.0 nfe{sign}{thousandths / 1000:g}")
        assert parse_floor(str(floor)) == floor

"""JSON texts that no writer of this project makes."""

from __future__ import annotations

import pytest

from pbcore.base.check import LoadError, parse_json


@pytest.mark.parametrize(
    "number", ["1e309", "-1E400", "1e+0400", "9" * 400 + ".0", "9" * 250 + "e99"]
)
def test_a_number_that_no_float_holds(number: str) -> None:
    """It is refused, however it is written; the largest that floats hold are read."""
    with pytest.raises(LoadError, match="is not a finite number"):
        parse_json(f'{{"score": [{number}]}}', "the file")
    with pytest.raises(LoadError, match="is not a finite number"):
        parse_json(number, "the file")
    largest = ["1e308", "9" * 299 + ".0", "0." + "9" * 400]
    assert parse_json(f"[{', '.join(largest)}]", "the file") == [float(text) for text in largest]

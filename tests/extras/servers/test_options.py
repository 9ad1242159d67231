"""--max-cost: which texts are an amount."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from pbcore.extras.servers.options import dollars


@pytest.mark.parametrize(("text", "amount"), [("5", 5.0), ("0.50", 0.5), ("0.000000001", 1e-9)])
def test_an_amount_is_read(text: str, amount: float) -> None:
    """Whole or with decimals."""
    assert dollars(text) == amount


@pytest.mark.parametrize("text", ["0", "0.00", "-1", "x", "1234567890", ""])
def test_any_other_text_is_refused(text: str) -> None:
    """The message quotes the text."""
    with pytest.raises(ArgumentTypeError, match="no amount") as raised:
        dollars(text)
    assert repr(text) in str(raised.value)

"""Does the batch change the answers? Shares of answers and tokens of `tiny` that differ between
batch 1 and 16, by dtype and sampler.

`pytest -m speed benches/test_batch_equality.py -s` prints the table.
In float32 nothing may differ; in bfloat16 sums are rounded in another order.
"""

from __future__ import annotations

from typing import Any

import pytest

from pbcore.base.tabular import Table, terminal
from pbcore.decoding import decode
from pbcore.models import load_model, model_names
from pbcore.tasks import load_task

SAMPLERS = ("confidence-k2+b8", "threshold-0.9", "confidence-k2+b8+dual")

pytestmark = pytest.mark.speed


def differing(model: Any, samples: Any, sampler: str) -> tuple[float, float]:
    """Shares of answers and of tokens that differ."""
    alone, together = (decode(model, samples, sampler, batch_size=size) for size in (1, 16))
    pairs = [(one.token_ids, many.token_ids) for one, many in zip(alone, together, strict=True)]
    tokens = [a != b for one, many in pairs for a, b in zip(one, many, strict=True)]
    return sum(one != many for one, many in pairs) / len(pairs), sum(tokens) / len(tokens)


@pytest.mark.skipif(
    "tiny" not in model_names(), reason="the trained model tiny is not part of this installation"
)
def test_float32_batches_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Answers to 32 ragged prompts are the same in batches of 1 and 16 in float32; bfloat16's share
    is shown.
    """
    samples = load_task("waiting_line/shuffle", limit=32).samples
    models = {dtype: load_model("tiny", dtype=dtype) for dtype in ("float32", "bfloat16")}
    rows = [
        (dtype, sampler, *differing(model, samples, sampler))
        for dtype, model in models.items()
        for sampler in SAMPLERS
    ]
    with capsys.disabled():
        heads = ["dtype", "sampler", "answers that differ", "tokens that differ"]
        print(f"\n{terminal(Table(heads, rows, forms='.3f'))}")
    assert all(share == 0 for dtype, _, share, _ in rows if dtype == "float32")

"""A price list in a few lines."""

from pbcore.base.tabular import Table, terminal
from pbcore.costs.calls import CallShape
from pbcore.costs.price_list import PriceList

# Calls whose prices are printed: whole canvases, a block behind a cache, what-if rows.
EXAMPLES = (
    ("a whole canvas of 186 tokens", CallShape(1, 186, 0, 32)),
    ("8 rows of it", CallShape(8, 186, 0, 32)),
    ("32 tokens behind a cache of 154", CallShape(1, 32, 154, 32)),
    ("8 rows of them", CallShape(8, 32, 154, 32)),
)
BATCHES = (1, 32)


def price_summary(prices: PriceList) -> str:
    """What the list is of, and the milliseconds of some calls."""
    rows = []
    for text, call in EXAMPLES:
        cells = [f"{1000 * prices.call_seconds(call, batch):,.1f}" for batch in BATCHES]
        rows.append((text, *cells))
    heads = ["a call of", *[f"ms at batch {batch}" for batch in BATCHES]]
    table = terminal(Table(heads, rows, "l" + "r" * len(BATCHES)))
    return f"{prices.model} on {prices.about}\n\n{table}"

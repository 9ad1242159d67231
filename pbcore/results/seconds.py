"""The price lists of models by name, and the seconds of a cell's answers by one, from the calls
that its record counts.
"""

from pbcore.base.errors import PbcoreError
from pbcore.costs import lists
from pbcore.costs.price_list import PriceList
from pbcore.decoding.samplers import resolve, sampler_of
from pbcore.models.shape import shape_of
from pbcore.results.record import CellRecord


def price_list(text: str, model: str, dtype: str | None = None) -> PriceList:
    """The prices of a model that `--price TEXT` names; errors as of `costs.lists.price_list`."""
    return lists.price_list(text, model, dtype, shape_of, resolve)


def list_or_why(text: str, model: str, dtype: str | None = None) -> PriceList | str:
    """As `price_list`, or why there is none."""
    try:
        return price_list(text, model, dtype)
    except PbcoreError as error:
        return str(error)


def check_price(text: str) -> None:
    """Raises InputError for what can't be a price list of any model."""
    lists.check_price(text, resolve)


def priced_seconds(cell: CellRecord, prices: PriceList, batch: int) -> float | None:
    """Mean seconds of an answer by a price list; None for a record without counts. The own work of
    a policy that isn't known here counts as the list says that it counts any (`assumed`).

    Args:
        cell: the record.
        prices: a price list of its model.
        batch: answers decoded together.
    """
    if not cell.calls or not cell.n_samples:
        return None
    answers = cell.n_samples * max(1, len(cell.conditions.seeds))
    together = answers_together(cell, batch)
    sampler = sampler_of(cell.sampler).name
    return prices.answer_seconds(cell.calls, answers, sampler, batch, together=together)


def answers_together(cell: CellRecord, batch: int) -> float | None:
    """How many of `batch` answers take part in a call, by what the cell's own batches had: where
    these were of another size, in proportion to the answers beside the first. None: not known.
    """
    ran = cell.conditions.batch_size
    if cell.answers_per_call is None or not ran or ran == 1:
        return None
    ran = min(ran, cell.n_samples)
    if ran == 1:
        return None
    return 1 + (cell.answers_per_call - 1) * (batch - 1) / (ran - 1)

"""What a sampler costs on a machine that you name, in seconds.

`price_list("h200", "llada-8b")` gives a `PriceList`: computed from the model's shape and the
device's peaks, or read from what `pbcore price` measured. `models/shape.py` reads a model's sizes,
`devices.py` the table of devices, `computed.py` and `measured.py` are the two kinds of prices.
"""

from pbcore.prices.lists import price_list
from pbcore.prices.price_list import OwnPrice, PriceList

__all__ = ["OwnPrice", "PriceList", "price_list"]

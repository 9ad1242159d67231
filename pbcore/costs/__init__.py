"""What a call of a network costs: `calls.py` says what is counted, `shape.py` how large a network
is, and a `PriceList` (`price_list.py`) the seconds of a call and of a sampler's own work.

A list is computed from a model's shape and a device's peaks (`computed.py`, `devices.py`), or read
from what `pbcore price` measured (`measured.py`). `results/seconds.py` has the lists of models by
name.
"""

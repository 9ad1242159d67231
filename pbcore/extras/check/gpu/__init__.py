"""`pbcore check gpu`: whether a GPU gives the CPU's answers, how fast it is, how often the host
waits for it, and what batches take.

`steps.py` runs the steps and keeps their results; a file a step: `device.py`, `equality.py`,
`made.py`, `speed.py`, `waits.py`, `memory.py`; `report.py` is what is pasted into an issue.
"""

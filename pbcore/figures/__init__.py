"""The paper's table and figures, and the optimal frontier, drawn again: lines from theory, points
from decoding.
"""

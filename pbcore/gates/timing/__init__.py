"""Interleaved timing: the code under test and a base decode the same cells in turns, and a verdict on their seconds.

Knows no pytest.
"""

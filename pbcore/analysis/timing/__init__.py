"""Interleaved timing: the code under test and a base decode the same cells in turns. Knows no
pytest.
"""

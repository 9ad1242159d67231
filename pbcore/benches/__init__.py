"""The stock cells, a file per category: `pytest --pyargs pbcore.benches` runs them in any project
that has pbcore installed.
"""

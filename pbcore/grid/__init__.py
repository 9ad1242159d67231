"""What to run: settings, the profiles' grids, what models can do, the plan, and its cost. Knows no
pytest.
"""

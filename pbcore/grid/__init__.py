"""What to run: settings, the profiles' grids, what models can do, shards, and the plan. Knows no pytest."""

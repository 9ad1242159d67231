"""Why a score differs from another one: the options that differ, each measured for its part.

| file | what it holds |
|---|---|
| `sides` | the two settings: of a run, a preset, options, or what a neighbour knows |
| `combinations` | the cells of all combinations of what differs, and which can't run |
| `measuring` | runs what is missing, and works out the parts |
"""

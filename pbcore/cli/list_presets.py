"""`pbcore list presets`: settings of papers by name, with their sources."""

import argparse

from pbcore.grid.profiles import presets


def run(args: argparse.Namespace) -> int:
    """Prints all presets."""
    for name, preset in presets().items():
        print(f"{name}\n  {preset.words()}\n  {preset.source}")
    print(
        "\npytest benches --preset NAME runs with these options. Others may be added; contradicting"
        " ones are errors."
    )
    return 0

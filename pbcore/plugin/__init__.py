"""The pytest plugin: options, cells as items, records, workers, progress, tables, gates. Importing it imports no torch."""

pytest_plugins = [
    f"pbcore.plugin.{name}"
    for name in (
        "options",
        "collection",
        "fixtures",
        "rundir",
        "recording",
        "benchmark_xdist",
        "scheduling",
        "progress",
        "gate",
        "summary",
    )
]

"""Results in and out: scoring again, import of published runs, export to other tools."""

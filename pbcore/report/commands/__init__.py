"""The commands `pbcore report`, `pbcore merge` and `pbcore compare`, a file each, which `pbcore` imports by itself."""

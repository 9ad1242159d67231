"""The commands `pbcore report`, `vary`, `merge` and `compare`, a file each, which `pbcore` imports by itself."""

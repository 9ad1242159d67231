"""What all other rooms use: errors, safe text, tables, names of objects, digests of code, JSON."""

"""`python -m pbcore` runs the command `pbcore`."""

from pbcore.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

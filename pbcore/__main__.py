"""`python -m pbcore` is the command `pbcore`."""

from pbcore.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

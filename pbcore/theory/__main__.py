"""`python -m pbcore.theory`."""

from pbcore.theory.cli import main

raise SystemExit(main())

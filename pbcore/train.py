"""`python -m pbcore.train`: the training of small models and adapters (`pbcore.extras.train`)."""

from pbcore.extras.train.command import main

if __name__ == "__main__":
    raise SystemExit(main())

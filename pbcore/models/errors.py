"""ModelError, in its own module so that names can be checked without importing torch."""

from pbcore.base.errors import PbcoreError


class ModelError(PbcoreError, RuntimeError):
    """A model can't be loaded or can't answer this prompt; the message says what to do."""

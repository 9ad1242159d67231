"""ModelError, and what the code of others raises. Names can be checked with it, without torch."""

from pbcore.base.errors import PbcoreError


class ModelError(PbcoreError, RuntimeError):
    """A model can't be loaded or can't answer this prompt; the message says what to do."""


# What the code of others raises while it reads files that it can't use.
UNREADABLE = (
    ImportError,
    OSError,
    ValueError,
    AttributeError,
    TypeError,
    RuntimeError,
    KeyError,
)

"""LanguageTool's errors, by how a run must react to them."""

from pbcore.errors import PbcoreError


class Unavailable(PbcoreError, RuntimeError):
    """LanguageTool is not available here; the message says why and what to do. Grammar scores are then absent."""


class ServerDied(PbcoreError, RuntimeError):
    """A server that had answered stopped answering and could not be restarted; cells that need it fail."""


class BadAnswer(PbcoreError, RuntimeError):
    """The server answered without a verdict: an internal error, a rate limit, or a text beyond its limits."""

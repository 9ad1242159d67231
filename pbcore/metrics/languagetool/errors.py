"""What can go wrong with LanguageTool, told apart by what a run should do about it."""


class Unavailable(RuntimeError):
    """LanguageTool can't be had here; the message says why and what to do. Grammar scores are then absent."""


class ServerDied(RuntimeError):
    """A server that had answered stopped answering and could not be brought back; cells that need it fail."""


class BadAnswer(RuntimeError):
    """The server answered, but not with verdicts: an error of its own, a rate limit, or a text beyond its limits."""

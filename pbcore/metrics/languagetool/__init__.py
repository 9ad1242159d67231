"""LanguageTool: installs it, runs one server for a run, checks texts by language_tool_python,
caches verdicts.
"""

from dataclasses import dataclass

from pbcore.base.errors import PbcoreError


class LanguageToolUnavailable(PbcoreError, RuntimeError):
    """LanguageTool is not available, or no longer; the message says why and what to do. Grammar is
    then absent.
    """


@dataclass(frozen=True, slots=True)
class Match:
    """One match of a rule: `rule` is LanguageTool's rule id; `offset` and `length` count characters
    of the text.
    """

    rule: str
    message: str
    offset: int
    length: int
    category: str

"""LanguageTool: finds or installs it, runs one shared server per machine, sends texts concurrently, caches the
verdicts.
"""

from pbcore.metrics.languagetool.errors import BadAnswer, ServerDied, Unavailable

__all__ = ["BadAnswer", "ServerDied", "Unavailable"]

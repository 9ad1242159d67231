"""LanguageTool: found, installed, kept running once per machine, asked concurrently, and remembered."""

from pbcore.metrics.languagetool.errors import BadAnswer, ServerDied, Unavailable

__all__ = ["BadAnswer", "ServerDied", "Unavailable"]

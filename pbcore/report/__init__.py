"""Reports: terminal summary, report.md, figures, JUnit."""

from pbcore.report.markdown import write_report
from pbcore.report.summary import summary

__all__ = ["summary", "write_report"]

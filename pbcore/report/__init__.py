"""What people read: terminal summary, report.md, figures."""

from pbcore.report.markdown import write_report
from pbcore.report.summary import summary

__all__ = ["summary", "write_report"]

"""Reports: terminal summary, report.md, report.html, figures, JUnit. Each module is imported by who
needs it.
"""

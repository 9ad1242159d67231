"""report.html: one self-contained file with tables, plots, samples and their trajectories."""

from pbcore.report.page.write import rebuild, write_page

__all__ = ["rebuild", "write_page"]

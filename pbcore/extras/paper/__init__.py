"""The ParallelBench paper and its site: Table 1 and Figures 2–7 drawn again, published points
beside a run's, a run in the site's layout, and run folders of the 2026 rewrite.
"""

from pbcore.base.command import Command

HERE = "pbcore.extras.paper"
ENTRY_POINTS = {
    "pbcore.commands": {"import": f"{HERE}:IMPORT"},
    "pbcore.figures": {"paper": f"{HERE}.figures:FIGURES"},
    "pbcore.published": {"paper": f"{HERE}.published:RESULTS"},
    "pbcore.report_parts": {"published": f"{HERE}.beside:AGAINST"},
    "pbcore.explain_sides": {"published": f"{HERE}.explained:SIDE"},
    "pbcore.exporters": {"site": f"{HERE}.exporter:SITE"},
    "pbcore.page_sections": {"published": f"{HERE}.section:SECTION"},
    "pbcore.folders": {"rewrite": f"{HERE}.rewrite.questions:FOLDERS"},
    "pbcore.code": {"rewrite": f"{HERE}.rewrite"},
}
IMPORT = Command(
    "make a run of folders of the benchmark's 2026 rewrite",
    group="keep",
    module=f"{HERE}.rewrite.command",
)

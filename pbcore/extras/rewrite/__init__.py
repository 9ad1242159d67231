"""Run folders of the benchmark's 2026 rewrite: their questions for `--data-dir`, and `pbcore
import`.
"""

from pbcore.base.command import Command

HERE = "pbcore.extras.rewrite"
ENTRY_POINTS = {
    "pbcore.commands": {"import": f"{HERE}:COMMAND"},
    "pbcore.folders": {"rewrite": f"{HERE}.questions:FOLDERS"},
    "pbcore.code": {"rewrite": HERE},
}
COMMAND = Command(
    "make a run of folders of the benchmark's 2026 rewrite", group="keep", module=f"{HERE}.command"
)

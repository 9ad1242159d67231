"""Run folders of the benchmark's 2026 rewrite: their questions for `--data-dir`, and `pbcore
import`.
"""

from pbcore.base.extensions import Integration

HERE = "pbcore.extras.rewrite"
INTEGRATION = Integration(
    commands={
        "import": (
            "keep",
            f"{HERE}.command",
            "make a run of folders of the benchmark's 2026 rewrite",
        )
    },
    folders=f"{HERE}.questions:FOLDERS",
    decides=True,
)

"""lm-evaluation-harness with our models and samplers: `lm_eval --model pbcore`, and its results as
runs.
"""

from pbcore.base.extensions import Integration

HERE = "pbcore.integrations.lm_eval"
INTEGRATION = Integration(
    commands={
        "lm-eval": (
            f"{HERE}.command",
            "run the tasks of lm-evaluation-harness, and keep its results as a run",
        )
    },
    options=f"{HERE}.options:HarnessOptions",
    tasks=f"{HERE}.tasks:TASKS",
    decides=True,
)

"""lm-evaluation-harness with our models and samplers: `lm_eval --model pbcore`, and its results as
runs.
"""

from pbcore.base.extensions import Integration

HERE = "pbcore.extras.lm_eval"
INTEGRATION = Integration(
    commands={
        "lm-eval": ("run", f"{HERE}.command", "run tasks of lm-evaluation-harness, kept as a run")
    },
    options=f"{HERE}.options:HarnessOptions",
    tasks=f"{HERE}.tasks:TASKS",
    decides=True,
)

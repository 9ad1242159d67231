"""lm-evaluation-harness with our models and samplers: `lm_eval --model pbcore`, and its results as
runs.
"""

from pbcore.base.command import Command

HERE = "pbcore.extras.lm_eval"
ENTRY_POINTS = {
    "pbcore.commands": {"lm-eval": f"{HERE}:COMMAND"},
    "pbcore.options": {"lm_eval": f"{HERE}.options:HarnessOptions"},
    "pbcore.task_sources": {"lm_eval": f"{HERE}.tasks:TASKS"},
    "pbcore.code": {"lm_eval": HERE},
}
COMMAND = Command(
    "run tasks of lm-evaluation-harness, kept as a run", group="run", module=f"{HERE}.command"
)

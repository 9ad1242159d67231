"""`pbcore check`: whether a machine, a GPU, a model, an engine or scores are what they say.

| module | what for |
|---|---|
| `command_*` | a part of the command each |
| `engine` | made checkpoints with known answers, and what of a program's answers deviates |
| `gpu` | a GPU's answers beside the CPU's, its speed, waits and memory, in steps that resume |
| `remote` | a checkpoint under its authors' own code |
| `agreement` | published text scores beside our own |
| `plugin` | the cases of an engine as pytest items |
"""

from pbcore.base.command import Command

HERE = "pbcore.extras.check"
ENTRY_POINTS = {
    "pbcore.commands": {"check": f"{HERE}:COMMAND"},
    "pbcore.early_plugins": {"check": f"{HERE}.plugin"},
}
COMMAND = Command(
    "check this machine, a GPU, a model, an engine or scores",
    {
        "machine": "show what is installed: libraries, GPU, Java, LanguageTool, models",
        "gpu": "check a GPU: answers beside the CPU's, speed, waits, memory",
        "model": "compare how a checkpoint is loaded with its authors' own code",
        "engine": "check whether a program that decodes gives the right answers",
        "scores": "check a copy of the official data, or the scores of a run",
        "agreement": "compare this package's text scores with published ones",
    },
    alone="machine",
    group="keep",
    module=f"{HERE}.command",
)

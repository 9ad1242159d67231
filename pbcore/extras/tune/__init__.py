"""`pbcore tune`: the fastest sampler of a model that is shown to lose at most so much.

| module | what for |
|---|---|
| `candidates` | the samplers that run a race, and the neighbours of those in front |
| `questions` | which questions each round and the proof have, and how many the proof needs |
| `race` | who leaves after a round, and who goes to the proof: pure rules |
| `answers` | what the rounds' run folders say of each sampler beside the reference |
| `axis` | what a sampler costs: calls, tokens forwarded, or seconds at a price |
| `proof` | the four that were left, on questions that nothing was chosen on |
| `state` | `tune.json`, by which an interrupted tuning goes on |
| `picture` | each sampler by loss and speed-up |
| `report` | what is printed and written: plan, progress, report, tuned.yaml |
| `command` | the command itself |
"""

from pbcore.base.command import Command

HERE = "pbcore.extras.tune"
ENTRY_POINTS = {"pbcore.commands": {"tune": f"{HERE}:COMMAND"}}
COMMAND = Command(
    "find a model's fastest sampler that loses at most 5 points",
    group="run",
    module=f"{HERE}.command",
)

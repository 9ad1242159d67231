"""Models behind a server: OpenAI-compatible ones through the `openai` package, Anthropic's through
`anthropic`.

A declaration (`declared`, `spec`) makes a `model`, which sends each `reply.Ask` through `clients`
and keeps the answers.
"""

from pbcore.base.extensions import Integration

HERE = "pbcore.extras.servers"

INTEGRATION = Integration(
    plugins=(f"{HERE}.plugin",),
    options=f"{HERE}.options:ServerOptions",
    models=f"{HERE}.declared:MODELS",
    served=f"{HERE}.record:Served",
    report=f"{HERE}.record:SECTION",
    engines=f"{HERE}.engine:SOURCE",
    same_on_servers=f"{HERE}.same:same_on_servers",
    decides=True,
)

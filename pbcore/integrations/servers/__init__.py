"""Models behind a server: OpenAI-compatible ones through the `openai` package, Anthropic's through `anthropic`.

| module | what it holds |
|---|---|
| entries, options, plugin, record, report | what the core takes: models, options, hooks, a record's part |
| spec | what a server's model is declared to be; reading `--models FILE` |
| kinds | what kinds of servers accept and report |
| reply | the request and the reply of one answer, and its digest |
| openai_client, anthropic_client, draft | one request through each SDK, and what both share |
| failures | errors without keys |
| store | answers on disk as they come |
| money, api_cost | prices, the estimate before a run, the limit during it |
| model | the model: concurrent requests, answers kept, a session's facts |
"""

from pbcore.extensions import Integration

HERE = "pbcore.integrations.servers"

INTEGRATION = Integration(
    plugins=(f"{HERE}.plugin",),
    options=f"{HERE}.options:ServerOptions",
    models=f"{HERE}.entries:MODELS",
    served=f"{HERE}.record:Served",
    report=f"{HERE}.report:SECTION",
    decides=True,
)

"""Models behind a server: OpenAI-compatible ones through the `openai` package, Anthropic's through
`anthropic`.

A declaration (`declared`, `spec`) makes a `model`, which sends each `reply.Ask` through `clients`
and keeps the answers.
"""

HERE = "pbcore.extras.servers"
ENTRY_POINTS = {
    "pbcore.plugins": {"servers": f"{HERE}.plugin"},
    "pbcore.options": {"servers": f"{HERE}.options:ServerOptions"},
    "pbcore.model_sources": {"servers": f"{HERE}.declared:MODELS"},
    "pbcore.record_parts": {"servers": f"{HERE}.record:Served"},
    "pbcore.sections": {"servers": f"{HERE}.record:SECTION"},
    "pbcore.engines": {"servers": f"{HERE}.engine:SOURCE"},
    "pbcore.on_servers": {"servers": f"{HERE}.same:same_on_servers"},
    "pbcore.code": {"servers": HERE},
}

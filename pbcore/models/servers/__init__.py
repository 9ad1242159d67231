"""Models behind a server: OpenAI-compatible ones through the `openai` package, Anthropic's through `anthropic`.

| module | what it holds |
|---|---|
| spec | what a server's model is declared to be; reading `--models FILE` |
| kinds | what kinds of servers accept and report |
| reply | the request and the reply of one answer, and its digest |
| openai_client, anthropic_client | one request through each SDK |
| failures | errors without keys |
| store | answers on disk as they come |
| money | prices, the estimate before a run, the limit during it |
| model | the model: concurrent requests, answers kept, a session's facts |
| preflight | is the server up, the key there, the model known |
"""

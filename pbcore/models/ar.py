"""The samplers of autoregressive models: `ar`, `ar-lookup10` (drafts from the prompt), `ar-draft5`
(drafts of a smaller model). Doesn't import torch.
"""

from dataclasses import replace

from pbcore.names import SamplerName, SamplerNameError

POLICY = "ar"
_ALLOWED = (
    "use ar, ar-lookup10 (10 tokens a draft, copied from the prompt) or ar-draft5 (5 tokens a"
    " draft, by the model that --draft names), each with +t1.0 for a temperature"
)


def drafts(name: SamplerName) -> dict[str, int]:
    """How many tokens an `ar` sampler drafts before each forward: `lookup` by looking up the last
    tokens in the prompt, `draft` by a smaller model; empty for one token a forward. Raises
    SamplerNameError for what it can't have.
    """
    plain = name == SamplerName(POLICY, name.arguments, temperature=name.temperature)
    match name.arguments:
        case () if plain:
            return {}
        case (("lookup" | "draft" as word, number),) if (
            plain and number.isdecimal() and int(number)
        ):
            return {word: int(number)}
    raise SamplerNameError(f"sampler {name} is not one of autoregressive models: {_ALLOWED}")


def canonical_ar(name: SamplerName) -> SamplerName:
    """The name in one spelling: `ar-lookup010` → `ar-lookup10`. Raises SamplerNameError as
    `drafts`.
    """
    return replace(
        name, arguments=tuple((word, str(number)) for word, number in drafts(name).items())
    )

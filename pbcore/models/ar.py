"""The samplers of autoregressive models: `ar`, `ar-lookup10` (drafts from the prompt), `ar-draft5` (drafts of a smaller
model). Doesn't import torch."""

from dataclasses import dataclass, replace

from pbcore.names import SamplerName, SamplerNameError

POLICY = "ar"
_ALLOWED = (
    "use ar, ar-lookup10 (10 tokens a draft, copied from the prompt) or ar-draft5 (5 tokens a draft, by the model that "
    "--draft names), each with +t1.0 for a temperature"
)


@dataclass(frozen=True, slots=True)
class Drafts:
    """How many tokens are drafted before each forward: `lookup` by looking up the last tokens in the prompt, `draft` by
    a smaller model. Both 0: one token a forward."""

    lookup: int = 0
    draft: int = 0

    def __bool__(self) -> bool:
        return bool(self.lookup or self.draft)


def drafts(name: SamplerName) -> Drafts:
    """The drafts that an `ar` sampler asks for. Raises SamplerNameError for what such a sampler doesn't have."""
    plain = SamplerName(POLICY, name.arguments, temperature=name.temperature)
    match name.arguments:
        case () if name == plain:
            return Drafts()
        case (("lookup" | "draft" as word, number),) if name == plain and number.isdecimal() and int(number):
            return Drafts(**{word: int(number)})
    raise SamplerNameError(f"sampler {name} is not one of autoregressive models: {_ALLOWED}")


def canonical(name: SamplerName) -> SamplerName:
    """The name in one spelling: `ar-lookup010` → `ar-lookup10`. Raises SamplerNameError as `drafts`."""
    drafts(name)
    return replace(name, arguments=tuple((word, str(int(number))) for word, number in name.arguments))

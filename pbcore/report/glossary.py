"""What the names of a report mean: its models, and the parts of its samplers' names."""

import re
from collections.abc import Sequence
from contextlib import suppress

from pbcore.base.errors import InputError
from pbcore.models.families import KINDS
from pbcore.models.info import ModelInfo
from pbcore.names import MODIFIERS, SamplerName, recorded
from pbcore.report.rows import CellRow

MODELS = {
    "ideal": "no network: the exact probabilities of each task's answers; what it gets wrong is"
    " lost by the sampler alone",
    "ideal-mi": "as ideal, with mutual information in the place of attention",
    "tiny": "a small masked diffusion model that comes with pbcore, trained on its tasks",
    "tiny-ar": "tiny, trained further to write left to right, a token per forward",
}
# Of models that decode by themselves.
POLICIES = {
    "ar": "the model writes left to right, a token per forward",
    "server": "a server decodes by its own rule",
}
_PAPER = re.compile(r" \((?:[^()]*, )?arXiv [\d.]+\)")


def glossary(cells: Sequence[CellRow]) -> dict[str, str]:
    """Name → what it means, of the models, then the samplers of some cells, if it is known."""
    meanings = {}
    for row in cells:
        about = about_model(row["model"], row["model_info"] or {})
        if about:
            meanings[row["model"]] = about
    for sampler in dict.fromkeys(row["sampler"] for row in cells):
        about = about_sampler(sampler)
        if about:
            meanings[sampler] = about
    return meanings


def about_model(model: str, info: ModelInfo) -> str:
    """What a model is: of pbcore's own in words, of others where their weights are from."""
    name = model.partition(" of ")[0].partition("@")[0]
    for words in (MODELS, *(kind.words for kind in KINDS.all().values())):
        if name in words:
            return words[name]
    source = info.get("source")
    return f"weights: {source}" if source else ""


def about_sampler(sampler: str) -> str:
    """The rule of a sampler and what its modifiers add; empty where its policy isn't known here."""
    from pbcore.decoding.catalog import policy_rule  # a record doesn't need it

    name = recorded(sampler)
    if name is None:
        return ""
    rule = POLICIES.get(name.policy, "")
    if not rule:
        with suppress(InputError):
            rule = _PAPER.sub("", policy_rule(name.policy)).rstrip(".")
    if not rule:
        return ""
    parts = [rule]
    settings = [f"{word or 'at'} {number}".strip() for word, number in name.arguments if number]
    if settings:
        parts.append(f"here {', '.join(settings)}")
    return "; ".join(parts + _modifiers(name))


def _modifiers(name: SamplerName) -> list[str]:
    """What each modifier of a sampler's name adds."""
    texts = []
    for modifier in MODIFIERS:
        written = modifier.written(name)
        meaning = modifier.meaning(name)
        if written and meaning:
            texts.append(f"+{written}: {meaning}")
    return texts

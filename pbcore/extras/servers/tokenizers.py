"""The tokenizer that a model behind a server declares."""

from functools import lru_cache
from pathlib import Path

from pbcore.extras.servers.spec import KINDS, ServerSpec
from pbcore.models.errors import ModelError
from pbcore.models.tokenizer import NoTokenizer, Tokenizer, read_tokenizer


def declared_tokenizer(spec: ServerSpec) -> Tokenizer | None:
    """The tokenizer that a model declares; None without. Raises ModelError for a folder that has
    none.
    """
    return None if spec.tokenizer is None else _read(spec.name, spec.tokenizer)


@lru_cache(maxsize=8)
def _read(name: str, declared: str) -> Tokenizer:
    folder = Path(declared)
    tokenizer = read_tokenizer(folder, name, None)
    if isinstance(tokenizer, NoTokenizer):
        raise ModelError(
            f"model {name}: tokenizer {declared}: {folder.absolute()} is no folder with"
            " tokenizer.json; give the model's own"
        )
    return tokenizer


def without_template(spec: ServerSpec) -> str | None:
    """A line on prompts that a server gets without the model's chat template; None where it applies
    the template, or ids are sent.
    """
    if not KINDS[spec.kind].generates or spec.tokenizer is not None:
        return None
    return (
        f"model {spec.name}: no tokenizer is declared, so prompts are sent as plain text, without"
        " the model's chat template, and answers have no films; declare tokenizer, the folder with"
        " the model's"
    )

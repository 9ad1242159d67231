"""Loads autoregressive models through transformers' AutoModelForCausalLM, with their tokenizer and stop tokens."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, GenerationConfig

from pbcore.models.causal import ANSWER_TOKENS, CausalModel
from pbcore.models.checkpoints import from_pretrained
from pbcore.models.device import find_device, find_dtype
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.hub import locate
from pbcore.models.loading import plain_info
from pbcore.models.tokenizer import Tokenizer, auto_tokenizer, read_tokenizer

# Settings in generation_config.json that are no rule for choosing tokens.
_HARMLESS = ("eos_token_id", "pad_token_id", "bos_token_id", "transformers_version", "use_cache")


def load_causal(entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions) -> CausalModel:
    """The autoregressive model of a registry entry. Raises ModelError that says what to do."""
    place = find_device(device)
    kind = find_dtype(dtype, place)
    folder = locate(entry, options)
    trust = options.trust_remote_code
    module: Any = from_pretrained(AutoModelForCausalLM, folder, place, kind, options, trust_remote_code=trust)
    module.eval().requires_grad_(False)
    tokenizer = _tokenizer(folder, entry, options)
    stops = _stop_ids(module, entry, options, tokenizer)
    length = entry.settings.get("max_new_tokens", None if entry.embedded else ANSWER_TOKENS)
    # The checkpoint's own settings (sampling, penalties) are dropped, so that greedy is greedy.
    settings = module.generation_config.to_diff_dict().items()
    module.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
    info = plain_info(entry, options, module.config.model_type, module, kind) | {
        "remote_code": type(module).__module__.startswith("transformers_modules"),
        "autoregressive": True,
        "max_new_tokens": length,
        "stop_ids": list(stops),
        "generation_config_overridden": {
            key: value for key, value in settings if key not in _HARMLESS and not key.startswith(("_", "output_"))
        },
    }
    if folder.parent.name == "snapshots":  # of the hub's cache, named by commit
        info["revision"] = folder.name
    model = CausalModel(
        name=entry.name,
        module=module,
        tokenizer=tokenizer,
        stop_ids=stops,
        limit=getattr(module.config.get_text_config(), "max_position_embeddings", None),
        length=length,
        vocab_size=module.get_input_embeddings().num_embeddings,
        device=module.device,
        info=info,
    )
    return model if options.draft is None else _with_draft(model, options.draft, device, dtype)


def _with_draft(model: CausalModel, name: str, device: str, dtype: str | None) -> CausalModel:
    """The model with one that drafts for it. Raises ModelError for one that isn't autoregressive, or with other
    tokens.
    """
    from pbcore.models.registry import load_model

    small = load_model(name, device, dtype)
    if not isinstance(small, CausalModel):
        raise ModelError(f"draft {name!r} is not an autoregressive model; give a smaller model with the same tokenizer")
    if small.tokenizer.words() != model.tokenizer.words():
        raise ModelError(
            f"draft {name!r} has another vocabulary than {model.name}; give a smaller model with the same tokenizer"
        )
    size = model.module.config.get_text_config().vocab_size
    if small.module.config.get_text_config().vocab_size != size:  # sizes of a family have unused rows at the end
        small.module.resize_token_embeddings(size, mean_resizing=False)
    settings = small.module.generation_config
    settings.num_assistant_tokens_schedule, settings.assistant_confidence_threshold = "constant", 0.0
    kept = {key: small.info[key] for key in ("source", "revision", "family", "parameters", "dtype")}
    return replace(model, draft=small.module, info={**model.info, "draft": kept})


def _tokenizer(folder: Path, entry: ModelEntry, options: LoadOptions) -> Tokenizer:
    """The tokenizer of tokenizer.json, or else the one that transformers makes of the folder's other files."""
    mode = options.chat or entry.chat
    others = ("tokenizer_config.json", "tokenizer.model", "vocab.json")
    if (folder / "tokenizer.json").is_file() or not any((folder / name).is_file() for name in others):
        return read_tokenizer(folder, entry.name, mode)
    return auto_tokenizer(folder, entry.name, mode, options.trust_remote_code)


def _stop_ids(module: Any, entry: ModelEntry, options: LoadOptions, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Every id that ends an answer: those of the options, the table, generation_config.json, config.json and the
    tokenizer, without those that the model has no embedding for.
    """
    given = [options.eos_id, entry.eos_id, *entry.stop_ids]
    for config in (module.generation_config, module.config.get_text_config()):
        ids = config.eos_token_id
        given += ids if isinstance(ids, list) else [ids]
    size = module.get_input_embeddings().num_embeddings
    known = (int(i) for i in (*given, tokenizer.eos_id) if i is not None and 0 <= i < size)
    return tuple(dict.fromkeys(known))

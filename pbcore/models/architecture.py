"""Maps a published checkpoint's config.json to one of transformers' own architectures and
configs.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any

import transformers
from huggingface_hub.errors import StrictDataclassError
from packaging.version import Version
from transformers import PretrainedConfig

from pbcore.base.printable import printable, shown
from pbcore.models.errors import ModelError
from pbcore.models.families import BODIES, FAMILIES, PLAIN, Family, resembled
from pbcore.models.file_keys import READ, JudgedKeys, judge, judge_rope

# What transformers' own checks of a config's values raise, and what sizes that make no sense lead
# to.
INVALID = (TypeError, ValueError, ArithmeticError, StrictDataclassError)
# What config.json may say of these, in any family. Lists of values, one a layer, are transformers'
# to check.
_WHOLE = frozenset(
    (
        "vocab_size",
        "embedding_size",
        "hidden_size",
        "d_model",
        "intermediate_size",
        "mlp_hidden_size",
        "num_hidden_layers",
        "n_layers",
        "num_attention_heads",
        "n_heads",
        "num_key_value_heads",
        "n_kv_heads",
        "head_dim",
        "rotary_dim",
        "max_position_embeddings",
        "max_sequence_length",
        "num_experts",
        "num_experts_per_tok",
        "num_shared_experts",
        "moe_intermediate_size",
        "expert_intermediate_size",
        "dense_intermediate_size",
        "n_group",
        "topk_group",
        "first_k_dense_replace",
        "decoder_sparse_step",
    )
)
_ABOVE_0 = frozenset(
    (
        "rope_theta",
        "rms_norm_eps",
        "mlp_ratio",
        "partial_rotary_factor",
        "routed_scaling_factor",
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    )
)
_FLAGS = frozenset(
    (
        "tie_word_embeddings",
        "weight_tying",
        "attention_bias",
        "mlp_bias",
        "shift_logits",
        "norm_topk_prob",
        "multi_query_attention",
    )
)
_NO_IDS = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))


@dataclass(frozen=True, slots=True)
class Architecture:
    """How to build and fill a checkpoint: transformers' class and config, and the key map. `blocks`
    says whether attention is block-causal, `block` its block length if known; `problems` what is
    wrong with config.json, to be named together with what is wrong with the weights; `refused` what
    makes it another model than a `kind`, and `notes` what else is to be said of it.
    """

    kind: str  # a row of `families`
    model_class: Any
    config: PretrainedConfig
    keys: Mapping[str, str]
    shift: bool
    blocks: bool = False
    block: int | None = None
    may_have_blocks: bool = False
    problems: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def rename(self, key: str) -> str:
        """A checkpoint's key as transformers calls it; keys without a rule stay."""
        for pattern, replacement in self.keys.items():
            if re.fullmatch(pattern, key):
                return re.sub(pattern, replacement, key)
        return key


def refuse_odd_values(raw: Mapping[str, Any], where: str) -> None:
    """Raises ModelError that names each key of a config.json (`raw`) whose value can't be meant,
    such as a text for a number. `where` names the file.
    """
    odd = list(_odd_values(raw))
    for key in ("rope_scaling", "rope_parameters"):
        value = raw.get(key)
        if isinstance(value, Mapping):
            odd += [f"{key}.{problem}" for problem in _odd_values(value)]
        elif value is not None:
            odd.append(f"{key} is {shown(value)}; it should be a mapping")
    if odd:
        raise ModelError(f"{where}: {'; '.join(odd)}. Mend config.json")


def _odd_values(values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        if value is None or isinstance(value, list | Mapping):
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if key in _WHOLE and not (number and isinstance(value, int) and value >= 0):
            yield f"{key} is {shown(value)}; it should be a whole number"
        elif key in _ABOVE_0 and not (number and 0 < value < inf):
            yield f"{key} is {shown(value)}; it should be a number above 0"
        elif key in _FLAGS and value not in (True, False):
            yield f"{key} is {shown(value)}; it should be true or false"


def architecture(
    raw: Mapping[str, Any], where: str, layers: int | None = None, given: str | None = None
) -> Architecture:
    """The architecture that a config.json describes.

    LLaDA becomes Llama and Dream becomes Qwen2, both with `is_causal = False`, which gives full
    attention in every implementation; the other families are in `families`.

    Args:
        raw: the content of config.json.
        where: names the file in errors.
        layers: overrides the number of layers.
        given: the row of `families` that it is declared to be; None: the one it names.

    Raises:
        ModelError: for other architectures, and naming every key that is missing or has a value
            that no model can be built with.
    """
    name = given or resembled(raw)
    if name is None:
        raise ModelError(
            f"{where}: model_type {raw.get('model_type')!r} can't be loaded natively;"
            f" {', '.join(FAMILIES)}, and llama, qwen2 or qwen3 with full attention can. If it is"
            " one of them, say so: architecture=…. With trust_remote_code the checkpoint's own code"
            " runs instead"
        )
    refuse_odd_values(raw, where)
    family = BODIES[name]
    model_class = _body(family, name, where)
    declared = {declared.name for declared in fields(model_class.config_class)}
    known = family.config_keys(declared)
    readable = known.reads | known.only.keys()
    keys = _Keys({key: value for key, value in raw.items() if key in readable})
    problem: str | None = None
    try:
        config = model_class.config_class(**_VALUES.get(name, _plain)(keys))
    except INVALID as error:
        problem = printable(" ".join(str(error).split()), 300)
    if keys.missing:
        problem = f"config.json has no {', '.join(dict.fromkeys(keys.missing))}"
    if problem is not None:
        odd = (*keys.problems, *judge(raw, known).problems, *family.strangers(raw))
        raise ModelError(
            f"{where} ({name}): {'; '.join([problem, *odd])}. Complete or mend config.json"
        )

    def honours(key: str, value: Any) -> bool | None:
        return getattr(config, key) == value if key in declared else None

    judged = judge(raw, known, honours) + _rope(raw, family)
    config.is_causal = config.use_cache = False
    if raw.get("quantization_config"):  # which transformers' loader reads
        config.quantization_config = raw["quantization_config"]
    if layers is not None:
        config.num_hidden_layers = layers
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:layers]
    result = Architecture(
        name,
        model_class,
        config,
        family.keys,
        shift=bool(raw.get("shift_logits", family.shift)),
        blocks=family.block is not None,
        block=family.block_of(raw),
        may_have_blocks=family.may_have_blocks,
        problems=(*judged.problems, *keys.problems),
    )
    return _with_words(result, raw, family, judged, given is not None)


def _rope(raw: Mapping[str, Any], family: Family) -> JudgedKeys:
    judged = JudgedKeys()
    for key in ("rope_scaling", "rope_parameters"):
        if isinstance(raw.get(key), Mapping):
            judged += judge_rope(raw[key], key, family.rope)
    return judged


def _with_words(
    arch: Architecture, raw: Mapping[str, Any], family: Family, judged: JudgedKeys, given: bool
) -> Architecture:
    """With what is to be said of its config.json.

    Args:
        arch: the architecture.
        raw: the content of config.json.
        family: its row.
        judged: what its keys say.
        given: whether it is declared to be of this architecture.
    """
    strange = [*family.strangers(raw), *judged.refused]
    notes = []
    if given and strange:
        notes.append(f"loaded as {arch.kind}, as declared; not honoured are {'; '.join(strange)}")
    elif arch.kind in PLAIN and not strange and raw.get("is_causal") is not False and not given:
        notes.append(
            f"loaded as {arch.kind} with full attention, since it has the id of a mask token and"
            f' nothing else says how it attends. architecture="{arch.kind}" confirms it, or'
            ' "is_causal": false in config.json'
        )
    if judged.named:
        notes.append(
            f"nothing here knows these keys of config.json, which are not honoured:"
            f" {'; '.join(judged.named)}"
        )
    return replace(arch, refused=() if given else tuple(strange), notes=tuple(notes))


def refusal(arch: Architecture, where: str) -> str:
    """What is said of a checkpoint that names another model than the one that it resembles."""
    return (
        f"{where}: config.json describes another model than {arch.kind}: {'; '.join(arch.refused)}."
        f' To load it as {arch.kind} all the same: load_model(…, architecture="{arch.kind}"), or'
        f" --architecture {arch.kind}. With trust_remote_code its own code runs, if it has any"
    )


def _body(family: Family, name: str, where: str) -> Any:
    """transformers' class. Raises ModelError if the installed version lacks it as it is needed."""
    installed = transformers.__version__
    if family.since is not None and Version(installed) < Version(family.since):
        raise ModelError(
            f"{where}: {name} needs transformers {family.since} or newer, for its"
            f" {family.body.removesuffix('ForCausalLM')}, and {installed} is installed; run"
            f" `pip install -U 'transformers>={family.since}'`"
        )
    return getattr(transformers, family.body)


@dataclass(slots=True)
class _Keys:
    """A config.json read strictly: every key that is missing or has an unusable value is collected,
    then named.
    """

    raw: Mapping[str, Any]
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def need(self, *names: str) -> Any:
        """The first of these keys that is there; 0 where none is, which `missing` then names."""
        value = next((self.raw[name] for name in names if self.raw.get(name) is not None), None)
        if value is None:
            self.missing.append(" or ".join(names))
            return 0
        return value

    def same(self, *names: str) -> dict[str, Any]:
        """Keys that must be there and that transformers calls the same."""
        return {name: self.need(name) for name in names}

    def head_dim(self) -> int:
        """Width of a head: given, else hidden_size / heads."""
        if given := self.raw.get("head_dim"):
            return int(given)
        width = self.need("hidden_size")
        heads = self.need("num_attention_heads") or 1
        return int(width // heads)

    def rope(self, *theta: float) -> dict[str, Any]:
        """The rotary positions, as transformers reads them.

        Args:
            theta: the base where config.json names none; without it one has to be there.
        """
        rope = dict(self.raw.get("rope_scaling") or self.raw.get("rope_parameters") or {})
        older = rope.pop("type", None)
        rope["rope_type"] = rope.get("rope_type") or older or "default"
        if rope.get("rope_theta") is None:
            given = self.raw.get("rope_theta")
            rope["rope_theta"] = theta[0] if given is None and theta else self.need("rope_theta")
        return rope

    def sizes(self, *more: str) -> dict[str, Any]:
        """Values that every body has, and `more` of the same name."""
        return {
            **self.same("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
            **self.same("max_position_embeddings", "rms_norm_eps"),
            "num_key_value_heads": (
                self.raw.get("num_key_value_heads") or self.need("num_attention_heads")
            ),
            "head_dim": self.head_dim(),
            "rope_parameters": self.rope(),
            **{
                name: bool(self.raw.get(name, False))
                for name in ("tie_word_embeddings", "attention_bias", "mlp_bias")
            },
            **_NO_IDS,
            **self.same(*more),
        }


def _dense(keys: _Keys) -> dict[str, Any]:
    return keys.sizes("intermediate_size")


def _sdar(keys: _Keys) -> dict[str, Any]:
    return _dense(keys) | {"head_dim": int(keys.need("head_dim"))}


def _sdar_moe(keys: _Keys) -> dict[str, Any]:
    return {
        **_sdar(keys),
        **keys.same("moe_intermediate_size", "num_experts", "num_experts_per_tok"),
        "norm_topk_prob": bool(keys.need("norm_topk_prob")),
        "decoder_sparse_step": keys.raw.get("decoder_sparse_step") or 1,
        "mlp_only_layers": list(keys.raw.get("mlp_only_layers") or []),
    }


def _llada_moe(keys: _Keys) -> dict[str, Any]:
    """Softmax over all experts; the weights of the chosen ones aren't renormalised, whatever
    `norm_topk_prob` says.
    """
    sizes = keys.sizes()
    layers = int(sizes["num_hidden_layers"])
    frequency = keys.raw.get("moe_layer_freq") or [1] * layers
    if not isinstance(frequency, Sequence) or len(frequency) != layers:
        keys.problems.append(f"moe_layer_freq {frequency!r} (known: one 0 or 1 for each layer)")
        frequency = [1] * layers
    dense = [i for i, moe in enumerate(frequency) if not moe]
    return {
        **sizes,
        **keys.same("num_experts", "num_experts_per_tok"),
        "intermediate_size": keys.need("dense_intermediate_size") if dense else 1,
        "moe_intermediate_size": keys.need("expert_intermediate_size"),
        "norm_topk_prob": False,
        "mlp_only_layers": dense,
    }


def _llada2(keys: _Keys) -> dict[str, Any]:
    """Sigmoid scores, chosen with a bias among the best groups, weighted without it."""
    values = keys.sizes(
        "intermediate_size", "moe_intermediate_size", "num_experts_per_tok", "topk_group"
    )
    factor = keys.raw.get("partial_rotary_factor")
    if factor is None:
        factor = int(keys.need("partial_rotary_factor", "rotary_dim")) / (values["head_dim"] or 1)
    values["rope_parameters"]["partial_rotary_factor"] = float(factor)
    experts = int(keys.need("num_experts"))
    groups = int(keys.need("n_group"))
    if groups and (experts % groups or experts // groups < 2):
        keys.problems.append(
            f"{experts} experts in {groups} groups (known: groups of equal size, at least 2)"
        )
    if values["topk_group"] > groups:
        keys.problems.append(f"topk_group {values['topk_group']} of {groups} groups")
    return {
        **values,
        "attention_bias": False,
        "use_qk_norm": True,
        "num_experts": experts,
        "n_routed_experts": experts,
        "n_shared_experts": int(keys.need("num_shared_experts")),
        "n_group": groups,
        "routed_scaling_factor": float(keys.need("routed_scaling_factor")),
        "first_k_dense_replace": int(keys.raw.get("first_k_dense_replace") or 0),
        "norm_topk_prob": values["num_experts_per_tok"] > 1,
        "num_mtp_layers": 0,
    }


def _llada(keys: _Keys) -> dict[str, Any]:
    raw = keys.raw
    heads = keys.need("n_heads")
    width = keys.need("d_model")
    return {
        "vocab_size": keys.need("embedding_size", "vocab_size"),
        "hidden_size": width,
        "intermediate_size": (
            raw.get("mlp_hidden_size") or keys.need("mlp_ratio", "mlp_hidden_size") * width
        ),
        "num_hidden_layers": keys.need("n_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": (
            raw.get("n_kv_heads") or (1 if raw.get("multi_query_attention") else heads)
        ),
        "max_position_embeddings": keys.need("max_sequence_length"),
        "rms_norm_eps": raw.get("rms_norm_eps", 1e-5),
        "head_dim": raw.get("head_dim") or int(width // (heads or 1)),
        "rope_parameters": keys.rope(10000.0),
        "tie_word_embeddings": bool(raw.get("weight_tying", False)),
        **_NO_IDS,
    }


def _plain(keys: _Keys) -> dict[str, Any]:
    """config.json as it is: it has transformers' own names."""
    unset = {"rope_scaling"} if keys.raw.get("rope_scaling") is None else set()
    kept = {key: value for key, value in keys.raw.items() if key not in {*READ, *unset}}
    return kept | _NO_IDS


_VALUES: Mapping[str, Callable[[_Keys], dict[str, Any]]] = {
    "llada": _llada,
    "sdar": _sdar,
    "sdar_moe": _sdar_moe,
    "fast_dllm_v2": _dense,
    "stable_diffcoder": _dense,
    "llada_moe": _llada_moe,
    "llada2": _llada2,
    "nemotron": _dense,
}

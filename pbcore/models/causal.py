"""Autoregressive models: any `AutoModelForCausalLM` of transformers, with its tokenizer and stop
tokens, decoded by the library's own `generate`.

R rows, P prompt columns, L answer tokens, V vocabulary.
"""

import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    GenerationConfig,
    LogitsProcessorList,
    StoppingCriteriaList,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from pbcore.base.printable import shown
from pbcore.costs.calls import CallShape, tokens_forwarded
from pbcore.models import ar
from pbcore.models.base import Generation, Prompt, Request
from pbcore.models.checkpoints import from_pretrained
from pbcore.models.counter_rng import categorical, uniform
from pbcore.models.device import find_device, find_dtype
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import ROPES, code_of, read_config
from pbcore.models.file_keys import IGNORED, READ, Keys, judge
from pbcore.models.hub import locate
from pbcore.models.identity import ModelFiles, model_files
from pbcore.models.info import ModelInfo
from pbcore.models.loading import plain_info
from pbcore.models.rope import forget_lengths, rules_by_length
from pbcore.models.token_ids import ids_of
from pbcore.models.tokenizer import Tokenizer, encode_request, end_of, read_tokenizer
from pbcore.names import SamplerName, SamplerNameError
from pbcore.tasks.base import Sample

ANSWER_TOKENS = 1024  # the paper's limit for autoregressive models (Tables 5 to 7)
_OPEN = -1  # in a request's canvas: a token to generate
# Of a config.json, beside what transformers' class declares: its networks ask for them by name.
_READ_TOO = ("head_dim", "partial_rotary_factor", "num_nextn_predict_layers")
# Settings in generation_config.json that are no rule for choosing tokens.
_HARMLESS = ("eos_token_id", "pad_token_id", "bos_token_id", "transformers_version", "use_cache")


@dataclass(frozen=True, slots=True)
class CausalModel:
    """An autoregressive model, a BatchDecoder. An answer ends with one of `stop_ids`, or after as
    many tokens as were asked for, else `length` (None: as many as the sample's canvas has), at most
    as many as `limit`, the model's maximum sequence length, leaves. `draft` is the model whose
    drafts `ar-draftN` verifies.
    """

    name: str
    module: Any
    tokenizer: Tokenizer
    stop_ids: tuple[int, ...]
    limit: int | None
    length: int | None
    vocab_size: int
    device: torch.device
    info: ModelInfo
    files: ModelFiles
    draft: Any | None = None

    @property
    def eos_id(self) -> int | None:
        return self.stop_ids[0] if self.stop_ids else None

    def check(self, sampler: SamplerName) -> None:
        if sampler.policy != ar.POLICY:
            raise SamplerNameError(
                f"sampler {sampler}: {self.name} is autoregressive, one token after the other: use"
                " ar, ar-lookup10 or ar-draft5"
            )
        if "draft" in ar.drafts(sampler) and self.draft is None:
            raise SamplerNameError(
                f"sampler {sampler}: {self.name} has no model that drafts; name a smaller one with"
                " the same tokenizer (--draft MODEL, load_model(…, draft=MODEL))"
            )

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        """A prompt as a row; its canvas has as many places as the answer may have tokens.

        Args:
            prompt: a Sample, chat messages, text or token ids.
            max_new_tokens: the length of the answer; None: the Sample's.
            key: tells rows' random numbers apart.

        Raises:
            ModelError: for infilling, words or ids outside the vocabulary, too long rows, an empty
                prompt and a missing length.
        """
        sample = prompt if isinstance(prompt, Sample) else None
        if sample is not None and sample.canvas is not None:
            raise ModelError(
                f"{self.name} can't do infilling (task {sample.task}): it writes from left to right"
                " and does not see the tokens given further on; leave the task out"
            )
        given = self.length if sample is None and max_new_tokens is None else max_new_tokens
        limit = inf if self.limit is None else self.limit
        sizes: dict[str, Any] = {"hole": _OPEN, "tokens": self.vocab_size, "limit": limit}
        of = "the most tokens of an answer"
        request = encode_request(self.name, self.tokenizer, prompt, given, key, **sizes, of=of)
        if not request.prompt_ids:
            ids = f"0..{self.vocab_size - 1}"
            raise ModelError(
                f"{self.name}: the prompt is empty; give at least one id of its vocabulary {ids}"
            )
        if sample is None or max_new_tokens is not None:
            return request
        # There must be room for the sample's own length; its answer may be longer.
        longest = min(sample.answer_limit(self.length or 0), limit - len(request.prompt_ids))
        return replace(request, canvas=(_OPEN,) * int(longest))

    def text(self, token_ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(token_ids[: end_of(token_ids, self.stop_ids)]))

    def answer(
        self, requests: Sequence[Request], sampler: SamplerName, *, seed: int
    ) -> list[Generation]:
        """One Generation per row. With drafts one row after the other, as transformers can't verify
        drafts of several rows. Where rotary frequencies depend on the length, rows share a batch
        only with prompts as long as theirs.

        Args:
            requests: the rows.
            sampler: one that `check` accepts.
            seed: of the draws.

        Raises:
            SamplerNameError: as `check`.
            ModelError: if the model's logits have no largest one.
        """
        self.check(sampler)
        alone = bool(ar.drafts(sampler))
        by_length = bool(rules_by_length(self.module))
        groups = defaultdict[int, list[int]](list)
        for row, request in enumerate(requests):
            groups[row if alone else len(request.prompt_ids) if by_length else 0].append(row)
        answers: dict[int, Generation] = {}
        for rows in groups.values():
            own = self._answer([requests[row] for row in rows], sampler, seed)
            answers.update(zip(rows, own, strict=True))
        return [answers[row] for row in range(len(requests))]

    def _answer(
        self, requests: Sequence[Request], sampler: SamplerName, seed: int
    ) -> list[Generation]:
        prompts = [self._tensor(request.prompt_ids) for request in requests]
        ids = pad_sequence(prompts, True, self.eos_id or 0, "left")  # (R, P)
        mask = pad_sequence([torch.ones_like(one) for one in prompts], True, 0, "left")  # (R, P)
        prompt = ids.shape[1]
        limits = self._tensor([len(request.canvas) for request in requests])  # (R,)
        keys = self._tensor([request.key for request in requests])
        stops = self._tensor(self.stop_ids)
        watch = _Watch(keys, limits, prompt, stops, sampler.temperature, seed)
        sizes = _Sizes([len(request.prompt_ids) for request in requests], prompt)
        output = self._generated(ids, mask, ar.drafts(sampler), watch, sizes)  # (R, P + L)
        if not bool(watch.confidences.isfinite().all()):
            raise ModelError(
                f"{self.name}: its logits hold NaN or infinity; another dtype may help (float16"
                " overflows where bfloat16 does not)"
            )
        answers = output[:, prompt:].tolist()
        return [
            self._generation(request, row, answers[row], watch, sizes)
            for row, request in enumerate(requests)
        ]

    def _generated(
        self,
        ids: Tensor,
        mask: Tensor,
        drafts: Mapping[str, int],
        watch: "_Watch",
        sizes: "_Sizes",
    ) -> Tensor:
        """The prompts `ids` (R, P) with what `generate` adds to them, (R, P + L).

        Args:
            ids: padded on the left.
            mask: (R, P) 0 where they are padded.
            drafts: how many tokens are drafted, by what drafts them.
            watch: chooses the tokens, and counts forwards.
            sizes: notes the sizes of forwards.
        """
        for module in (self.module, self.draft):
            if module is not None:
                forget_lengths(module)
        config = GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=watch.steps.shape[1],
            do_sample=False,  # `watch` draws
            eos_token_id=list(self.stop_ids) or None,
            pad_token_id=self.eos_id or 0,
            prompt_lookup_num_tokens=drafts.get("lookup"),
        )
        draft = self.draft if "draft" in drafts else None
        with ExitStack() as hooks:
            hooks.enter_context(self.module.register_forward_pre_hook(sizes, with_kwargs=True))
            hooks.enter_context(self.module.register_forward_hook(watch.counter("forwards")))
            if draft is not None:
                draft.generation_config.num_assistant_tokens = drafts["draft"]
                hooks.enter_context(draft.register_forward_hook(watch.counter("draft_forwards")))
            output: Tensor = self.module.generate(
                ids,
                attention_mask=mask,
                generation_config=config,
                logits_processor=LogitsProcessorList([watch]),
                stopping_criteria=StoppingCriteriaList([watch.at_limit]),
                assistant_model=draft,
            )
        return output

    def _generation(
        self,
        request: Request,
        row: int,
        tokens: list[int],
        watch: "_Watch",
        sizes: "_Sizes",
    ) -> Generation:
        tokens = tokens[: len(request.canvas)]
        end = end_of(tokens, self.stop_ids)
        kept = tokens[: end + 1]  # what follows is padding
        nfe = int(watch.nfe[row])
        calls, padded = sizes.of(row, nfe)
        return Generation(
            text=self.text(kept),
            token_ids=tuple(kept),
            nfe=nfe,
            calls=calls,
            tokens_padded=padded,
            share_of_calls=share_of_calls(watch.nfe.tolist(), nfe),
            answer_tokens=end,
            steps=tuple(watch.steps[row, : len(kept)].tolist()),
            confidences=tuple(watch.confidences[row, : len(kept)].tolist()),
            text_after_eos=False,
            extra={
                "finish_reason": "length" if end == len(tokens) else "stop",
                "max_new_tokens": len(request.canvas),
                **({"draft_forwards": watch.draft_forwards} if watch.draft_forwards else {}),
            },
        )

    def _tensor(self, values: Any) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self.device)


class _Sizes:
    """A hook that notes the size of each forward, whose columns all rows share.

    Args:
        prompts: the length of each row's prompt.
        width: that of the longest, to which the others are padded on the left.
    """

    def __init__(self, prompts: Sequence[int], width: int) -> None:
        self._prompts = prompts
        self._width = width
        self._forwards: list[tuple[int, int, int]] = []  # columns, earlier ones in the cache, read

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        ids = args[0] if args else kwargs["input_ids"]
        cache = kwargs.get("past_key_values")
        columns = ids.shape[1]
        cached = 0 if cache is None else int(cache.get_seq_length())
        read = kwargs.get("logits_to_keep") or columns
        self._forwards.append((columns, cached, min(int(read), columns)))

    def of(self, row: int, count: int) -> tuple[dict[CallShape, int], int]:
        """The calls for a row that took part in the first `count` forwards, and the columns that
        were padding in it, those of later forwards among them.
        """
        left = self._width - self._prompts[row]  # columns before the row's own
        calls = Counter[CallShape]()
        for columns, cached, read in self._forwards[:count]:
            context = max(0, cached - left)
            tokens = cached + columns - left - context
            calls[CallShape(1, tokens, context, min(read, tokens))] += 1
        every = sum(columns for columns, _, _ in self._forwards)
        return dict(calls), every - tokens_forwarded(calls)


def share_of_calls(forwards: Sequence[int], own: int) -> float:
    """A row's part of a batch's calls, each divided among the rows that take part in it.

    Args:
        forwards: how many of the batch's first forwards each row takes part in.
        own: those of the row.
    """
    return sum(1 / sum(number > call for number in forwards) for call in range(own))


class _Watch:
    """Chooses each next token for `generate`, and records its probability and forwards.

    Draws depend on (seed, row, position) alone, so that drafts change no answer. A drawn token's
    score is raised above all others instead of ruling those out, because prompt lookup asks which
    tokens are ruled out. A draft's position that isn't accepted is visited again: its last note
    holds.
    """

    def __init__(
        self,
        keys: Tensor,
        limits: Tensor,
        prompt: int,
        stops: Tensor,
        temperature: float,
        seed: int,
    ) -> None:
        self._keys = keys
        self._limits = limits
        self._prompt = prompt
        self._stops = stops
        self._temperature = temperature
        self._seed = seed
        self.forwards = self.draft_forwards = self._counted = 0
        size = (len(keys), int(limits.max()))
        self.nfe = torch.zeros_like(keys)  # (R,) forwards of each row up to its end
        self.steps = torch.zeros(size, dtype=torch.long, device=keys.device)  # (R, L)
        self.confidences = torch.zeros(size, device=keys.device)  # (R, L)

    def counter(self, name: str) -> Any:
        """A hook that counts a model's forwards."""
        return lambda *_: setattr(self, name, getattr(self, name) + 1)

    def at_limit(self, input_ids: Tensor, scores: Tensor, **_: Any) -> Tensor:
        """Which rows (R,) have as many tokens as were asked for: each ends at its own length."""
        return input_ids.shape[1] - self._prompt >= self._limits

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores (R, V) whose largest is the next token's; `input_ids` (R, P + tokens so far)."""
        place = input_ids.shape[1] - self._prompt
        if self.forwards > self._counted:
            ended = torch.isin(input_ids[:, self._prompt :], self._stops).any(-1) | (
                place >= self._limits
            )  # (R,)
            self.nfe += torch.where(ended, 0, self.forwards - self._counted)
            self._counted = self.forwards
        if place >= self.steps.shape[1]:  # a draft may be longer than the answer
            return scores
        token = scores.argmax(-1)  # (R,)
        if self._temperature:
            none = torch.zeros_like(self._keys)
            places = torch.full_like(token, place)
            numbers = uniform(self._seed, self._keys, none, places[:, None])
            token = categorical(scores / self._temperature, numbers[:, 0])
        chosen = scores.gather(-1, token[:, None])  # (R, 1)
        self.confidences[:, place] = (chosen[:, 0] - scores.logsumexp(-1)).exp()
        self.steps[:, place] = self.nfe - 1
        if self._temperature:
            scores = scores.scatter(-1, token[:, None], scores.amax(-1, keepdim=True) + 1)
        return scores


def answer_length(entry: ModelEntry) -> int | None:
    """The most tokens of an answer; None: as many as each sample's canvas has."""
    length: int | None = entry.settings.get(
        "max_new_tokens", None if entry.embedded else ANSWER_TOKENS
    )
    return length


def load_causal(
    entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions
) -> CausalModel:
    """The autoregressive model of a registry entry.

    Args:
        device: such as `cpu` or `cuda:0`.
        dtype: None: bfloat16 on a GPU, float32 on the CPU.
        options: how it is loaded.

    Raises:
        ModelError: says what to do.
    """
    place = find_device(device)
    kind = find_dtype(dtype, place)
    folder = locate(entry, options)
    files = model_files(entry, folder, options)
    trust = options.trust_remote_code
    raw = read_config(folder)
    if not (trust and raw.get("auto_map")):
        _check_config(raw, str(folder), options.architecture == "causal")
    module: Any = from_pretrained(
        AutoModelForCausalLM, folder, place, kind, options, trust_remote_code=trust
    )
    others = ("tokenizer_config.json", "tokenizer.model", "vocab.json")
    auto = not (folder / "tokenizer.json").is_file() and any(
        (folder / name).is_file() for name in others
    )
    tokenizer = read_tokenizer(
        folder, entry.name, options.chat or entry.chat, auto=auto, trust_remote_code=trust
    )
    stops = _stop_ids(module, entry, options, tokenizer)
    length = answer_length(entry)
    # The checkpoint's own settings (sampling, penalties) are dropped, so that greedy is greedy.
    settings = module.generation_config.to_diff_dict().items()
    module.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
    info: ModelInfo = {
        **plain_info(entry, options, module.config.model_type, module, kind, files),
        "remote_code": type(module).__module__.startswith("transformers_modules"),
        "autoregressive": True,
        "max_new_tokens": length,
        "stop_ids": list(stops),
        "generation_config_overridden": {
            key: value
            for key, value in settings
            if key not in _HARMLESS and not key.startswith(("_", "output_"))
        },
    }
    model = CausalModel(
        name=entry.name,
        module=module.eval().requires_grad_(False),
        tokenizer=tokenizer,
        stop_ids=stops,
        limit=getattr(module.config.get_text_config(), "max_position_embeddings", None),
        length=length,
        vocab_size=module.get_input_embeddings().num_embeddings,
        device=module.device,
        info=info,
        files=files,
    )
    return model if options.draft is None else _with_draft(model, options.draft, device, dtype)


def _check_config(raw: Mapping[str, Any], where: str, given: bool) -> None:
    """Holds a config.json against the class of transformers that its model_type stands for, and
    warns of what that class doesn't read.

    Args:
        raw: the content of config.json.
        where: names the file in errors.
        given: whether the user says that it is what transformers takes it for.

    Raises:
        ModelError: for a config.json whose `architectures` name another class.
    """
    kind = str(raw.get("model_type"))
    name = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind)
    if name is None:
        return  # transformers says so
    known = {name} if isinstance(name, str) else {*name}
    named = {str(other) for other in raw.get("architectures") or []}
    usual = {other.casefold() for other in known}
    others = [shown(other) for other in sorted(named) if other.casefold() not in usual]
    notes = []
    if others:
        what = f"architectures {', '.join(others)}, but its model_type {kind} is {min(known)}"
        if not given:
            raise ModelError(
                f"{where}: config.json names {what} in transformers. To load it as that all the"
                ' same: load_model(…, architecture="causal"), or --architecture causal. With'
                " trust_remote_code its own code runs, if it has any"
            )
        notes.append(f"config.json names {what}, which is loaded, as architecture says")
    if code := code_of(raw):
        notes.append(
            f"transformers' {min(known)} is loaded; the code that auto_map names"
            f" ({shown(next(iter(code.values())))} …) doesn't run without trust_remote_code"
        )
    config_class = CONFIG_MAPPING[kind]
    attributes = {declared.name for declared in fields(config_class)}
    reads = {*READ, *ROPES, *attributes, *config_class.attribute_map, *_READ_TOO}
    ignores = tuple(pattern for patterns in IGNORED.values() for pattern in patterns)
    keys = Keys(reads=frozenset(reads), ignores=ignores, changes=())
    if unknown := judge(raw, keys).named:
        notes.append(f"transformers' {min(known)} doesn't read these keys: {'; '.join(unknown)}")
    for note in notes:
        warnings.warn(f"{where}: {note}", stacklevel=2)


def _with_draft(model: CausalModel, name: str, device: str, dtype: str | None) -> CausalModel:
    """The model with one that drafts for it. Raises ModelError for one of another kind, or with
    other tokens.
    """
    from pbcore.models.registry import load_model

    small = load_model(name, device, dtype)
    give = "give a smaller model with the same tokenizer"
    if not isinstance(small, CausalModel):
        raise ModelError(f"draft {name!r} is not an autoregressive model; {give}")
    if small.tokenizer.words() != model.tokenizer.words():
        raise ModelError(f"draft {name!r} has another vocabulary than {model.name}; {give}")
    size = model.module.config.get_text_config().vocab_size
    # Sizes of a family have unused rows at the end.
    if small.module.config.get_text_config().vocab_size != size:
        small.module.resize_token_embeddings(size, mean_resizing=False)
    settings = small.module.generation_config
    settings.num_assistant_tokens_schedule = "constant"
    settings.assistant_confidence_threshold = 0.0
    told = ("source", "revision", "family", "parameters", "dtype")
    kept = {name: value for name, value in small.info.items() if name in told}
    return replace(
        model,
        draft=small.module,
        info={**model.info, "draft": kept},
        files=model.files.and_draft(small.files),
    )


def _stop_ids(
    module: Any, entry: ModelEntry, options: LoadOptions, tokenizer: Tokenizer
) -> tuple[int, ...]:
    """Every id that ends an answer, of options, table, configs and tokenizer, without ids that have
    no embedding.
    """
    given = [options.eos_id, entry.eos_id, *entry.stop_ids]
    for config in (module.generation_config, module.config.get_text_config()):
        given += ids_of(config.eos_token_id, "eos_token_id", entry.name)
    size = module.get_input_embeddings().num_embeddings
    known = (i for i in (*given, tokenizer.eos_id) if i is not None and 0 <= i < size)
    return tuple(dict.fromkeys(known))

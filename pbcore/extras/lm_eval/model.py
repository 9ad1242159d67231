"""`lm_eval --model pbcore`: any model and sampler of this package in the harness.

The harness makes prompts and scores; `pbcore.decoding.decode` answers, in its own batches and with
its caches.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from lm_eval.api.model import LM

from pbcore.base.errors import InputError
from pbcore.base.printable import shown
from pbcore.decoding import decode
from pbcore.decoding.batch_size import UNKNOWN, fixed_batch
from pbcore.decoding.run import batch_of
from pbcore.decoding.samplers import resolve, sampler_of
from pbcore.extras.lm_eval.likelihood import bounds
from pbcore.extras.lm_eval.tasks import MAX_GEN_TOKS, asked, cut_at_stop
from pbcore.models import load_model
from pbcore.models.masked import MaskedModel
from pbcore.models.tokenizer import FileTokenizer
from pbcore.names import SamplerNameError
from pbcore.results.build import sample_record
from pbcore.tasks.scoring import Scored

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

DRAWS = 128  # per likelihood, as in LLaDA's evaluation (arXiv 2502.09992, Appendix B)
OWN_SAMPLERS = ("ar", "analytic", "euler")  # those that only a model's own decoder knows
PLAIN = str | int | float | None  # what the harness can write as JSON
COUNTS = ("nfe", "prefill", "store", "canvas_tokens", "answer_tokens")
GREEDY = "confidence-k1"  # how a continuation is decoded to see whether it is the model's own


@dataclass(slots=True)
class TaskTold:
    """What the harness's results say of a task: its requests, and the seconds that they took
    together.
    """

    requests: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, request: Instance, turn: int, **facts: float | None) -> None:
        """Keeps what is known of a request: document, number of the request within it, and the turn
        of a repeated one.

        `canvas_tokens` were decoded, `answer_tokens` of them stand before the first EOS; a
        likelihood has none, and its `nfe` counts a forward per draw and those of decoding the
        continuation.
        """
        row = {"doc": request.doc_id or 0, "idx": request.idx, "turn": turn, **facts}
        self.requests.append({name: value for name, value in row.items() if value is not None})

    def to_json(self) -> dict[str, Any]:
        """With the mean NFE, and tokens per forward summed over requests first, of those that tell
        them.
        """
        counted = [request for request in self.requests if "nfe" in request]
        decoded = [request for request in counted if "answer_tokens" in request]
        forwards = sum(request["nfe"] for request in counted)
        decoding = sum(request["nfe"] for request in decoded)
        tokens = sum(request["answer_tokens"] for request in decoded)
        return {
            "seconds": self.seconds,
            "nfe_mean": forwards / len(counted) if counted else None,
            "tokens_per_forward": tokens / decoding if decoding else None,
            "requests": self.requests,
        }


class PbcoreLM(LM):  # type: ignore[misc]  # the harness has no types
    """A model of this package for the harness.

    `pretrained` and `sampler` are names as in `pytest benches --model … --sampler …`; `mc` is the
    number of draws per likelihood, `max_gen_toks` the length of answers for tasks that don't give
    one, `seed` the seed of sampling and of the draws; other arguments are options of
    `pbcore.load_model`. `batch_size` is a number or `auto`: 8 on a CPU, on a GPU as many
    as its memory holds, or 32 for likelihoods. Raises InputError (or a ModelError) for names,
    options and requests that can't be used.
    """

    def __init__(
        self,
        pretrained: str | None = None,
        sampler: str | None = None,
        *,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
        seed: int = 0,
        mc: int = DRAWS,
        max_gen_toks: int = MAX_GEN_TOKS,
        **options: Any,
    ) -> None:
        super().__init__()
        if pretrained is None or sampler is None:
            raise InputError(
                "--model pbcore needs a model and a sampler: --model_args "
                "pretrained=llada-1.5,sampler=threshold-0.9+b32"
            )
        place = device or "cuda"
        if place.startswith("cuda") and not torch.cuda.is_available():
            place = "cpu"  # cuda:0 is the harness's default
        try:
            self._sampler = resolve(str(sampler))
        except SamplerNameError as error:
            self._sampler = sampler_of(str(sampler))
            if self._sampler.name.policy not in OWN_SAMPLERS:
                raise InputError(f"sampler: {error}") from error
        self._model: Any = load_model(str(pretrained), place, dtype, **options)
        if self._model.info.get("family") == "server":
            raise InputError(
                f"{pretrained} answers behind a server: measure it as cells, with pytest benches"
                " --task lm_eval/…"
            )
        size = "auto" if batch_size is None else str(batch_size)
        if not size.startswith("auto") and not (size.isdecimal() and int(size)):
            raise InputError(
                f"batch_size {shown(batch_size)}: give a whole number of at least 1, or auto"
            )
        self._size = None if size.startswith("auto") else int(size)
        self._most = 0  # rows decoded together so far
        self._seed = seed
        self._draws = mc
        self._length = max_gen_toks
        self._device = torch.device(place)
        self._told: dict[str, TaskTold] = {}

    @property
    def tokenizer_name(self) -> str:
        """The model's name with a digest of its chat template: what the harness's cache of prompts
        depends on.
        """
        template = self.chat_template(True) or ""
        digest = hashlib.sha256(template.encode()).hexdigest()[:12]
        return f"{self._model.name}-{digest}".replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The tokenizer's chat template. Raises InputError for a template by name: checkpoints have
        one.
        """
        if isinstance(chat_template, str):
            raise InputError(
                f"--apply_chat_template {chat_template}: give no name; the tokenizer's own is used"
            )
        return _templates(self._model).template if chat_template else None

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """A chat as text; without `add_generation_prompt` its last turn is the start of the
        answer.
        """
        return _templates(self._model).templated(chat_history, unfinished=not add_generation_prompt)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Decodes each request; the text up to its first stop string."""
        texts = [""] * len(requests)
        wanted = [asked(request.args[1], self._sampler.name, self._length) for request in requests]
        groups = _groups(requests, [generation.length for generation in wanted])
        for (task, length, turn), places in groups.items():
            prompts = [requests[i].args[0] for i in places]
            rows = self._size or batch_of(self._model, prompts, self._sampler, length)
            self._most = max(self._most, rows)
            with self._timed(task) as told:
                answers = decode(
                    self._model,
                    prompts,
                    self._sampler,
                    length,
                    seed=self._seed + turn,
                    batch_size=rows,
                )
            for i, answer in zip(places, answers, strict=True):
                texts[i] = cut_at_stop(answer.text, wanted[i].until)
                record = sample_record(0, answer, Scored({}))
                told.add(requests[i], turn, **{name: getattr(record, name) for name in COUNTS})
        return texts

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """The Monte Carlo bound of each continuation, and whether the model would decode it by
        itself (one token at a time, by confidence). Raises InputError for models without that
        bound.
        """
        model = _with_likelihood(self._model)
        results: list[tuple[float, bool]] = [(0.0, False)] * len(requests)
        for (task, _, turn), places in _groups(requests, [0] * len(requests)).items():
            pairs = [_pair(model, *requests[i].args[:2]) for i in places]
            seeds = [1_000_003 * (self._seed + turn) + (requests[i].doc_id or 0) for i in places]
            with self._timed(task) as told:
                estimates = bounds(model, pairs, self._draws, seeds, self._rows)
                decoded = self._own(
                    model, [prompt for prompt, _ in pairs], [len(answer) for _, answer in pairs]
                )
            for i, (_, answer), bound, (tokens, nfe) in zip(
                places, pairs, estimates, decoded, strict=True
            ):
                results[i] = bound.value, tokens == answer
                told.add(
                    requests[i],
                    turn,
                    nfe=bound.forwards + nfe,
                    log_likelihood=bound.value,
                    standard_error=bound.error,
                )
        return results

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """Raises InputError: perplexities of whole documents are of models that predict the next
        token.
        """
        raise InputError(
            "perplexity over a whole document (loglikelihood_rolling) is the chain rule over"
            " windows of next tokens, which a masked diffusion model doesn't have; choose tasks of"
            " generate_until or multiple_choice"
        )

    def get_model_info(self) -> dict[str, Any]:
        """What the harness adds to its results: model, sampler, and the forwards and tokens of
        every request.
        """
        info = self._model.info
        return {
            "pbcore": {
                "model": self._model.name,
                "sampler": str(self._sampler),
                "seed": self._seed,
                "mc": self._draws,
                "batch_size": self._most or self._rows,
                "device": str(self._device),
                "model_info": {
                    name: value for name, value in info.items() if isinstance(value, PLAIN)
                },
                "tasks": {name: told.to_json() for name, told in self._told.items()},
            }
        }

    @property
    def _rows(self) -> int:
        return self._size or fixed_batch(self._model) or UNKNOWN

    @contextmanager
    def _timed(self, task: str) -> Iterator[TaskTold]:
        """Adds the seconds of what runs within to a task's."""
        told = self._told.setdefault(task, TaskTold())
        start = time.perf_counter()
        yield told
        told.seconds += time.perf_counter() - start

    def _own(
        self, model: Any, prompts: Sequence[list[int]], lengths: Sequence[int]
    ) -> list[tuple[list[int], int]]:
        """For each prompt the tokens that the model decodes, as many as asked for, and its
        forwards.
        """
        decoded: list[tuple[list[int], int]] = [([], 0)] * len(prompts)
        for length in sorted(set(lengths)):
            places = [i for i, tokens in enumerate(lengths) if tokens == length]
            of_length = [prompts[i] for i in places]
            answers = decode(model, of_length, GREEDY, length, batch_size=self._rows)
            for i, answer in zip(places, answers, strict=True):
                decoded[i] = list(answer.token_ids), answer.nfe or 0
        return decoded


def register() -> None:
    """Makes `pbcore` known to the harness, for versions that don't read the entry points of
    `lm_eval.models`.
    """
    import lm_eval.models  # noqa: F401  the harness fills an empty registry only
    from lm_eval.api.registry import model_registry

    if "pbcore" not in model_registry:
        model_registry.register("pbcore", target=PbcoreLM)


def _templates(model: Any) -> FileTokenizer:
    """The model's tokenizer, if it has a chat template. Raises InputError if not."""
    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(tokenizer, FileTokenizer) or tokenizer.template is None:
        raise InputError(f"{model.name} has no chat template; drop --apply_chat_template")
    return tokenizer


def _with_likelihood(model: Any) -> Any:
    """The model without a filter of candidates. Raises InputError for one without the bound, with
    the reason.
    """
    if not isinstance(model, MaskedModel):
        why = "the bound is that of masked diffusion models with logits at every masked position"
    elif model.block is not None:
        why = "it decodes block by block, and the bound is over all orders of decoding"
    else:
        return replace(model, top_k=None)
    raise InputError(f"{model.name} gives no likelihoods: {why}; choose tasks of generate_until")


def _pair(model: Any, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Ids of a context and its continuation, split where the context's own ids end. Spaces at the
    context's end belong to the continuation's first word. An empty context is the EOS token, as for
    the harness's own models.
    """
    kept = context.rstrip()
    continuation = context[len(kept) :] + continuation
    if not kept:
        return model.tokenizer.text("") or [model.eos_id], model.tokenizer.piece(continuation)
    prompt = model.tokenizer.text(kept)
    return prompt, model.tokenizer.text(kept + continuation)[len(prompt) :]


def _groups(
    requests: Sequence[Any], lengths: Sequence[int]
) -> dict[tuple[str, int, int], list[int]]:
    """Places of requests by task, length and turn: a request that is repeated has a turn for each
    time.
    """
    seen: Counter[int] = Counter()
    groups: dict[tuple[str, int, int], list[int]] = {}
    for place, (request, length) in enumerate(zip(requests, lengths, strict=True)):
        turn = seen[id(request)]
        groups.setdefault((request.task_name or "", length, turn), []).append(place)
        seen[id(request)] += 1
    return groups

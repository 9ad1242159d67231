"""Replies of a server as generations."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from pbcore.extras.servers.record import REPORTED
from pbcore.extras.servers.reply import Ask, Reply
from pbcore.extras.servers.spec import ServerSpec
from pbcore.extras.servers.steps import contradiction, decoding_order, most_forwards, most_tokens
from pbcore.extras.servers.tokenizers import declared_tokenizer
from pbcore.models.base import Generation, Prompt, Reported
from pbcore.models.errors import ModelError
from pbcore.models.tokenizer import EOS, Tokenizer, end_of
from pbcore.names import SamplerName
from pbcore.tasks.base import Sample


class Generations:
    """Makes generations of the replies to one model. A server tells tokens by their texts, or by
    ids whose tokenizer is declared; each text gets a number when it first comes.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._texts: list[str] = []  # by number
        self._numbers: dict[str, int] = {}

    def of(
        self, reply: Reply, kept: bool, ask: Ask, prompt: Prompt, sampler: SamplerName
    ) -> tuple[Generation, list[str]]:
        """An answer. With a step map it has steps, and tokens if these are known: the positions of
        the task's canvas that they leave count as given EOS tokens.

        Values that can't be true of the answer are left out: more forwards than an answer to that
        request can take, tokens that contradict the text, and, of an earlier run, a step map that
        can't be read.

        Args:
            reply: the server's.
            kept: True if it was on disk before; it has no times then.
            ask: the request.
            prompt: a Sample says how long the canvas is.
            sampler: its block length divides the step map.

        Returns:
            The answer, and a line on each value that was left out.

        Raises:
            ModelError: for a new reply's step map that can't be read, and for tokens as ids without
                the tokenizer.
        """
        tokens = most_tokens(ask.max_tokens, sampler.block)
        reply, faults = self._without_false_forwards(reply, tokens)
        facts = asdict(reply)
        facts["outcomes"] = list(reply.outcomes)
        facts["cost"] = self._spec.usd(reply.tokens_in, reply.tokens_out)
        if kept:
            facts |= {"seconds": None, "first_token": None}
        served = {**{name: facts[name] for name in REPORTED}, "kept": kept}
        extra: Reported = {"served": served, "max_new_tokens": ask.max_tokens}
        unordered = Generation(reply.text, (), reply.nfe, reply.tokens_out, extra=extra)
        if reply.step_map is None and reply.unread is None:
            return unordered, faults
        try:
            steps, forwards = _order(reply, sampler.block, tokens)
        except ValueError as error:
            if not kept:
                raise ModelError(
                    f"model {self._spec.name} at {self._spec.base_url}: {error}; its answers are"
                    " kept, and --resume scores them without steps"
                ) from None
            return unordered, [*faults, f"{error}; left out"]
        left = max(0, prompt.max_new_tokens - len(steps)) if isinstance(prompt, Sample) else 0
        ids: tuple[int, ...] = ()
        answer_tokens = len(steps)
        wrong = contradiction(reply.text, self._joined(reply.tokens)) if reply.tokens else None
        if wrong is not None:
            faults.append(f"{wrong}; its tokens are left out, so it has no film")
        elif reply.tokens:
            ids = tuple(map(self._number, (*reply.tokens, *[EOS] * left)))
            answer_tokens = end_of(ids[: len(steps)], {self._number(EOS)})
        steps = (*steps, *[-1] * left)
        generation = Generation(
            reply.text, ids, forwards or None, answer_tokens, steps, extra=extra
        )
        return generation, faults

    def text(self, ids: Sequence[int]) -> str:
        """The text of tokens by their numbers."""
        return "".join(self._texts[token] for token in ids)

    def _without_false_forwards(self, reply: Reply, tokens: int) -> tuple[Reply, list[str]]:
        most = most_forwards(tokens)
        if reply.nfe is None or reply.nfe <= most:
            return reply, []
        fault = (
            f"{self._spec.nfe_field or 'its number of forwards'} is {reply.nfe:,}, and an answer"
            f" of {tokens:,} tokens takes at most {most:,}; left out"
        )
        if self._spec.canvases:  # whose steps count these forwards
            reply = replace(reply, step_map=None, tokens=None)
        return replace(reply, nfe=None), [fault]

    def _joined(self, tokens: Sequence[str | int]) -> str:
        """The text of tokens that an answer has, as texts or ids."""
        parts = []
        ids: list[int] = []
        for token in tokens:
            if not isinstance(token, str):
                ids.append(token)
                continue
            if ids:
                parts.append(self._tokenizer.decode(ids))
                ids = []
            parts.append(token)
        if ids:
            parts.append(self._tokenizer.decode(ids))
        return "".join(parts)

    @property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = declared_tokenizer(self._spec)
        if tokenizer is None:
            raise ModelError(
                f"model {self._spec.name}: tokens_field holds ids; declare tokenizer, the model's"
                " folder"
            )
        return tokenizer

    def _number(self, token: str | int) -> int:
        """The number of a token that an answer has, as text or id."""
        if not isinstance(token, str):
            tokenizer = self._tokenizer
            token = EOS if token == tokenizer.eos_id else tokenizer.decode([token])
        if token not in self._numbers:
            self._numbers[token] = len(self._texts)
            self._texts.append(token)
        return self._numbers[token]


def _order(reply: Reply, block: int | None, tokens: int) -> tuple[tuple[int, ...], int]:
    """The steps and forwards of a reply with a step map; raises ValueError for one that can't be
    read.
    """
    if reply.unread is not None or reply.step_map is None:
        raise ValueError(reply.unread)
    if reply.tokens is not None and len(reply.tokens) != len(reply.step_map):
        raise ValueError(
            f"an answer of {len(reply.tokens)} tokens has steps of {len(reply.step_map)}"
        )
    return decoding_order(reply.step_map, block, tokens, reply.nfe)

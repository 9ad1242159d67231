"""Answers continued one token at a time: the sampler that does it, and how canvases end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from pbcore.base.errors import InputError
from pbcore.blame.search import CantContinue, Ending
from pbcore.blame.taken import Canvas
from pbcore.decoding.checks import DecodingError
from pbcore.decoding.run import decode
from pbcore.decoding.samplers import Sampler, sampler_of
from pbcore.models.base import BatchDecoder, Denoiser, Model, OwnDecoder, complete
from pbcore.models.tokenizer import pieces
from pbcore.names import SamplerName
from pbcore.results.build import sample_record
from pbcore.results.record import SampleRecord
from pbcore.results.stats import is_wrong_score
from pbcore.tasks.base import Sample, Task

AnswerKey = tuple[int, int]  # a sample's index and the seed of an answer to it


def reference_of(sampler: Sampler) -> Sampler:
    """The sampler that reveals one token at a time where this one reveals more: with its blocks and
    rules of EOS, without cache, temperature, schedule and remasking.
    """
    name = sampler.name
    one_at_a_time = SamplerName(
        "confidence",
        (("k", "1"),),
        block=name.block,
        ada=name.ada,
        blocks=name.blocks,
        eos_stop=name.eos_stop,
        no_early_eos=name.no_early_eos,
        eos_last=name.eos_last,
    )
    return sampler_of(one_at_a_time)


def why_not(model: Model) -> str:
    """Why a model's answers can't be continued; empty for those that can."""
    if isinstance(model, OwnDecoder | BatchDecoder):
        return f"{model.name} decodes by itself: its canvases can't be continued"
    return ""


@dataclass(slots=True)
class Continuing:
    """A model that continues answers to the questions of one task.

    - `score`: the score by which an answer is right or wrong.
    - `official_text`: whether the whole canvas is scored, with what follows the first EOS.
    - `batch_size`: rows decoded together; None: as `decode` chooses.
    - `references`: the answers of reference samplers, by sampler and place.
    - `forwards`, `seconds`: what its continuations took.
    """

    model: Denoiser
    task: Task
    score: str
    official_text: bool = False
    batch_size: int | None = None
    references: dict[Sampler, dict[AnswerKey, SampleRecord]] = field(default_factory=dict)
    forwards: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.model = complete(self.model)

    def sample(self, index: int) -> Sample:
        """The task's sample with this number. Raises InputError without it."""
        for sample in self.task.samples:
            if sample.index == index:
                return sample
        raise InputError(f"{self.task.name} has no sample {index}, which an answer names")

    def empty(self, index: int) -> Canvas:
        """The canvas that answers to a sample begin with."""
        return self.model.encode(self.sample(index), None, index).canvas

    def is_wrong(self, record: SampleRecord) -> bool | None:
        """Whether an answer is wrong; None if its score wasn't measured."""
        score = record.scores.get(self.score)
        return None if score is None else is_wrong_score(self.score, score)

    def reference(
        self, sampler: Sampler, places: Sequence[AnswerKey]
    ) -> dict[AnswerKey, SampleRecord]:
        """The answers of a reference sampler; those that aren't known yet are decoded.

        Args:
            sampler: of `reference_of`.
            places: which answers.

        Raises:
            CantContinue: if the model can't run it.
        """
        known = self.references.setdefault(sampler, {})
        missing = [place for place in places if place not in known]
        canvases = [self.empty(index) for index, _ in missing]
        known.update(zip(missing, self.answers(sampler, missing, canvases), strict=True))
        return known

    def endings(
        self, sampler: Sampler, places: Sequence[AnswerKey], canvases: Sequence[Canvas]
    ) -> list[Ending]:
        """How answers end from canvases.

        Args:
            sampler: of `reference_of`.
            places: the answer that each canvas is from.
            canvases: they.

        Raises:
            CantContinue: if the model can't continue them.
        """
        records = self.answers(sampler, places, canvases)
        return [Ending(self.is_wrong(record) is False, record) for record in records]

    def answers(
        self, sampler: Sampler, places: Sequence[AnswerKey], canvases: Sequence[Canvas]
    ) -> list[SampleRecord]:
        """Answers from canvases, scored. Arguments and errors as of `endings`."""
        by_seed: defaultdict[int, list[int]] = defaultdict(list)
        for number, (_, seed) in enumerate(places):
            by_seed[seed].append(number)
        begun = perf_counter()
        records: dict[int, SampleRecord] = {}
        for seed, numbers in by_seed.items():
            samples = [self.sample(places[number][0]) for number in numbers]
            try:
                decoded = decode(
                    self.model,
                    samples,
                    sampler,
                    seed=seed,
                    batch_size=self.batch_size,
                    starts=[canvases[number] for number in numbers],
                )
            except (DecodingError, ValueError) as error:
                raise CantContinue(f"its canvases can't be continued: {error}") from error
            texts = []
            for answer in decoded:
                texts.append((self.official_text and answer.official_text) or answer.text)
            scored = self.task.score_many(texts, samples, [self.score])
            shown = pieces(self.model)
            for number, answer, result in zip(numbers, decoded, scored, strict=True):
                self.forwards += answer.nfe or 0
                index = places[number][0]
                records[number] = sample_record(index, answer, result, seed, shown)
        self.seconds += perf_counter() - begun
        return [records[number] for number in range(len(places))]

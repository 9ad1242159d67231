"""Training and validation examples of an adapter."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random

import torch

from pbcore.base.errors import InputError
from pbcore.extras.train.lora.settings import LoraSettings
from pbcore.extras.train.network import process
from pbcore.extras.train.noise import TrainingBatch, TrainingRow, Words, masked_batch, noisy_batch
from pbcore.extras.train.rows import training_row
from pbcore.extras.train.sedd.model import Sedd
from pbcore.models.masked import MaskedModel
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.registry import data_hash, load_task, task_spec


@dataclass(frozen=True)
class Examples:
    """The training and the validation examples of a task, which have no sample in common."""

    model: MaskedModel | Sedd
    settings: LoraSettings
    task: Task
    train: tuple[Sample, ...]
    validation: tuple[Sample, ...]
    # Of samples by number; validation examples' are negative.
    _rows: dict[int, TrainingRow] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        return data_hash((*self.train, *self.validation))

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of an epoch, whose order is another each time; the few rows that are left
        over wait for it.
        """
        return len(self.train) // self.settings.batch

    def batch(self, step: int) -> TrainingBatch:
        """The rows of a step with their noise; decided by the seed and the step alone."""
        epoch, number = divmod(step, self.steps_per_epoch)
        order = list(range(len(self.train)))
        Random(f"{self.settings.seed}/{epoch}").shuffle(order)
        chosen = order[number * self.settings.batch : (number + 1) * self.settings.batch]
        rng = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + step)
        return self._noisy([self._row(index, self.train[index]) for index in chosen], rng)

    def validation_batch(self, number: int) -> TrainingBatch:
        """Batch `number` of the validation examples, with the same noise each time."""
        start = number * self.settings.batch
        size = self.settings.batch
        rng = torch.Generator().manual_seed(-1 - number)
        samples = enumerate(self.validation[start : start + size], start)
        return self._noisy([self._row(-1 - index, sample) for index, sample in samples], rng)

    def _row(self, index: int, sample: Sample) -> TrainingRow:
        """A sample on the canvas that decoding starts from, read once. Raises ModelError for words
        that the model lacks, InputError for an answer that doesn't fit.
        """
        if index not in self._rows:
            prompt = self.model.encode(sample, None, 0).prompt_ids
            rng = Random(f"{self.settings.seed}/{index}")
            self._rows[index] = training_row(
                sample, prompt, self.model.tokenizer.piece, self.model.eos_id, rng
            )
        return self._rows[index]

    def _noisy(self, rows: list[TrainingRow], rng: torch.Generator) -> TrainingBatch:
        if isinstance(self.model, Sedd):
            return noisy_batch(rows, self.model.eos_id, *process(self.model.network), rng)
        # These are of use for pairs of words only.
        nothing = torch.zeros(self.model.vocab_size, dtype=torch.bool)
        return masked_batch(
            rows, Words(self.model.mask_id, self.model.eos_id, nothing, nothing), rng
        )


def examples(model: MaskedModel | Sedd, settings: LoraSettings) -> Examples:
    """The examples of a task: its train split, which `load_task` generates, or the rows of the
    user's own folder or file, shuffled by the seed; where there are fewer than asked for, in the
    proportion asked for. Without shots an example is its last question alone, as in the official
    code. Raises InputError for fewer examples than a batch, and for shots of a task that has none
    to choose.
    """
    wanted = settings.train + settings.validation
    shots = settings.shots or None
    if settings.data_dir is None and task_spec(settings.task).rows is None:
        task = load_task(settings.task, None, settings.n, wanted, settings.seed, "train", shots)
        samples = list(task.samples)
    else:
        task = load_task(settings.task, settings.data_dir, settings.n, shots=shots)
        samples = list(task.samples)
        Random(settings.seed).shuffle(samples)
    if not settings.shots:
        samples = [replace(sample, messages=sample.messages[-1:]) for sample in samples]
    train = min(settings.train, round(len(samples) * settings.train / wanted))
    parts = tuple(samples[:train]), tuple(samples[train : train + settings.validation])
    if train < settings.batch or not parts[1]:
        raise InputError(
            f"{settings.task}: {len(samples)} examples, {train} of them for training, are less than"
            f" a batch of {settings.batch}; give more rows or a smaller batch"
        )
    return Examples(model, settings, replace(task, samples=parts[1]), *parts)

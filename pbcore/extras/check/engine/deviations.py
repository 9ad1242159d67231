"""Named deviations, and which of them give an engine's answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pbcore.extras.check.engine.judge import NONE_FITS, up_to_eos
from pbcore.extras.check.engine.material import Case, Material
from pbcore.extras.check.engine.setting import Setting
from pbcore.extras.check.engine.varied import Variation, decode_varied
from pbcore.models import load_model

LONGEST = "only the longest prompt"
_OTHER_BASES = (10_000.0, 50_000.0, 500_000.0, 600_000.0, 1_000_000.0)
_COLD = (0.1, 0.2, 0.5, 0.7)


@dataclass(frozen=True, slots=True)
class CaseInput:
    """What a deviation may depend on."""

    model: Any
    setting: Setting
    prompts: Sequence[Sequence[int]]

    @property
    def batched(self) -> bool:
        """Whether some prompts are padded."""
        size = self.setting.batch
        chunks = (self.prompts[at : at + size] for at in range(0, len(self.prompts), size))
        return any(len({*map(len, chunk)}) > 1 for chunk in chunks)

    @property
    def by_entropy(self) -> bool:
        """Whether entropy ranks places."""
        return self.setting.policy == "entropy"

    @property
    def in_rows(self) -> bool:
        """Whether blocks are the model's own and begin with the prompt."""
        return self.model.block is not None and self.model.grid.start == "row"

    @property
    def blocks(self) -> bool:
        """Whether blocks are decoded one by one."""
        length = self.setting.block_length
        return length is not None and (
            self.model.block is not None or length < self.setting.gen_length
        )


def _from_zero(asked: CaseInput) -> tuple[Variation, ...]:
    if not asked.blocks or asked.in_rows:
        return ()
    if asked.model.block is None:
        return (Variation(blocks="zero"),)
    return (Variation(blocks="zero"), Variation(blocks="zero", short=True))


def _always(*variations: Variation) -> Callable[[CaseInput], tuple[Variation, ...]]:
    return lambda asked: variations


def _pads(asked: CaseInput, *kinds: Any) -> tuple[Variation, ...]:
    if not asked.batched:
        return ()
    pads = dict.fromkeys((asked.model.eos_id, asked.model.mask_id, 0))
    return tuple(Variation(padding=kind, pad=pad) for kind in kinds for pad in pads)


def _gaps(asked: CaseInput) -> tuple[Variation, ...]:
    if not asked.batched:
        return ()
    counted = (Variation(padding="gap"), Variation(padding="between"))
    if not asked.in_rows:
        return counted
    return (*counted, Variation(padding="grid"), Variation(padding="grid", short=True))


def _more(asked: CaseInput) -> tuple[Variation, ...]:
    if asked.setting.k is None:
        return ()
    fewer = (Variation(more=-1),) if asked.setting.k > 1 else ()
    return (Variation(more=1), *fewer)


def _late(asked: CaseInput) -> tuple[Variation, ...]:
    k = asked.setting.k
    size = asked.setting.block_length or asked.setting.gen_length
    whole = k is not None and size % k == 0 and not asked.in_rows
    if k is None or whole:  # blocks that the prompt begins have fewer places
        return ()
    return (Variation(late="spread"), Variation(late="last"))


def _bases(asked: CaseInput) -> tuple[Variation, ...]:
    config = asked.model.network.module.config
    own = (getattr(config, "rope_parameters", None) or {}).get("rope_theta")
    return tuple(Variation(theta=base) for base in _OTHER_BASES if base != own)


def _after(asked: CaseInput) -> tuple[Variation, ...]:
    if asked.by_entropy:
        return (Variation(order="equal"),)
    return (Variation(order="equal"), *(Variation(heat=heat) for heat in _COLD))


def _stale(asked: CaseInput) -> tuple[Variation, ...]:
    if asked.model.block is None and (asked.setting.cache is None or not asked.blocks):
        return ()
    return (Variation(stale=True),)


DEVIATIONS: Mapping[str, Callable[[CaseInput], tuple[Variation, ...]]] = {
    "mask written": _always(Variation(mask="closed"), Variation(mask="open")),
    "eos held back": _always(Variation(eos="last")),
    "eos ignored": _always(Variation(eos="never")),
    "logits shifted": lambda asked: () if asked.model.shift else (Variation(shift=True),),
    "logits not shifted": lambda asked: (Variation(shift=False),) if asked.model.shift else (),
    "causal": _always(Variation(causal=True)),
    "blocks ignored": lambda asked: (Variation(blocks="none"),) if asked.blocks else (),
    "blocks counted from 0": _from_zero,
    "padding attended": lambda asked: _pads(asked, "left", "right", "zero"),
    "positions count padding": _gaps,
    "k off by one": _more,
    "remainder late": _late,
    "entropy for confidence": lambda asked: (
        () if asked.by_entropy else (Variation(order="entropy"),)
    ),
    "confidence for entropy": lambda asked: (
        (Variation(order="confidence"),) if asked.by_entropy else ()
    ),
    "least sure first": _always(Variation(order="least")),
    "confidence after temperature": _after,
    "threshold without the best": lambda asked: (
        ()
        if asked.setting.threshold is None
        else (Variation(alone="masks"), Variation(alone="filled"))
    ),
    "prefix for dual": lambda asked: (
        (Variation(cache="prefix"),) if asked.setting.cache == "dual" else ()
    ),
    "stale block": _stale,
    "rope base": _bases,
}


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Prompts that are decoded together, the engine's answers, and the expected ones."""

    prompts: list[list[int]]
    answers: list[list[int]]
    expected: list[list[int]]


class Diagnosis:
    """Finds the deviations that give an engine's answers. Those that fitted before are tried first,
    and alone while one of them fits.

    Args:
        folder: of the checkpoint.
        material: its `expected.json`.
        names: the deviations that are tried.
    """

    def __init__(
        self, folder: Path, material: Material, names: Sequence[str] = tuple(DEVIATIONS)
    ) -> None:
        options: dict[str, Any] = {} if material.block is None else {"block": material.block}
        self._model: Any = load_model(str(folder), "cpu", "float32", **options)
        self._names = names
        self._fitting: list[str] = []

    def of(self, case: Case, answers: Sequence[Sequence[int]]) -> list[str]:
        """The names of the deviations that give the answers of a case.

        Args:
            case: one that the engine answered otherwise.
            answers: the engine's, up to the first EOS.
        """
        prompts = [row.prompt for row in case.rows]
        asked = CaseInput(self._model, case.setting, prompts)
        chunks = _chunks(case, answers)
        names = [name for name in self._fitting if self._fits(name, asked, chunks)]
        if not names:
            others = [name for name in self._names if name not in self._fitting]
            names = [name for name in others if self._fits(name, asked, chunks)]
            self._fitting += names
        if not names and only_longest(case, answers):
            names = [LONGEST]
        return names or [NONE_FITS]

    def _fits(self, name: str, asked: CaseInput, chunks: Sequence[_Chunk]) -> bool:
        """Whether one of the variations of a deviation gives all answers."""
        setting = asked.setting
        for variation in DEVIATIONS[name](asked):
            for chunk in chunks:
                given = decode_varied(self._model, chunk.prompts, setting, variation)
                cut = [up_to_eos(canvas, setting.eos_ids) for canvas in given]
                if cut != chunk.answers:
                    break
            else:
                return True
        return False


def _chunks(case: Case, answers: Sequence[Sequence[int]]) -> list[_Chunk]:
    """The batches of a case, those with other answers than the expected ones first, since most
    deviations give others still.
    """
    size = case.setting.batch
    chunks = []
    for start in range(0, len(case.rows), size):
        rows = case.rows[start : start + size]
        own = [list(answer) for answer in answers[start : start + size]]
        chunks.append(_Chunk([row.prompt for row in rows], own, [row.answer for row in rows]))
    return sorted(chunks, key=lambda chunk: chunk.answers == chunk.expected)


def only_longest(case: Case, answers: Sequence[Sequence[int]]) -> bool:
    """Whether in each batch the longest prompts have their answers, and at least half of the
    shorter ones have others.

    Args:
        case: prompts and what is expected.
        answers: the engine's, up to the first EOS.
    """
    size = case.setting.batch
    pairs = list(zip(case.rows, answers, strict=True))
    shorter = 0
    wrong = 0
    for start in range(0, len(pairs), size):
        batch = pairs[start : start + size]
        longest = max(len(row.prompt) for row, _ in batch)
        for row, answer in batch:
            equal = row.answer == list(answer)
            if len(row.prompt) == longest and not equal:
                return False
            shorter += len(row.prompt) < longest
            wrong += not equal
    return 0 < shorter <= 2 * wrong

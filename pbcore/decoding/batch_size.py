"""How many rows are decoded together if nobody says: on a CPU a constant, on a GPU as many as its
free memory holds.

R rows, P prompt columns, L canvas positions, T = P + L columns, C positions whose logits a step
keeps, W what-if rows of a row, V tokens.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pbcore.decoding.job import law_of
from pbcore.decoding.prediction import PIECE
from pbcore.decoding.samplers import Sampler
from pbcore.models.base import BatchDecoder, Request
from pbcore.names import longest_block

if TYPE_CHECKING:
    from pbcore.costs.shape import ModelShape

# The CPU value is the fastest in `pytest -m speed benches/test_engine_speed.py -k batch_size`.
CPU = 8
UNKNOWN = 32  # on a GPU, for a model whose shape isn't known
MOST = 1024  # on a GPU, however small the model
SHARE = 0.85  # of the free memory: libraries take workspaces, and blocks leave gaps
LARGEST = 2**31 - 1  # numbers of one tensor of logits: a kernel may count them in 32 bits
BOOKS = 256  # bytes for each column of a batch's state: ids, positions, steps, confidences …
WORKED_ON = 24  # bytes for each logit of the PIECE that is worked on at once: float32 copies
WHOLE = 16  # bytes for each logit where a policy works on whole distributions, in float32
WHOLE_COPIES = 5.5  # or so many tensors in the model's dtype, last step's distributions included
SINKS = 256  # query columns whose weights are read at once where all of them count


@dataclass(frozen=True, slots=True)
class Reads:
    """What a batch's memory depends on beside the model and the number of rows.

    - `running`: columns of a row that one forward runs, `columns` those that it has, T;
    - `slots`: positions whose logits a step keeps, C;
    - `what_if`: what-if rows for each row, W, 0 for none;
    - `copies`: tensors of the step's logits; `whole` further bytes for each logit;
    - `attended`: query columns whose attention weights are read at once;
    - `cached`: whether keys and values are kept.
    """

    running: int
    columns: int
    slots: int
    what_if: int = 0
    copies: float = 1.0
    whole: float = 0.0
    attended: int = 0
    cached: bool = False


def default_batch(
    model: Any, sampler: Sampler, requests: Sequence[Request], workers: int = 1
) -> int:
    """The most rows that `decode` takes together if not told otherwise: as many as the model says;
    on a GPU as many as its free memory holds; else 8.

    Args:
        model: what decodes; of another package's model the shape isn't known: 32 rows on a GPU.
        sampler: decides whose logits a step keeps.
        requests: the rows; the longest prompt and the longest canvas count.
        workers: processes that decode on this GPU and share its memory.
    """
    fixed = fixed_batch(model)
    if fixed is not None:
        return fixed
    from pbcore.models import device
    from pbcore.models.sizes import held_shape

    shape = held_shape(model)
    if shape is None or not requests:
        return UNKNOWN
    free = SHARE * device.free_memory(model.device) / workers
    return rows_within(free, shape, reads_of(model, sampler, requests, shape))


def fixed_batch(model: Any) -> int | None:
    """The rows that a model decodes together whatever is asked of it: its own number, or the CPU's;
    None where they follow from a GPU's memory.
    """
    own: int | None = getattr(model, "batch_size", None)
    if own is not None:
        return own
    device = str(getattr(model, "device", "cpu")).partition(":")[0]
    return None if device == "cuda" else CPU


def rows_within(free: float, shape: "ModelShape", reads: Reads) -> int:
    """The most rows whose decoding fits into memory, at least 1: at most MOST, and as many as keep
    one tensor of logits within LARGEST.

    Args:
        free: bytes beside the weights.
        shape: of the model as it is held.
        reads: what a row runs and keeps.
    """
    logits = reads.slots * max(1, reads.what_if) * shape.vocabulary
    most = max(1, min(MOST, LARGEST // logits))
    fitting = bisect_right(
        range(1, most + 1), free, key=lambda rows: batch_bytes(rows, shape, reads)
    )
    return max(1, fitting)


def batch_bytes(rows: int, shape: "ModelShape", reads: Reads) -> float:
    """Bytes that decoding takes at its peak beside the weights: caches, and either a forward at its
    widest layer, or the logits and what a policy makes of them.

    Args:
        rows: decoded together.
        shape: of the model as it is held.
        reads: what a row runs and keeps.
    """
    forwarded = rows * max(1, reads.what_if)  # rows of the largest forward
    books = (rows + forwarded) * reads.columns * BOOKS
    cache = 0.0
    if reads.cached:  # what-if rows, of block models alone, read their row's, and add two blocks
        columns = reads.columns + 2 * reads.what_if * reads.slots
        cache = rows * columns * (shape.cached_bytes + shape.stored_bytes)
    layer = reads.running * (shape.column_bytes + reads.columns * shape.pair_bytes)
    if reads.attended:  # queries and keys in float32 beside the layer's own
        layer += (
            reads.running * shape.column_bytes
            + reads.attended * reads.columns * shape.attended_bytes
        )
    logits = rows * reads.slots * shape.vocabulary  # those of one step
    before = 0.0
    if reads.what_if or reads.whole:
        before = logits * shape.logit_bytes  # the step's own, or last step's
    forward = before + forwarded * layer
    worked_on = WORKED_ON * min(logits * max(1, reads.what_if), PIECE)
    reading = (
        forwarded * reads.running * shape.hidden_bytes
        + logits * (shape.logit_bytes * reads.copies + reads.whole)
        + worked_on
    )
    return books + cache + max(forward, reading)


def reads_of(
    model: Any, sampler: Sampler, requests: Sequence[Request], shape: "ModelShape"
) -> Reads:
    """What a batch reads under a sampler.

    Args:
        model: a Denoiser or BatchDecoder.
        sampler: what it declares counts.
        requests: the rows; the longest prompt and the longest canvas count.
        shape: of the model as it is held.

    Raises:
        SamplerNameError: for a sampler that the loop doesn't have.
    """
    prompt = max(len(request.prompt_ids) for request in requests)
    canvas = max(len(request.canvas) for request in requests)
    if isinstance(model, BatchDecoder):  # autoregressive ones run the prompt, then keep it
        cached = shape.cached_bytes > 0
        running = prompt if cached else prompt + canvas
        return Reads(
            running=max(1, running),
            columns=prompt + canvas,
            slots=1 if cached else canvas,
            whole=WHOLE if cached else 0.0,
            cached=cached,
        )
    name = sampler.name
    declared = sampler.declared
    block = getattr(model, "block", None)
    if block:  # a row starts and ends with whole blocks, and one more is room for a causal forward
        canvas += 3 * block
    slots = min(canvas, block or longest_block(name, canvas))
    if declared.reach == "prefix" or declared.gaps is not None:
        slots = canvas
    what_if = declared.what_if_rows if "probe" in declared.needs else 0
    copies = 1.0
    if declared.review or declared.gaps is not None:
        copies += 1
    if name.no_early_eos or name.eos_last:
        copies += 1
    if what_if:
        copies += 1 + 2 * what_if
    whole = 0.0
    if declared.reads == "distributions" and "probe" not in declared.needs:
        whole = max(WHOLE, WHOLE_COPIES * shape.logit_bytes)
    if getattr(model, "top_k", None):
        whole += 1  # which logits are among the largest
    if law_of(model, name).reshapes:
        whole += 4  # those that rank places, in float32
    attended = 0
    if "attention" in declared.needs:
        attended = max(slots, min(SINKS, prompt + canvas) if declared.attends.sinks else 0)
    shadows = slots if declared.review == "hidden" else 0
    running = prompt + canvas + shadows
    if block:  # the prompt, then one block after the other, twice in a causal forward
        running = max(prompt, 2 * block)
    return Reads(
        running=running,
        columns=prompt + canvas + shadows,
        slots=slots,
        what_if=what_if,
        copies=copies,
        whole=whole,
        attended=attended,
        cached=bool(name.cache or block),
    )

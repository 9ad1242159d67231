"""Which step broke a wrong answer, and whether decoding in parallel or the model is to blame: by
going on one token at a time from the canvases before and after a step (docs/why.md).
"""

from pbcore.blame.cell import blamed, not_blamed
from pbcore.blame.continuing import AnswerKey, Continuing, reference_of

__all__ = ["AnswerKey", "Continuing", "blamed", "not_blamed", "reference_of"]

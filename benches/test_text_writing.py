"""Text writing: summaries, paraphrases and sentences from given words (paper, Section 5, prompts in
Table 3).
"""

from pbcore.benches.test_text_writing import test_cell

__all__ = ["test_cell"]

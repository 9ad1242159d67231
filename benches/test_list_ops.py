"""Operations on lists of single symbols, which the paper's Section 4 analyses; `ideal` is held to
the theory.
"""

from pbcore.benches.test_list_ops import test_cell

__all__ = ["test_cell"]

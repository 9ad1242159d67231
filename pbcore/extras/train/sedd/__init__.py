"""SEDD: score entropy discrete diffusion (Lou et al., arXiv 2310.16834), with absorbing and uniform
noise.
"""

GRAPHS = ("absorb", "uniform")  # what its noise turns tokens into: masks, or any tokens

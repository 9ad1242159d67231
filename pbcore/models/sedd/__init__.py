"""SEDD: score entropy discrete diffusion (Lou et al., arXiv 2310.16834), with absorbing and uniform
noise.
"""

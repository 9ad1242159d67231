"""Parallel decoding in diffusion LLMs, measured: tasks, ideal and real models, samplers, scores, trade-offs."""

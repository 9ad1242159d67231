"""Training of `tiny`, a masked diffusion language model for the 17 tasks: `python -m pbcore.train`."""

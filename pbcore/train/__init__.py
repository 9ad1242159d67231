"""The recipe of `tiny`: a masked diffusion language model for the 17 tasks, trained by `python -m pbcore.train`."""

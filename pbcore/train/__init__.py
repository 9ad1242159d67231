"""Training of `tiny`, a masked diffusion model for the 17 tasks, and of `tiny-ar`, its
autoregressive counterpart.
"""

"""Training of `tiny`, a masked diffusion model for the 17 tasks, of `tiny-block`, its block-causal
counterpart, and of `tiny-ar`, its autoregressive one.
"""

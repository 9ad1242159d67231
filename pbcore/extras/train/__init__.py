"""Training of `tiny`, a masked diffusion model for the 17 tasks, of `tiny-block`, its block-causal
counterpart, of `tiny-ar`, its autoregressive one, and of SEDD models; LoRA adapters (`lora`).

`python -m pbcore.train` is its command.
"""

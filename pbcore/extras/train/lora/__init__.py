"""Low-rank adapters (LoRA) of masked diffusion models, trained on one task, as in the paper's
appendix F.1.
"""

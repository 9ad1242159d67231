"""Training of `tiny`, a masked diffusion model for the 17 tasks, of `tiny-block`, its block-causal
counterpart, of `tiny-ar`, its autoregressive one, and of SEDD models; LoRA adapters (`lora`).

`python -m pbcore.train` is its command.
"""

HERE = "pbcore.extras.train"
ENTRY_POINTS = {
    "pbcore.model_kinds": {"sedd": f"{HERE}.sedd.kind:KIND"},
    "pbcore.code": {"sedd": f"{HERE}.sedd"},
}

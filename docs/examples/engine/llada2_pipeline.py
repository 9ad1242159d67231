"""diffusers' LLaDA2Pipeline, given the network of engine.py with its blocks:

    pip install diffusers
    pbcore check engine DIR/llada2 --engine llada2_pipeline.py

Batches are padded on the left, and `attention_mask` says so.
"""

from functools import lru_cache

from diffusers import BlockRefinementScheduler, LLaDA2Pipeline
from module import Module, padded


@lru_cache(maxsize=1)
def load(checkpoint, block):
    pipeline = LLaDA2Pipeline(model=Module(checkpoint, block), scheduler=BlockRefinementScheduler())
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def generate(checkpoint, prompts, setting):
    """The answers of prompts, without the prompts."""
    if setting.policy not in ("confidence", "threshold") or setting.attention != "blocks":
        raise NotImplementedError(f"policy {setting.policy}, attention {setting.attention}")
    pipeline = load(checkpoint, setting.block_length)
    network = pipeline.model.network
    answers = []
    for start in range(0, len(prompts), setting.batch):
        ids, real = padded(prompts[start : start + setting.batch], network.pad_id)
        given = pipeline(
            input_ids=ids,
            attention_mask=real,
            gen_length=setting.gen_length,
            block_length=setting.block_length,
            num_inference_steps=-(-setting.block_length // (setting.k or 1)),
            threshold=2.0 if setting.threshold is None else setting.threshold,
            sampling_method="greedy",
            editing_threshold=None,
            eos_token_id=setting.eos_ids[0],
            mask_token_id=network.mask_id,
            output_type="seq",
        )
        answers += given.sequences.tolist()
    return answers

"""Three entries of dfastllm, each given the network of engine.py:

pip install --no-deps dfastllm==0.0.4
pbcore check engine DIR/llada --engine dfastllm_entries.py
pbcore check engine DIR/llada --engine dfastllm_entries:engine
pbcore check engine DIR/llada --engine dfastllm_entries:engine_plain
pbcore check engine DIR/llada --engine dfastllm_entries:engine_batch
"""

from functools import lru_cache

import torch
from dfastllm.engine.diffusion import DiffusionConfig, DiffusionEngine
from dfastllm.engine.diffusion_sampler import diffusion_generate
from module import Module, padded


@lru_cache(maxsize=1)
def load(checkpoint):
    return Module(checkpoint)


class Ids:
    """A tokenizer whose texts are ids, so that nothing is lost on the way."""

    def encode(self, prompt, return_tensors):
        return torch.tensor([prompt])

    def decode(self, ids, skip_special_tokens):
        return ids.tolist()


def generate(checkpoint, prompts, setting):
    """`diffusion_generate`: prompts are padded on the left, and the mask says so."""
    if setting.policy != "confidence" or setting.cache:
        raise NotImplementedError("diffusion_generate reveals k tokens a step, without a cache")
    model = load(checkpoint)
    length = setting.gen_length
    block = setting.block_length or length
    answers = []
    for start in range(0, len(prompts), setting.batch):
        ids, real = padded(prompts[start : start + setting.batch], model.network.pad_id)
        canvas = diffusion_generate(
            model,
            ids,
            attention_mask=real,
            steps=length // block * -(-block // setting.k),
            gen_length=length,
            block_length=block,
            mask_id=model.network.mask_id,
        )
        answers += canvas[:, ids.shape[1] :].tolist()
    return answers


def diffusion_engine(checkpoint, setting, **more):
    """A `DiffusionEngine` for a setting."""
    whole = setting.block_length in (None, setting.gen_length)
    if setting.policy != "confidence" or setting.cache or not whole:
        raise NotImplementedError("DiffusionEngine reveals k tokens a step, in one block")
    model = load(checkpoint)
    config = DiffusionConfig(
        mode="quality",  # another one would replace a k of 4
        tokens_per_step=setting.k,
        steps=-(-setting.gen_length // setting.k),
        mask_token_id=model.network.mask_id,
        **more,
    )
    return DiffusionEngine(model, Ids(), config)


def engine(checkpoint, prompts, setting, **more):
    """`DiffusionEngine.generate`, with the defaults of its quality gates."""
    one = diffusion_engine(checkpoint, setting, **more)
    return [one.generate(torch.tensor([ids]), setting.gen_length) for ids in prompts]


def engine_plain(checkpoint, prompts, setting):
    """`DiffusionEngine.generate` without its quality gates."""
    gates = {"min_confidence_gate": 0.0, "confidence_threshold": 0.0, "repetition_penalty": 0.0}
    return engine(checkpoint, prompts, setting, **gates)


def engine_batch(checkpoint, prompts, setting):
    """`DiffusionEngine.generate_batch`; a prompt alone is decoded by `generate`."""
    if setting.batch == 1:
        raise NotImplementedError("generate_batch takes several prompts")
    one = diffusion_engine(checkpoint, setting)
    one.stats.tokens_generated = 0  # counters that 0.0.4 reads and doesn't have
    one.stats.generation_time_ms = 0.0
    answers = []
    for start in range(0, len(prompts), setting.batch):
        given = one.generate_batch(prompts[start : start + setting.batch], setting.gen_length)
        answers += [ids[: setting.gen_length] for ids in given]
    return answers

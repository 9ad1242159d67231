"""A small engine in plain PyTorch, which can be wrong on purpose.

    pbcore check engine DIR/llada --engine engine.py
    ENGINE_WRONG="padding attended" pbcore check engine DIR/llada --engine engine.py

ENGINE_WRONG names a deviation, ENGINE_DTYPE float32, bfloat16 or float16.
R rows, T columns (prompt, then answer), H width, D width of a head, V tokens.
"""

import json
import math
import os
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.nn import functional

WRONG = os.environ.get("ENGINE_WRONG", "")
DTYPE = getattr(torch, os.environ.get("ENGINE_DTYPE", "float32"))
SHIFTED = ("DreamModel", "Fast_dLLM_QwenForCausalLM")
FROM_PROMPT = ("A2DQwen3LMHeadModel", "NemotronLabsDiffusionModel")  # where blocks begin
IN_ORDER = "NemotronLabsDiffusionModel"  # all but the block in hand sees only what precedes it
LLADA = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ff_norm",
    "self_attn.o_proj": "attn_out",
    "mlp.gate_proj": "ff_proj",
    "mlp.up_proj": "up_proj",
    "mlp.down_proj": "ff_out",
}
LLADA2 = {
    "self_attn.o_proj": "attention.dense",
    "self_attn.q_norm": "attention.query_layernorm",
    "self_attn.k_norm": "attention.key_layernorm",
}


class Network:
    """A transformer of any of the families."""

    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        self.weights = {
            name: tensor.to(DTYPE)
            for name, tensor in load_file(folder / "model.safetensors").items()
        }
        self.config = config
        self.architecture = config["architectures"][0]
        self.mask_id = config.get("mask_token_id") or mask_of(folder)
        self.pad_id = config["pad_token_id"]
        self.shift = self.architecture in SHIFTED
        if WRONG in ("logits shifted", "logits not shifted"):
            self.shift = not self.shift
        self.from_prompt = self.architecture in FROM_PROMPT and WRONG != "blocks counted from 0"
        self.in_order = self.architecture == IN_ORDER
        self.layers = config.get("n_layers") or config["num_hidden_layers"]
        self.heads = config.get("n_heads") or config["num_attention_heads"]
        self.groups = config.get("n_kv_heads") or config["num_key_value_heads"]
        width = config.get("d_model") or config["hidden_size"]
        self.size = config.get("head_dim") or width // self.heads
        self.rotary = config.get("rotary_dim") or self.size
        self.rope = config.get("rope_parameters") or {"rope_theta": config["rope_theta"]}
        self.frequencies = self.frequencies_of(self.rope)  # (rotary / 2,)

    def weight(self, layer, part):
        """A weight by transformers' name; None where the family has none."""
        if self.architecture == "LLaDAModelLM":
            stem, _, kind = part.rpartition(".")
            name = f"model.transformer.blocks.{layer}.{LLADA.get(stem, stem.split('.')[-1])}.{kind}"
        elif self.architecture == "LLaDA2MoeModelLM":
            stem, _, kind = part.rpartition(".")
            name = f"model.layers.{layer}.{LLADA2.get(stem, stem)}.{kind}"
        elif self.architecture == "NemotronLabsDiffusionModel":
            name = f"encoder.layers.{layer}.{part}"
        else:
            name = f"model.layers.{layer}.{part}"
        return self.weights.get(name)

    def outer(self, *names):
        return next(self.weights[name] for name in names if name in self.weights)

    def norm(self, x, weight):
        exact = x.float()
        scale = torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"])
        return weight * (exact * scale).to(x.dtype)

    def frequencies_of(self, rope):
        """The frequencies of the rotary embedding, by YaRN (arXiv 2309.00071) where it is asked
        for: slow ones are divided by `factor`, fast ones are kept.
        """
        theta = 10000.0 if WRONG == "rope base" else rope["rope_theta"]
        place = torch.arange(self.rotary // 2).float()
        frequency = theta ** (-place * 2 / self.rotary)
        if rope.get("rope_type") != "yarn":
            return frequency
        length = rope["original_max_position_embeddings"]
        ends = []
        for turns in (rope["beta_fast"], rope["beta_slow"]):
            share = math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))
            ends.append(self.rotary * share)
        first = max(math.floor(ends[0]), 0)
        last = min(math.ceil(ends[1]), self.rotary - 1)
        slow = ((place - first) / max(last - first, 0.001)).clamp(0, 1)
        return frequency * (1 - slow) + frequency / rope["factor"] * slow

    def scaled(self, query, positions):
        """Queries (R, heads, Q, D) that grow with their positions (R, Q), where that is asked
        for.
        """
        beta = self.rope.get("llama_4_scaling_beta")
        if beta is None:
            return query
        times = positions // self.rope["original_max_position_embeddings"]
        scale = 1 + beta * (1 + times.float()).log()
        return query * scale[:, None, :, None].to(query.dtype)

    def rotate(self, x, positions):
        """Rotary embedding of (R, heads, Q, D) at positions (R, Q), on `rotary` numbers."""
        half = self.rotary // 2
        angle = positions[:, None, :, None].float() * self.frequencies  # (R, 1, Q, half)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first, second = x[..., :half], x[..., half : self.rotary]
        turned = [first * cos - second * sin, second * cos + first * sin, x[..., self.rotary :]]
        return torch.cat(turned, dim=-1)

    def projections(self, layer, x):
        """Queries, keys and values (R, heads, Q, D)."""
        if self.architecture == "LLaDA2MoeModelLM":
            fused = self.weights[f"model.layers.{layer}.attention.query_key_value.weight"]
            sizes = [self.heads * self.size, self.groups * self.size, self.groups * self.size]
            parts = (x @ fused.T).split(sizes, dim=-1)
        else:
            parts = []
            for letter in "qkv":
                weight = self.weight(layer, f"self_attn.{letter}_proj.weight")
                bias = self.weight(layer, f"self_attn.{letter}_proj.bias")
                parts.append(functional.linear(x, weight, bias))
        return [part.unflatten(-1, (-1, self.size)).transpose(1, 2) for part in parts]

    def dense(self, x, layer, stem):
        gate, up, down = (
            self.weight(layer, f"{stem}.{part}_proj.weight") for part in ("gate", "up", "down")
        )
        return (functional.silu(x @ gate.T) * (x @ up.T)) @ down.T

    def mlp(self, layer, x):
        router = self.weight(layer, "mlp.gate.weight")
        if router is None:
            return self.dense(x, layer, "mlp")
        shape, x = x.shape, x.flatten(0, 1)
        scores = x.float() @ router.float().T  # (N, E)
        count = self.config["num_experts_per_tok"]
        if self.architecture == "LLaDA2MoeModelLM":
            scores = scores.sigmoid()
            biased = scores + self.weight(layer, "mlp.gate.expert_bias").float()
            groups = biased.unflatten(-1, (self.config["n_group"], -1))
            value = groups.topk(2, dim=-1).values.sum(-1)
            best = value.topk(self.config["topk_group"], dim=-1).indices
            kept = torch.zeros_like(value, dtype=torch.bool).scatter(-1, best, True)
            chosen = groups.masked_fill(~kept[..., None], -torch.inf).flatten(1)
            chosen = chosen.topk(count, dim=-1).indices
            share = scores.gather(-1, chosen)
            share = share / (share.sum(-1, keepdim=True) + 1e-20)
            share = share * self.config["routed_scaling_factor"]
        else:
            share, chosen = scores.softmax(-1).topk(count, dim=-1)
        out = torch.zeros_like(x)
        for expert in range(scores.shape[-1]):
            row, place = (chosen == expert).nonzero(as_tuple=True)
            if len(row):
                answer = self.dense(x[row], layer, f"mlp.experts.{expert}")
                out[row] += answer * share[row, place, None].to(x.dtype)
        if self.weight(layer, "mlp.shared_experts.gate_proj.weight") is not None:
            out = out + self.dense(x, layer, "mlp.shared_experts")
        return out.view(shape)

    def states(self, ids, positions, sees, kept, start):
        """Hidden states (R, Q, H) of the columns from `start` on.

        `sees` is (R, Q, T); `kept` has the keys and values of all T columns, layer by layer, and is
        filled as columns run.
        """
        x = self.outer(
            "model.embed_tokens.weight",
            "model.word_embeddings.weight",
            "model.transformer.wte.weight",
            "encoder.embed_tokens.weight",
        )[ids]
        stop = start + ids.shape[1]
        mask = torch.zeros(sees.shape, dtype=DTYPE).masked_fill(~sees, torch.finfo(DTYPE).min)
        for layer in range(self.layers):
            normed = self.norm(x, self.weight(layer, "input_layernorm.weight"))
            query, key, value = self.projections(layer, normed)
            if self.weight(layer, "self_attn.q_norm.weight") is not None:
                query = self.norm(query, self.weight(layer, "self_attn.q_norm.weight"))
                key = self.norm(key, self.weight(layer, "self_attn.k_norm.weight"))
            query = self.scaled(self.rotate(query, positions), positions)
            key = self.rotate(key, positions)
            if layer not in kept:
                shape = (*key.shape[:2], sees.shape[-1], key.shape[-1])
                kept[layer] = [key.new_zeros(shape), value.new_zeros(shape)]
            kept[layer][0][:, :, start:stop] = key
            kept[layer][1][:, :, start:stop] = value
            times = self.heads // self.groups
            keys, values = (each.repeat_interleave(times, dim=1) for each in kept[layer])
            mixed = functional.scaled_dot_product_attention(query, keys, values, mask[:, None])
            mixed = mixed.transpose(1, 2).flatten(-2)
            x = x + mixed @ self.weight(layer, "self_attn.o_proj.weight").T
            normed = self.norm(x, self.weight(layer, "post_attention_layernorm.weight"))
            x = x + self.mlp(layer, normed)
        return self.norm(
            x,
            self.outer("model.norm.weight", "model.transformer.ln_f.weight", "encoder.norm.weight"),
        )

    def logits(self, states):
        head = self.outer(
            "model.transformer.ff_out.weight",
            "lm_head.weight",
            "diffusion_head.weight",
            "model.embed_tokens.weight",
        )
        return (states @ head.T).float()


def mask_of(folder):
    """The mask's id by the tokenizer, where config.json has none."""
    named = json.loads((folder / "tokenizer_config.json").read_text())["mask_token"]
    return json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"][named]


@lru_cache(maxsize=2)
def load(folder):
    return Network(Path(folder))


@torch.inference_mode()
def generate(checkpoint, prompts, setting):
    """The answers of prompts, without the prompts.

    Args:
        checkpoint: the folder.
        prompts: lists of ids.
        setting: how to decode: policy, k, threshold, gen_length, block_length, cache, temperature,
            eos_ids, batch, attention.
    """
    if setting.policy not in ("confidence", "threshold", "entropy") or setting.temperature:
        raise NotImplementedError(f"policy {setting.policy}, temperature {setting.temperature}")
    network = load(checkpoint)
    answers = []
    for start in range(0, len(prompts), setting.batch):
        chunk = prompts[start : start + setting.batch]
        width = max(map(len, chunk))
        if setting.attention == "blocks":  # each row has blocks of its own
            answers += [Decoding(network, [row], width, setting).run()[0] for row in chunk]
        else:
            answers += Decoding(network, chunk, width, setting).run()
    return answers


class Decoding:
    """Rows of prompts, padded on the left to `width`, each with an answer of masks behind it."""

    def __init__(self, network, prompts, width, setting):
        self.network = network
        self.setting = setting
        length = setting.gen_length
        self.block = setting.block_length or length
        self.in_blocks = setting.attention == "blocks" and WRONG != "blocks ignored"
        pads = WRONG in ("padding attended", "positions count padding", "only the longest prompt")
        if setting.attention == "blocks" and not pads:
            width = len(prompts[0])  # nothing to pad
        self.prompt = width
        end = width + length
        self.grid = width if self.in_blocks and network.from_prompt else 0  # where blocks begin
        if self.in_blocks and not self.grid:  # the last block is whole
            end = -(-end // self.block) * self.block
        self.ids = torch.full((len(prompts), end), network.mask_id)  # (R, T)
        missing = torch.tensor([width - len(prompt) for prompt in prompts])[:, None]
        column = torch.arange(end)
        for row, prompt in enumerate(prompts):
            self.ids[row, :width] = torch.tensor([network.pad_id] * int(missing[row]) + prompt)
        self.positions = (column - missing).clamp(min=0)  # (R, T)
        real = column >= missing  # (R, T)
        if WRONG in ("padding attended", "only the longest prompt"):
            real = torch.ones_like(real)
            self.positions = column.expand_as(real).clone()
        if WRONG == "only the longest prompt":  # and the padding's keys are the last token's
            self.ids[:, :width] = torch.where(
                column[:width] < missing, self.ids[:, width - 1 : width], self.ids[:, :width]
            )
        if WRONG == "positions count padding":
            self.positions = torch.where(column < width, self.positions, column)
        self.sees = real[:, None, :].repeat(1, end, 1)  # (R, T, T)
        number = (column - self.grid) // self.block  # of each column's block
        in_order = self.in_blocks and network.in_order
        if self.in_blocks and not in_order:
            self.sees &= number <= number[:, None]
        if WRONG == "causal" or in_order:
            self.sees &= column <= column[:, None]
        self.sees |= torch.eye(end, dtype=torch.bool)
        self.both = number == number[:, None] if in_order and WRONG != "causal" else None  # (T, T)
        self.kept = {}
        self.open = (self.ids == network.mask_id) & (column >= width)  # (R, T) yet to reveal

    def forward(self, start, stop, in_hand=False):
        """Hidden states of the columns from start to stop; `in_hand`: they are the block that is
        being decoded.
        """
        part = slice(start, stop)
        sees = self.sees[:, part]
        if in_hand and self.both is not None:
            sees = sees | self.both[part]
        return self.network.states(
            self.ids[:, part], self.positions[:, part], sees, self.kept, start
        )

    def run(self):
        """The answers once no block has masks."""
        width = self.prompt
        end = self.ids.shape[1]
        borders = [*range(width, end, self.block), end]
        if self.in_blocks:
            first = self.grid + (width - self.grid) // self.block * self.block
            borders = [*range(first, end, self.block), end]
            self.last = self.forward(0, first)[:, -1:] if first else None
        elif WRONG == "blocks ignored":
            borders = [width, end]
        elif WRONG == "blocks counted from 0" and self.setting.block_length:
            return self.counted_from_zero()
        for number, (start, stop) in enumerate(pairwise(borders)):
            self.decode_block(start, stop, number)
        length = self.setting.gen_length
        return [row[width : width + length].tolist() for row in self.ids]

    def counted_from_zero(self):
        """Blocks end where the place in the row's own prompt and answer is a multiple of their
        length, so each row has its own.
        """
        answers = []
        for row in range(len(self.ids)):
            alone = object.__new__(Decoding)
            alone.__dict__ |= self.__dict__
            for name in ("ids", "positions", "sees", "open"):
                setattr(alone, name, getattr(self, name)[row : row + 1].clone())
            alone.kept = {}
            start = self.prompt
            number = 0
            while start < self.ids.shape[1]:
                place = int(self.positions[row, start])
                stop = min(start + self.block - place % self.block, self.ids.shape[1])
                alone.decode_block(start, stop, number)
                start = stop
                number += 1
            answers.append(alone.ids[0, self.prompt :].tolist())
        return answers

    def decode_block(self, start, stop, number):
        """Reveals the masks from column start to stop."""
        network = self.network
        shift = int(network.shift)
        leads = self.in_blocks and (network.shift or network.in_order)
        candidates = torch.zeros_like(self.open)
        candidates[:, start:stop] = True
        if leads and start >= self.prompt and start:
            # The block before says this block's first token.
            logits = self.allowed(network.logits(self.last[:, -1]))
            self.write(start, logits.argmax(-1))
        step = 0
        while bool((self.open & candidates).any()):
            states = self.states_of(start, stop, step, number)
            place = torch.arange(start, stop) - shift
            if self.in_blocks and shift:  # the first one is read from the block before
                place = place.clamp(min=start)
            logits = self.allowed(network.logits(states[:, place - self.origin]))  # (R, B, V)
            self.reveal(logits, start, stop, step)
            step += 1
            if WRONG == "threshold without the best" and step > 2 * self.block:
                self.open[:, start:stop] = False
        if not self.in_blocks:
            return
        if WRONG == "stale block":
            kept = {layer: [each.clone() for each in pair] for layer, pair in self.kept.items()}
            self.last = self.forward(start, stop)[:, -1:]
            self.kept = kept
            return
        self.last = self.forward(start, stop)[:, -1:]

    def states_of(self, start, stop, step, number):
        """Hidden states from the column `origin` on, as the cache says."""
        cache = self.setting.cache
        if cache == "dual" and WRONG == "prefix for dual":
            cache = "prefix"
        end = self.ids.shape[1]
        first = step == 0 and not (WRONG == "stale block" and number)
        if self.in_blocks:
            self.origin = start
            return self.forward(start, stop, in_hand=True)
        if cache is None or first:
            self.origin = 0
            return self.forward(0, end)
        self.origin = start - int(self.network.shift)
        return self.forward(self.origin, stop if cache == "dual" else end)

    def allowed(self, logits):
        if WRONG != "mask written":
            logits[..., self.network.mask_id] = -torch.inf
        if WRONG == "eos ignored":
            logits[..., list(self.setting.eos_ids)] = -torch.inf
        return logits

    def write(self, column, token):
        now = self.ids[:, column]
        self.ids[:, column] = torch.where(self.open[:, column], token, now)
        self.open[:, column] = False

    def reveal(self, logits, start, stop, step):
        """Writes the surest tokens of a block from its logits (R, B, V)."""
        chance = logits.softmax(-1)
        surety, token = chance.max(-1)  # (R, B)
        if WRONG == "confidence after temperature":
            surety = torch.ones_like(surety)
        score = surety
        by_entropy = self.setting.policy == "entropy"
        turned = "confidence for entropy" if by_entropy else "entropy for confidence"
        if by_entropy != (turned == WRONG):
            score = (chance * (chance + 1e-10).log()).sum(-1)
        if WRONG == "least sure first":
            score = -score
        for row in range(len(logits)):
            places = [place for place in range(stop - start) if self.open[row, start + place]]
            if WRONG == "eos held back":
                ends = self.setting.eos_ids
                others = [place for place in places if int(token[row, place]) not in ends]
                places = others or places
            places.sort(key=lambda place: -float(score[row, place]))
            for place in self.taken(places, surety[row], start, stop, step):
                self.ids[row, start + place] = token[row, place]
                self.open[row, start + place] = False

    def taken(self, places, surety, start, stop, step):
        """Of places, the surest first, those that a step reveals."""
        setting = self.setting
        if setting.policy == "threshold":
            sure = [place for place in places if surety[place] >= setting.threshold]
            return sure if sure or WRONG == "threshold without the best" else places[:1]
        count = setting.k
        if WRONG == "k off by one":
            count += 1
        if WRONG == "remainder late":
            size = stop - max(start, self.prompt)
            steps = -(-size // count)
            count = size - count * (steps - 1) if step == 0 else count
        return places[:count]

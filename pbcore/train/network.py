"""The networks of the embedded models, and the loss of masked or next tokens.

R rows, T columns, M positions to predict, H width, V tokens.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pbcore.models.network import Columns, NativeNetwork
from pbcore.models.sedd.network import SeddConfig, SeddNetwork
from pbcore.train.recipe import Recipe


def new_network(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM | SeddNetwork:
    """A recipe's network at random, with embeddings of standard deviation 1/√width, so that logits start near 1.

    A small Llama with full or causal attention whose embeddings are tied, or SEDD's network for log-linear noise.
    """
    torch.manual_seed(recipe.seed)
    model: LlamaForCausalLM | SeddNetwork
    if recipe.objective == "sedd":
        model = SeddNetwork(
            SeddConfig(
                tokens=len(tokenizer),
                graph=recipe.graph,
                noise="loglinear",
                sigma_min=1e-4,
                sigma_max=20.0,
                width=recipe.width,
                condition=recipe.condition,
                blocks=recipe.layers,
                heads=recipe.heads,
                length=256,
                scale_by_sigma=recipe.graph == "absorb",
            )
        )
        embedding = model.vocab_embed["embedding"]
    else:
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=recipe.width,
            intermediate_size=recipe.inner,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=int(tokenizer.eos_token_id),
            pad_token_id=int(tokenizer.eos_token_id),
            use_cache=recipe.causal,
        )
        if not recipe.causal:
            config.is_causal = False
            config.mask_token_id = int(tokenizer.mask_token_id)
        model = LlamaForCausalLM(config)
        embedding = model.model.embed_tokens.weight
    nn.init.normal_(embedding, std=recipe.width**-0.5)
    return model


class AnswerLoss(nn.Module):
    """The cross-entropy of tokens to predict, as one module, which `accelerate` can spread over GPUs.

    `adapted` is the module whose weights are trained: the network's own, or what peft has wrapped around it. With
    `shift` a position's logits are read one column earlier.
    """

    def __init__(
        self, network: NativeNetwork, adapted: nn.Module, *, shift: bool = False, causal: bool = False
    ) -> None:
        super().__init__()
        self.adapted = adapted
        self._network, self._shift, self._causal = network, int(shift), causal

    def forward(self, ids: Tensor, attend: Tensor, masked: Tensor, targets: Tensor) -> Tensor:
        """The loss (M,) of each position `masked` (R, T), in row-major order."""
        return F.cross_entropy(self.logits(ids, attend, masked).float(), targets, reduction="none")

    def logits(self, ids: Tensor, attend: Tensor, masked: Tensor) -> Tensor:
        """Logits (M, V) of the positions `masked` (R, T); `attend` (R, T) is false at padding, which is on the left."""
        read = masked.roll(-self._shift, 1)  # (R, T); the first column is never masked, since prompts are not empty
        positions = (attend.long().cumsum(-1) - 1).clamp(min=0)
        skip = int(read.any(0).int().argmax())  # columns that nobody reads
        mask = None if bool(attend.all()) else attend
        if self._causal:
            mask = attend[:, None] & attend.new_ones(ids.shape[1], ids.shape[1]).tril()  # (R, T, T)
        hidden = self._network.hidden(Columns(ids, positions, mask, skip=skip))  # (R, T − skip, H)
        return self._network.project(hidden[read[:, skip:]])

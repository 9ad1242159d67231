"""The networks of the embedded models, the loss of masked or next tokens, and SEDD's score entropy
(arXiv 2310.16834, Section 3).

R rows, T columns, M positions to predict, H width, V tokens, N columns of a score.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pbcore.extras.train.recipe import Recipe
from pbcore.extras.train.sedd.diffusion import Graph, Noise
from pbcore.extras.train.sedd.network import SeddConfig, SeddNetwork
from pbcore.models.network import Columns, NativeNetwork


def new_network(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast
) -> LlamaForCausalLM | SeddNetwork:
    """A recipe's network at random, with embeddings of standard deviation 1/√width, so that logits
    start near 1: a small Llama with full or causal attention and tied embeddings, or SEDD's network
    for log-linear noise.
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
    """The cross-entropy of tokens to predict, as one module, which `accelerate` can spread over
    GPUs. `adapted` is the module whose weights are trained: the network's own, or what peft has
    wrapped around it. With `shift` a position's logits are read one column earlier.
    """

    def __init__(
        self,
        network: NativeNetwork,
        adapted: nn.Module,
        *,
        shift: bool = False,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.adapted = adapted
        self._network, self._shift, self._causal = network, int(shift), causal

    def forward(self, ids: Tensor, attend: Tensor, masked: Tensor, targets: Tensor) -> Tensor:
        """The loss (M,) of each masked position, in row-major order.

        Args:
            ids: the rows (R, T).
            attend: (R, T), false at padding, which is on the left.
            masked: which positions (R, T) are judged.
            targets: their tokens (M,).
        """
        return F.cross_entropy(self.logits(ids, attend, masked).float(), targets, reduction="none")

    def logits(self, ids: Tensor, attend: Tensor, masked: Tensor) -> Tensor:
        """Logits (M, V) of the masked positions.

        Args:
            ids: the rows (R, T).
            attend: (R, T), false at padding, which is on the left.
            masked: which positions (R, T) are wanted.
        """
        # (R, T); the first column is never masked, since prompts are not empty.
        read = masked.roll(-self._shift, 1)
        positions = (attend.long().cumsum(-1) - 1).clamp(min=0)
        skip = int(read.any(0).int().argmax())  # columns that nobody reads
        mask = None if bool(attend.all()) else attend
        if self._causal:
            mask = attend[:, None] & attend.new_ones(ids.shape[1], ids.shape[1]).tril()  # (R, T, T)
        hidden = self._network.hidden(Columns(ids, positions, mask, skip=skip))  # (R, T − skip, H)
        return self._network.project(hidden[read[:, skip:]])


def score_entropy(
    graph: Graph, log_score: Tensor, tokens: Tensor, clean: Tensor, sigma: Tensor
) -> Tensor:
    """The score entropy (M,) of log-scores at noisy tokens whose clean ones are known (SEDD, arXiv
    2310.16834).

    Σ over y ≠ x of Q(x, y)·(s_y − r_y log s_y + r_y (log r_y − 1)), where r_y = p(y | clean) /
    p(x | clean) is the true ratio, so it is 0 for the true scores and positive for all others.

    Args:
        graph: how noise changes tokens.
        log_score: (M, N).
        tokens: the noisy tokens (M,).
        clean: the clean tokens (M,).
        sigma: the total noise (M,).
    """
    ratio, rate = ratios(graph, tokens, clean, sigma)
    constant = torch.where(ratio > 0, ratio * (ratio.clamp(min=1e-30).log() - 1), 0.0)
    terms = log_score.exp() - ratio * log_score + constant  # (M, N)
    return (rate * terms.scatter(-1, tokens[:, None], 0.0)).sum(-1)


def ratios(graph: Graph, tokens: Tensor, clean: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
    """The true ratios and the rates with which the present token would be reached.

    Args:
        graph: how noise changes tokens.
        tokens: the noisy tokens (M,).
        clean: the clean tokens (M,).
        sigma: the total noise (M,).

    Returns:
        Ratios r (M, N), and rates Q (M, N) from each y.
    """
    own = torch.nn.functional.one_hot(clean, graph.columns).float()  # (M, N)
    kept = (-sigma).exp()[:, None]  # (M, 1)
    if graph.mask_id is None:
        later = own * kept + (1 - kept) / graph.columns  # p(y at σ | clean)
        return later / later.gather(-1, tokens[:, None]), torch.full_like(own, 1 / graph.columns)
    rate = torch.ones_like(own)
    rate[:, graph.mask_id] = 0.0
    return own * kept / (1 - kept), rate


class ScoreLoss(nn.Module):
    """The score entropy of noisy answer tokens times σ′(t)·t, as one module, which `accelerate` can
    spread over GPUs. The bound's own weight is σ′(t), under which few rows with t near 0 would
    decide.
    """

    def __init__(self, network: SeddNetwork) -> None:
        super().__init__()
        self.network = network
        self._graph, self._noise = process(network)

    def forward(
        self, ids: Tensor, seen: Tensor, judged: Tensor, clean: Tensor, time: Tensor
    ) -> Tensor:
        """The loss (M,) of each judged position, in row-major order.

        Args:
            ids: the noisy rows (R, T).
            seen: (R, T), false at padding.
            judged: which positions (R, T) are judged.
            clean: the rows without noise (R, T).
            time: t of each row (R,).
        """
        sigma = torch.tensor([self._noise.total(float(t)) for t in time], device=ids.device)  # (R,)
        rate = torch.tensor(
            [self._noise.rate(float(t)) * float(t) for t in time], device=ids.device
        )
        row = judged.nonzero()[:, 0]
        log_score = self.network(ids, sigma, judged, None if bool(seen.all()) else seen)  # (M, N)
        return score_entropy(self._graph, log_score, ids[judged], clean, sigma[row]) * rate[row]


def process(network: SeddNetwork) -> tuple[Graph, Noise]:
    """The graph and the noise schedule of a network."""
    config = network.config
    return Graph(config.graph, config.columns), Noise(
        config.noise, config.sigma_min, config.sigma_max
    )

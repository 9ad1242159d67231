"""Rules that compare whole distributions, over steps or between positions."""

import math

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.policies.registry import (
    Chance,
    Count,
    NotNegative,
    Positive,
    Ranged,
    Several,
    TunedChance,
    register_policy,
)
from pbcore.decoding.prediction import Law, predict
from pbcore.decoding.step import Move, Step
from pbcore.models.transfer import on_device

MOST_TOKENS = 64  # of each distribution that meanfield compares


@register_policy("klass", look=12)
class Klass(Ranged):
    """Reveals slots with confidence > γ and KL(p_t ‖ p_{t−1}) < `kl` over the last `history` steps,
    else the best one.

    KLASS, arXiv 2511.05664. Divergences are in nats. A position can count as stable from its
    prediction `history` + 1 in the block on.

    State: each slot's last distribution and last divergences.
    """

    gamma: TunedChance = 0.9
    kl: Positive = 0.01
    history: Count = 2
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        log_probs = step.log_probs()  # (M, V)
        probs = log_probs.exp()
        dtype = log_probs.dtype
        vocabulary = log_probs.shape[-1:]
        # (R, C, V) and (R, C, history)
        before = step.state("klass before", -torch.inf, shape=vocabulary, dtype=dtype)
        drifts = step.state("klass drifts", torch.inf, shape=(self.history,), dtype=dtype)
        change = log_probs - step.of_candidates(before)  # (M, V)
        terms = probs * change.masked_fill(probs == 0, 0.0)
        # (R, C), inf without a prediction at the last step.
        drift = step.scatter(terms.sum(-1), torch.inf)
        drifts.copy_(torch.cat([drifts[..., 1:], drift[..., None]], dim=-1))
        before.fill_(-torch.inf)
        step.to_candidates(before, log_probs)
        stable = (drifts < self.kl).all(-1)
        return step.at_least_best(stable & (step.confidence > self.gamma), step.confidence)


@register_policy("less", look=44)
class Less(Ranged):
    """Reveals slots of confidence at least γ whose likeliest token was the same over the last
    `history` steps and whose distribution moved by a Jensen-Shannon divergence of at most `jsd`
    since the last, else the best one.

    LESS, arXiv 2606.16908; a sibling of `klass`. From descriptions of the paper alone, without its
    code: γ .75, `jsd` .04 nats and 2 steps are its settings as reported. Our choice: distributions
    are compared by the `top` likeliest tokens of now and all others as one, all qualifying slots
    are revealed, and the surest where none qualifies.

    State: each slot's last distribution, its likeliest token, and for how many steps it has been
    that.
    """

    gamma: TunedChance = 0.75
    jsd: NotNegative = 0.04
    history: Several = 2
    top: Count = 10
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        probs = step.log_probs().exp()  # (M, V)
        before = step.state("less before", shape=probs.shape[-1:], dtype=probs.dtype)  # (R, C, V)
        token = step.state("less token", -1, dtype=torch.long)  # (R, C)
        same = step.state("less same")  # (R, C): steps in which it was the likeliest
        likeliest = probs.argmax(-1)  # (M,)
        still = step.of_candidates(token) == likeliest
        step.to_candidates(same, torch.where(still, step.of_candidates(same) + 1, 1.0))
        step.to_candidates(token, likeliest)
        top = probs.topk(min(self.top, probs.shape[-1]), dim=-1).indices  # (M, K)
        change = _divergence(_lumped(probs, top), _lumped(step.of_candidates(before), top))  # (M,)
        drift = step.scatter(change)  # (R, C)
        step.to_candidates(before, probs)
        stable = (same >= self.history) & (drift <= self.jsd)
        return step.at_least_best(stable & (step.confidence >= self.gamma), step.confidence)


def _lumped(probs: Tensor, tokens: Tensor) -> Tensor:
    """Probabilities (M, K + 1) of `tokens` (M, K), and of all others together."""
    kept = probs.gather(-1, tokens).double()
    return torch.cat([kept, (1 - kept.sum(-1, keepdim=True)).clamp(min=0)], dim=-1)


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    """The Jensen-Shannon divergence (M,) in nats of distributions (M, K)."""
    middle = (p + q) / 2
    return (torch.xlogy(p, p / middle) + torch.xlogy(q, q / middle)).nan_to_num(0.0).sum(-1) / 2


@register_policy("credit", look=15)
class Credit(Ranged):
    """Threshold γ on logits raised by the credit that a slot's top tokens gained at earlier steps
    (CreditDecoding, arXiv 2510.06133).

    At each step of a block credits decay, M ← βM, the top token gains p^`power`, and the logits
    become l + α ln(M + 1), from which token and confidence are taken. Reveals all slots with
    confidence ≥ γ, at least the best. α .7, power .2, β .8.

    State: each slot's top tokens and their gains.
    """

    gamma: TunedChance = 0.9
    alpha: float = 0.7
    power: float = 0.2
    beta: Chance = 0.8
    rewrites = True

    def select(self, step: Step) -> Move:
        rows, slots = step.masked.shape
        top, probability = predict(step.logits, Law(), None)  # (M,) each
        # (R, C, C) each: one per step
        tokens = step.state("credit tokens", 0, shape=(slots,), dtype=torch.int64)
        gains = step.state("credit gains", 0.0, shape=(slots,), dtype=torch.float32)
        gains *= self.beta
        now = step.index.clamp(max=slots - 1)[:, None].expand(rows, slots)[..., None]  # (R, C, 1)
        tokens.scatter_(-1, now, step.token.masked_scatter(step.masked, top)[..., None])
        gain = step.scatter(probability.float() ** self.power)
        gains.scatter_(-1, now, gain[..., None])
        credit = torch.zeros_like(step.logits, dtype=torch.float32)  # (M, V)
        credit.scatter_add_(-1, step.of_candidates(tokens), step.of_candidates(gains))
        token, confidence = step.predict(step.logits + self.alpha * credit.log1p_())
        return Move(
            step.at_least_best(confidence >= self.gamma, confidence),
            token=token,
            confidence=confidence,
        )


@register_policy("meanfield", look=25)
class MeanField(Ranged):
    """Reveals the positions of mean-field probability at least γ, else the best (arXiv 2606.15805).

    A position speaks for itself by its log-odds c = ln p₁ − ln p₂, and against those that it
    resembles: conflicts are Dᵢⱼ = 1 − JSD(pᵢ, pⱼ) / ln 2, divided by the largest. From q = σ(c),
    `rounds` updates qᵢ = σ(cᵢ − Σⱼ Dᵢⱼ qⱼ). Distributions are compared by their 64 likeliest
    tokens, renormalised. Positions that are sure of the same token count as conflicting, too. From
    the paper alone; revealing the best where none qualifies is a reproduction's choice.
    """

    gamma: TunedChance = 0.9
    rounds: int = 2
    chooses = "tokens"

    def select(self, step: Step) -> Tensor:
        best = step.logits.topk(2, dim=-1).values.double()  # (M, 2)
        odds_of = best[:, 0] - best[:, 1]  # (M,)
        log_probs = step.log_probs()  # (M, V)
        top = log_probs.topk(min(MOST_TOKENS, log_probs.shape[-1]), dim=-1)  # (M, K)
        # Rows differ in size, so the host computes the rest, from one copy.
        packed = torch.cat([odds_of[:, None], top.values.double(), top.indices.double()], -1).cpu()
        parts = []
        for part in torch.split(packed, list(step.candidates())):
            own = part[:, 0]  # (m,)
            logs, tokens = part[:, 1:].chunk(2, dim=-1)  # (m, K) each
            conflict = _conflicts(logs, tokens.long())  # (m, m)
            q = own.sigmoid()
            for _ in range(self.rounds):
                q = (own - conflict @ q).sigmoid()
            parts.append(q)
        share = step.scatter(on_device(torch.cat(parts), log_probs.device))  # (R, C)
        return step.at_least_best(share >= self.gamma, share)


def _conflicts(log_probs: Tensor, likeliest: Tensor) -> Tensor:
    """Similarity (m, m) of a row's distributions, given by their `likeliest` tokens (m, K) and
    log-probabilities (m, K); 1 for the most similar pair, 0 on the diagonal.
    """
    tokens, where = torch.unique(likeliest, return_inverse=True)  # the union of the kept tokens
    kept = torch.zeros(len(log_probs), len(tokens), dtype=torch.double)
    kept.scatter_(1, where, log_probs.exp())
    kept /= kept.sum(-1, keepdim=True)
    own = _entropy(kept)  # (m,)
    mixed = [_entropy((layer + kept) / 2) for layer in kept]  # (m,) each
    divergence = torch.stack(mixed) - (own[:, None] + own) / 2 if mixed else kept.new_zeros(0, 0)
    similar = (1 - divergence / math.log(2)).clamp(0, 1).fill_diagonal_(0.0)
    return similar / similar.max().clamp(min=1e-12) if len(kept) > 1 else similar


def _entropy(probs: Tensor) -> Tensor:
    """Entropy (…) in nats of distributions (…, v)."""
    return -torch.xlogy(probs, probs).sum(-1)

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import log2

import pytest
import torch
from scipy.stats import binomtest

from pbcore.decoding.run import decode
from pbcore.models.base import Denoiser, Query
from pbcore.models.errors import ModelError
from pbcore.models.ideal import Ideal
from pbcore.models.registry import load_model
from pbcore.tasks.base import Sample
from pbcore.tasks.registry import all_task_names, load_task
from pbcore.theory import accuracy, step_bound
from pbcore.theory.distributions import supports

ANSWERED = [name for name in all_task_names() if not name.startswith("text_writing")]


@pytest.fixture(scope="module")
def model() -> Ideal:
    return Ideal()


def copies(name: str, n: int, count: int) -> list[Sample]:
    """One question asked many times: rows that differ in their random draws alone."""
    sample = load_task(name, n=n, limit=1).samples[0]
    return [replace(sample, index=i) for i in range(count)]


def assert_accuracy(model: Ideal, op: str, n: int, sampler: str, count: int = 100) -> None:
    """Exactly where theory says 0 or 1, else by an exact binomial test (fixed seed, so it can't
    flicker): of 100 answers, an accuracy of a half that is off by 20 points or more fails.
    """
    expected = accuracy(op, n, sampler)
    samples = copies(f"list_ops/{op}", n, count)
    out = decode(model, samples, sampler, batch_size=count)
    scored = load_task(f"list_ops/{op}", n=n, limit=1).score_many(
        [g.text for g in out], samples, ["accuracy"]
    )
    right = sum(s.scores["accuracy"] == 1 for s in scored)
    if expected in (0, 1):
        assert right == count * expected
    else:
        assert binomtest(right, count, expected).pvalue > 1e-4, (
            f"{right} of {count} right, theory says {expected:.4f}"
        )


class TestAccuracyEqualsTheory:
    @pytest.mark.parametrize("heat", ["", "+t1.0"])
    @pytest.mark.parametrize(
        ("n", "k"), [(2, 2), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3), (4, 4), (6, 2)]
    )
    def test_shuffle_is_equation_5(self, model: Ideal, n: int, k: int, heat: str) -> None:
        """Greedy or sampled, the share of right answers is the closed form's."""
        assert_accuracy(model, "shuffle", n, f"random-k{k}{heat}")

    @pytest.mark.nightly
    @pytest.mark.parametrize("heat", ["", "+t1.0"])
    @pytest.mark.parametrize(
        "policy", ["random", "confidence", "left_to_right", "margin", "entropy"]
    )
    @pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 10])
    def test_every_top_k_at_every_n(self, model: Ideal, n: int, policy: str, heat: str) -> None:
        """Both operations, every k, 1,000 rows each."""
        for op in ("shuffle", "replace_random"):
            for k in range(1, n + 1):
                assert_accuracy(model, op, n, f"{policy}-k{k}{heat}", 1000)

    @pytest.mark.parametrize("policy", ["confidence", "margin", "entropy", "left_to_right"])
    def test_shuffle_whatever_chooses_positions(self, model: Ideal, policy: str) -> None:
        """Ties are broken by noise, so a score can't tell which positions go well together."""
        assert_accuracy(model, "shuffle", 5, f"{policy}-k2", 150)

    @pytest.mark.parametrize(
        "sampler",
        [
            "random-k1",
            "random-k2",
            "confidence-k2",
            "entropy-k2",
            "random-k4",
            "random-k8",
            "random-k3",
            "confidence-k2+b4",
            "confidence-k2+t1.0",
            "random-k8+t1.0",
            "threshold-0.87",
            "threshold-0.88",
            "threshold-0.875",
            "threshold-0.6+t1.0",
            "factor-1.0",
            "factor-1.9+t1.0",
            "random+linear3",
        ],
    )
    def test_replace_random(self, model: Ideal, sampler: str) -> None:
        """½ at k = 2 and 0 above where k divides n = 8, the sampled values, either side of (n −
        1)/n and on it.
        """
        assert_accuracy(model, "replace_random", 8, sampler)

    @pytest.mark.parametrize(
        "sampler",
        [
            "threshold-0.51",
            "threshold-0.4",
            "threshold-0.1",
            "threshold-0.25",
            "threshold-0.25+t1.0",
            "factor-1.0",
            "factor-1.5",
        ],
    )
    def test_adaptive_shuffle(self, model: Ideal, sampler: str) -> None:
        """One at a time above ½; below, the closed forms, also where confidence and threshold are
        equal.
        """
        assert_accuracy(model, "shuffle", 4, sampler)

    @pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=pytest.mark.slow) if name.endswith("-x8") else name
            for name in ANSWERED
        ],
    )
    def test_one_by_one_is_always_right(self, model: Ideal, name: str) -> None:
        """With nothing parallel every task is solved, greedy and sampled."""
        task = load_task(name, limit=4)
        halves = {"random-k1": task.samples[::2], "confidence-k1+t1.0": task.samples[1::2]}
        for sampler, samples in halves.items():
            out = decode(model, samples, sampler)
            scores = [task.score(g.text, s) for g, s in zip(out, samples, strict=True)]
            assert [one.get("accuracy_strict", one["accuracy"]) for one in scores] == [1] * 2

    def test_fifteen_people_one_by_one(self, model: Ideal) -> None:
        """Counting, not listing: 128 tokens, 15 people."""
        task = load_task("waiting_line/shuffle", n=15, limit=2)
        out = decode(model, task.samples, "confidence-k1")
        assert [
            task.score(g.text, s)["accuracy"] for g, s in zip(out, task.samples, strict=True)
        ] == [1, 1]


class TestDistribution:
    @pytest.mark.parametrize(
        ("op", "n", "k"),
        [("shuffle", 3, 2), ("shuffle", 4, 2), ("replace_random", 4, 2), ("replace_random", 4, 4)],
    )
    def test_a_fixed_partition_loses_the_step_bound(
        self, model: Ideal, op: str, n: int, k: int
    ) -> None:
        """KL(data ‖ sampled answers) of left-to-right decoding at τ = 1 is L_T, within the error of
        1,500 draws.
        """
        count = 1500
        task = load_task(f"list_ops/{op}", n=n, limit=1)
        out = decode(model, copies(task.name, n, count), f"left_to_right-k{k}+t1.0", batch_size=500)
        seen = Counter(g.text for g in out)
        valid = [text for text in seen if task.score(text, task.samples[0])["accuracy"] == 1]
        assert len(valid) == {"shuffle": {3: 6, 4: 24}, "replace_random": {4: 4}}[op][n]
        bits = -sum(log2(len(valid) * seen[text] / count) for text in valid) / len(valid)
        sizes = [k] * (n // k) + [n % k] * (n % k > 0)
        assert bits == pytest.approx(step_bound(op, n, sizes), abs=0.1)

    def test_two_cities(self, model: Ideal) -> None:
        """One step of exact marginals is right half of the time, and says New City in a quarter."""
        label = {"answers": ["New York", "New Orleans", "Mexico City", "Panama City"]}
        samples = [
            Sample("demo/city", i, ({"role": "user", "content": "Pick a city."},), {}, label, 2)
            for i in range(1000)
        ]
        seen = Counter(g.text for g in decode(model, samples, "random-k2+t1.0", batch_size=500))
        assert binomtest(sum(seen[text] for text in label["answers"]), 1000, 0.5).pvalue > 1e-4
        assert binomtest(seen["New City"], 1000, 0.25).pvalue > 1e-4
        assert sum(seen.values()) == 1000


class TestNoise:
    def logits(self, model: Ideal, samples: Sequence[Sample], seed: int = 0) -> torch.Tensor:
        requests = [model.encode(sample, None, sample.index) for sample in samples]
        canvas = torch.tensor([request.canvas for request in requests])
        query = Query(canvas, canvas == model.mask_id, torch.zeros(len(requests), dtype=torch.long))
        return model.prepare(requests, cache=None, seed=seed).logits(query)

    def test_is_small_zero_mean_and_absent_on_request(self) -> None:
        """Against the noiseless logits: below its size, mean near 0, the same support."""
        sample = load_task("list_ops/shuffle", n=10, limit=1).samples[0]
        exact, noisy = (self.logits(Ideal(noise=size), [sample]) for size in (0.0, 1e-6))
        possible = exact.isfinite()
        assert (possible == noisy.isfinite()).all()
        difference = (noisy - exact)[possible]
        assert difference.abs().max() < 1e-6
        assert difference.abs().mean() > 3e-7
        assert difference.mean().abs() < 2e-7
        assert exact[possible].unique().numel() == 1

    def test_depends_on_row_and_seed_not_on_the_batch(self, model: Ideal) -> None:
        """A row's logits are the same alone, beside others, and in a model that has met other words
        before.
        """
        samples = copies("waiting_line/shuffle", 4, 3)
        together = self.logits(model, samples)
        alone = self.logits(model, samples[1:2])
        assert (together[32:64] == alone).all()
        assert (together[:32] != together[32:64]).any()
        assert (self.logits(model, samples[1:2], seed=1) != alone).any()
        fresh = self.logits(Ideal(), samples[1:2])
        assert (fresh == alone[:, : fresh.shape[1]]).all()

    def test_any_whole_number_is_a_seed(self, model: Ideal) -> None:
        """Of a large one the lower 64 bits count."""
        samples = copies("waiting_line/shuffle", 3, 1)
        for seed, same in ((2**63, -(2**63)), (2**64 + 3, 3), (-1, 2**64 - 1)):
            assert (self.logits(model, samples, seed) == self.logits(model, samples, same)).all()

    @pytest.mark.parametrize("sampler", ["confidence-k3", "random-k2+t1.0"])
    def test_answers_do_not_depend_on_batch_or_order(self, sampler: str) -> None:
        """One row at a time, in reverse, by a fresh model: the same tokens."""
        samples = load_task("waiting_line/shuffle", limit=8).samples
        together = decode(Ideal(), samples, sampler)
        backwards = decode(Ideal(), samples[::-1], sampler, batch_size=1)[::-1]
        assert [g.token_ids for g in together] == [g.token_ids for g in backwards]


class TestContract:
    def test_is_a_denoiser_of_the_registry(self, model: Ideal) -> None:
        """`ideal` loads by name and says what it is."""
        assert isinstance(load_model("ideal"), Denoiser)
        assert model.info["parameters"] == 0
        assert model.caches == frozenset()

    def test_a_device_that_is_none(self) -> None:
        """The error is the same as for models with weights."""
        with pytest.raises(ModelError, match="device 'gpu' is not known"):
            load_model("ideal", device="gpu")

    def test_what_it_can_answer(self) -> None:
        """Lists and puzzles, no text."""
        assert {name for name in all_task_names() if supports(name)} == set(ANSWERED)

    @pytest.mark.parametrize(
        "prompt", ["Pick a city.", [{"role": "user", "content": "Pick a city."}], [1, 2, 3]]
    )
    def test_takes_samples_only(self, model: Ideal, prompt: object) -> None:
        """Any other prompt has no answers that it could know."""
        with pytest.raises(ModelError, match="Samples only"):
            model.encode(prompt, 8, 0)  # type: ignore[arg-type]

    def test_refuses_text_tasks_and_caches(self, model: Ideal) -> None:
        """The error names the task, or the cache."""
        with pytest.raises(ModelError, match="text_writing/summarization, sample 0"):
            decode(model, load_task("text_writing/summarization", limit=1).samples, "random-k1")
        with pytest.raises(ModelError, match="prefix"):
            model.prepare([], cache="prefix", seed=0)
        for length in (1, 4):
            with pytest.raises(ModelError, match=f"tokens, the canvas only {length}"):
                model.encode(load_task("waiting_line/copy", limit=1).samples[0], length, 0)
        for length in (0, -3, "8"):
            with pytest.raises(ModelError, match="whole number of at least 1"):
                model.encode(load_task("waiting_line/copy", limit=1).samples[0], length, 0)  # type: ignore[arg-type]
        with pytest.raises(ModelError, match=r"not 0\.5"):
            Ideal(noise=0.5)

    def test_text_stops_at_the_first_eos(self, model: Ideal) -> None:
        """Masks are left out, and nothing after EOS is shown."""
        request = model.encode(load_task("list_ops/copy", n=3, limit=1).samples[0], None, 0)
        assert model.text(request.canvas) == '["", "", ""]'
        assert model.text([*request.canvas[:1], model.eos_id, *request.canvas[1:]]) == '["'

    def test_shorter_canvases_share_a_batch_with_longer_ones(self, model: Ideal) -> None:
        """Rows of n = 3 and n = 6 beside each other, padded by the loop."""
        task = load_task("list_ops/shuffle", n=[3, 6], limit=4)
        out = decode(model, task.samples, "confidence-k1", batch_size=4)
        assert [len(g.token_ids) for g in out] == [
            len(model.encode(s, None, 0).canvas) for s in task.samples
        ]
        assert [
            task.score(g.text, s)["accuracy"] for g, s in zip(out, task.samples, strict=True)
        ] == [1] * 4

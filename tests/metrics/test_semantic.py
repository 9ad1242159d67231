"""BERTScore with a small random RoBERTa made here."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from pbcore.cli import main
from pbcore.metrics import semantic
from pbcore.metrics.semantic import BertScore, BertScoreUnavailable, ScoringModel
from tests.metrics import small_roberta
from tests.metrics.small_roberta import SENTENCES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_roberta.write(tmp_path_factory.mktemp("model"))


class TestBertScore:
    def test_rounding_leaves_a_share(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A cosine a little above 1 or below 0 counts as 1 or 0; an empty text is not compared at
        all.
        """
        measured = torch.tensor([[0.0, 0.0, 1.0000002], [0.0, 0.0, -0.1]])
        scorer = BertScore(ScoringModel("tiny", folder, 2), "cpu")
        scorer.f1(["a"], ["a"])
        monkeypatch.setattr(
            "bert_score.utils.bert_cos_score_idf", lambda *args, **options: measured
        )
        assert scorer.f1(["a", "", "b"], ["a", "b", "c"]) == [1.0, 0.0, 0.0]

    def test_equals_the_plain_formula(self, folder: Path) -> None:
        """F1 of greedy cosine matching of the chosen layer's vectors; special tokens may be matched
        but don't count.
        """
        from transformers import RobertaModel, RobertaTokenizer

        tokenizer = RobertaTokenizer.from_pretrained(folder)
        model = RobertaModel.from_pretrained(folder).eval()

        def vectors(text: str) -> torch.Tensor:
            ids = tokenizer(text, return_tensors="pt").input_ids  # (1, L)
            with torch.no_grad():
                hidden = model(ids, output_hidden_states=True).hidden_states[2][0]  # (L, D)
            return hidden / hidden.norm(dim=-1, keepdim=True)

        expected = []
        for ours, theirs in pairwise(SENTENCES):
            cosines = vectors(" " + ours) @ vectors(" " + theirs).T  # (I, J)
            precision = cosines.amax(1)[1:-1].mean().item()
            recall = cosines.amax(0)[1:-1].mean().item()
            expected.append(2 * precision * recall / (precision + recall))
        scores = BertScore(ScoringModel("tiny", folder, 2), "cpu").f1(SENTENCES[:-1], SENTENCES[1:])
        assert scores == pytest.approx(expected, abs=1e-5)
        assert max(scores) < 1.0

    def test_a_copy_scores_one_and_nothing_scores_zero(self, folder: Path) -> None:
        """The ends of the scale; an empty answer among others changes none of them."""
        scores = BertScore(ScoringModel("tiny", folder, 2), "cpu").f1(
            ["a dog ran", " ", "a dog ran"], ["a dog ran", "a cat", "a mat sat"]
        )
        assert scores[0] == pytest.approx(1.0, abs=1e-5)
        assert scores[1] == 0.0
        assert 0.0 < scores[2] < 1.0

    def test_the_layer_matters(self, folder: Path) -> None:
        """Another layer compares other vectors."""
        one, two = (
            BertScore(ScoringModel("tiny", folder, layer), "cpu").f1(SENTENCES[:1], SENTENCES[1:2])
            for layer in (1, 3)
        )
        assert abs(one[0] - two[0]) > 1e-4

    def test_long_texts_are_cut_to_the_models_length(self, folder: Path) -> None:
        """A text beyond the 32 positions is scored by its beginning, though the folder states no
        length.
        """
        long = " ".join(["the cat sat on the mat"] * 30)
        assert BertScore(ScoringModel("tiny", folder, 2), "cpu").f1(
            [long], [long + " a dog"]
        ) == pytest.approx([1.0], abs=1e-5)


class TestScorer:
    def test_uses_the_folder_and_layer_of_the_environment(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The environment names a local model, and the scorer says which layer it compares."""
        monkeypatch.setenv(semantic.MODEL_VARIABLE, str(folder))
        monkeypatch.setenv(semantic.LAYER_VARIABLE, "2")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        assert str(semantic.bert_scorer().source) == f"{folder}, layer 2"
        assert semantic.bert_scorer().device == "cpu"

    def test_a_folder_without_a_known_layer_asks_for_one(self, folder: Path) -> None:
        """Which layer to compare is never guessed."""
        with pytest.raises(
            BertScoreUnavailable,
            match=r"no layer for .* PBCORE_BERTSCORE_LAYER \(roberta-large has 17\)",
        ):
            semantic.find_model(str(folder))

    def test_a_published_name_has_its_layer(self, folder: Path, tmp_path: Path) -> None:
        """A folder called as a model that bert-score knows compares that model's layer, if it has
        it.
        """
        own = tmp_path / "roberta-large"
        shutil.copytree(folder, own)
        with pytest.raises(
            BertScoreUnavailable, match=r"has 3 layers, no layer 17: set PBCORE_BERTSCORE_LAYER"
        ):
            semantic.find_model(str(own))
        shutil.copytree(folder, tmp_path / "bert-base-uncased")
        with pytest.raises(BertScoreUnavailable, match=r"has 3 layers, no layer 9"):
            semantic.find_model(str(tmp_path / "bert-base-uncased"))

    @pytest.mark.parametrize(
        ("missing", "named"),
        [
            ("config.json", "config.json"),
            ("model.safetensors", "weights"),
            ("vocab.json", "a tokenizer"),
        ],
    )
    def test_a_folder_that_is_no_checkpoint_is_refused(
        self, folder: Path, tmp_path: Path, missing: str, named: str
    ) -> None:
        """With the name of what it lacks, without loading anything."""
        shutil.copytree(folder, tmp_path / "own")
        (tmp_path / "own" / missing).unlink()
        with pytest.raises(
            BertScoreUnavailable, match=f"own lacks {named} .*: give a whole checkpoint"
        ):
            semantic.find_model(str(tmp_path / "own"), "2")

    def test_a_damaged_config_is_refused(self, folder: Path, tmp_path: Path) -> None:
        """As is a path that bert-score would take for another architecture."""
        shutil.copytree(folder, tmp_path / "own")
        (tmp_path / "own" / "config.json").write_text("[]")
        with pytest.raises(BertScoreUnavailable, match=r"config\.json is not a model's"):
            semantic.find_model(str(tmp_path / "own"), "2")
        shutil.copytree(folder, tmp_path / "flat5")
        with pytest.raises(BertScoreUnavailable, match="contains 't5'"):
            semantic.find_model(str(tmp_path / "flat5"), "2")

    def test_a_layer_is_a_number(self, folder: Path) -> None:
        """Another text in the environment is named with its variable."""
        with pytest.raises(
            semantic.BertScoreUnavailable,
            match="PBCORE_BERTSCORE_LAYER=last: give the number of a layer",
        ):
            semantic.find_model(str(folder), "last")

    def test_a_missing_model_is_not_downloaded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is not on this machine is absent, with the command that would get it; no request is
        sent.
        """
        import socket

        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("went to the network"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        with pytest.raises(
            BertScoreUnavailable, match="not on this machine: run `pbcore install bertscore`"
        ):
            semantic.find_model("distilroberta-base")

    def test_the_command_says_what_it_installed(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """`pbcore install bertscore`: model, layer and folder; or why it can't be had, with exit
        status 1.
        """
        monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(folder))
        assert main(["install", "bertscore"]) == 0
        assert capsys.readouterr().out == f"BERTScore: roberta-large, layer 17, in {folder}\n"
        assert main(["install", "bertscore", "--model", "no/layer"]) == 1
        assert "bert-score has no layer for no/layer" in capsys.readouterr().out

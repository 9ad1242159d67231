"""`pbcore explain`: shares that a brute force over all combinations gives, and what it says of
settings that can't be varied.
"""

from __future__ import annotations

import json
import re
import shlex
from itertools import permutations
from math import factorial
from pathlib import Path

import numpy as np
import pytest

import pbcore
from pbcore.analysis.explanation import explanation_of
from pbcore.cli import main
from pbcore.results.rundir import RunDir

TASK = "waiting_line/shuffle"
FIRST = ("confidence-k2", 1)  # sampler, shots
SECOND = ("confidence-k2+b8+t1.0", 0)
LIMIT = 3


def measured(folder: Path, sampler: str, shots: int, *more: str, model: str = "tiny") -> Path:
    words = ["--sampler", sampler, "--shots", str(shots), "--limit", str(LIMIT), *more]
    inner = ["-q", "-p", "no:cacheprovider", "--pyargs", "pbcore.benches"]
    pytest.main([*inner, "--model", model, "--task", "shuffle", *words, "--out", str(folder)])
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs that differ in temperature, blocks and shots."""
    folder = tmp_path_factory.mktemp("explain")
    return measured(folder / "a", *FIRST), measured(folder / "b", *SECOND)


def explained(words: list[str], tmp_path: Path) -> dict:  # type: ignore[type-arg]
    """What a call writes as JSON."""
    out = tmp_path / "out.json"
    assert main(["explain", *words, "--json", str(out)]) == 0
    data: dict = json.loads(out.read_text(encoding="utf-8"))  # type: ignore[type-arg]
    return data


def brute_force() -> dict[str, float]:
    """Shapley shares by all orders, over accuracies of plain decodings."""
    parts = {"block length": "+b8", "temperature": "+t1.0", "shots": ""}
    model = pbcore.load_model("tiny")
    scores = {}
    for number in range(8):
        on = {name for place, name in enumerate(parts) if number >> place & 1}
        sampler = FIRST[0] + "".join(parts[name] for name in parts if name in on)
        task = pbcore.load_task(TASK, limit=LIMIT, shots=0 if "shots" in on else 1)
        answers = pbcore.decode(model, task.samples, sampler)
        scored = task.score_many([answer.text for answer in answers], list(task.samples))
        scores[frozenset(on)] = float(np.mean([one.scores["accuracy"] for one in scored]))
    shares = dict.fromkeys(parts, 0.0)
    for order in permutations(parts):
        for place, name in enumerate(order):
            before = frozenset(order[:place])
            shares[name] += 100 * (scores[before | {name}] - scores[before]) / factorial(3)
    return shares


def test_shares_are_those_of_a_brute_force(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over the 2³ combinations; they sum to the difference, and page, picture, terminal and JSON
    have the same ones.
    """
    first, second = runs
    folder = tmp_path / "explained"
    data = explained([str(first), str(second), "--out", str(folder)], tmp_path)
    shares = {share["option"]: share["points"] for share in data["shares"]}
    assert shares == pytest.approx(brute_force())
    assert sum(shares.values()) == pytest.approx(data["gap"])
    assert data["n"] == LIMIT
    for share in (*data["shares"], {**data, "points": data["gap"]}):
        assert share["low"] <= share["points"] + 1e-9 <= share["high"] + 2e-9
    said = capsys.readouterr().out
    assert "6 combinations to measure" in said  # what both runs measured is theirs
    assert f"{shares['shots']:+.1f}" in said
    assert "are from shots 1 → 0" in said
    assert (folder / "waterfall.svg").is_file()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Why the scores differ" in page
    assert "are from shots 1 → 0" in page
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert "## Why the scores differ" in report
    kept = explanation_of(RunDir(folder).read_run())
    assert kept is not None
    assert kept.to_json() == data


@pytest.mark.slow
def test_what_was_measured_is_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A preset changes two parts of the sampler; a second call with --resume keeps all cells."""
    words = [str(measured(tmp_path / "first", *FIRST, model="ideal")), "--preset", "dream"]
    folder = tmp_path / "explained"
    once = explained([*words, "--out", str(folder)], tmp_path)
    assert [share["option"] for share in once["shares"]] == ["policy", "temperature"]
    assert [share["to"] for share in once["shares"]] == ["entropy-k1", "+t0.1+p0.9"]
    again = explained([*words, "--resume", str(folder)], tmp_path)
    assert again == once
    log = (folder / "pytest.log").read_text(encoding="utf-8")
    assert "3 cells kept, 0 measured" in log
    capsys.readouterr()
    assert main(["explain", *words, "--estimate"]) == 0
    assert "forwards" in capsys.readouterr().out


@pytest.mark.slow
def test_a_combination_that_cannot_run_leaves_its_parts_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cache with `wino`: both are one step, whose part is known; which combination it was is
    said.
    """
    words = ["--from", "--sampler confidence-k4+prefix", "--to", "--sampler wino-0.6 --shots 0"]
    words += ["--model", "tiny", "--task", "shuffle", "--limit", "4"]
    data = explained([*words, "--out", str(tmp_path / "run")], tmp_path)
    known = {share["option"]: share["points"] for share in data["shares"]}
    assert known["policy"] is None
    assert known["caches"] is None
    assert known["policy and caches"] + known["shots"] == pytest.approx(data["gap"])
    assert "wino-0.6+prefix" in data["shares"][1]["why"]
    assert "wino-0.6+prefix" in capsys.readouterr().out


@pytest.mark.slow
def test_many_options_have_no_shares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five: each alone added to the first setting, and alone taken from the second."""
    to = "--sampler margin-k8+b32+t0.5 --shots 0 --max-new-tokens 96"
    words = ["--from", "--sampler confidence-k8", "--to", to, "--model", "tiny"]
    words += ["--task", "copy", "--limit", "2", "--out", str(tmp_path / "run")]
    data = explained(words, tmp_path)
    assert len(data["shares"]) == 5
    for share in data["shares"]:
        assert share["points"] is None
        assert {"added", "taken"} <= share.keys()
    said = capsys.readouterr().out
    assert "12 combinations to measure" in said
    assert "too many for shares" in said


def test_settings_that_do_not_differ(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is run, and it is said."""
    first = str(runs[0])
    data = explained([first, first], tmp_path)
    assert (data["gap"], data["shares"]) == (0, [])
    assert "no difference to explain" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give two settings"),
        (["--preset", "drem"], "did you mean dream"),
        (["--preset", "parallelbench-tables-k2"], "measure it with --n 15"),
        (["--preset", "parallelbench-blocks"], "has several samplers"),
        (["--published", "LLaDA 9"], "LLaDA 1.5"),
        (["--published", "LLaDA"], "measure with --data-dir"),
        (["--preset", "dream", "--model", "big"], "has tiny"),
        (["--preset", "dream", "--task", "sort"], "has shuffle"),
        (["--preset", "dream", "--sampler", "random-k2"], "has confidence-k2"),
        (["--to", "--sampler confidence-k2 --shots 9"], "0 to 8"),
        (["--to", "--sampler 'confidence"], "quotation"),
    ],
)
def test_input_that_cannot_be_used(
    runs: tuple[Path, Path],
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit 2, and one line that names what there is."""
    if "--published" in words:
        pytest.importorskip("pbcore.extras.paper")
    more = ["--model", "tiny", "--task", "shuffle"] if "--to" in words else []
    assert main(["explain", str(runs[0]), *words, *more]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error


@pytest.mark.slow
def test_other_questions_cannot_be_paired(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples drawn by another seed are others."""
    other = measured(tmp_path / "other", *SECOND, "--data-seed", "3")
    assert main(["explain", str(runs[0]), str(other)]) == 2
    assert "--data-seed: not given" in capsys.readouterr().err


@pytest.mark.slow
def test_the_docs_show_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example of docs/compare.md, line by line."""
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
    shown = re.search(r"```\n(pbcore explain .*)\n```\n\n```text\n(.*?)\n```", page, re.DOTALL)
    assert shown is not None
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(shown[1])[1:]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    expected = [line.split() for line in shown[2].splitlines()]
    assert printed[: len(expected)] == expected

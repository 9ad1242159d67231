"""How fast grammar is checked: distinct answers through a warm server, then the same answers from the cache."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from pbcore.metrics.grammar import Checker
from pbcore.metrics.languagetool.cache import VerdictCache
from pbcore.metrics.languagetool.shared import HEAP_MEGABYTES, SharedServer
from pbcore.tasks.scenes import word_sets

ANSWERS = 1000


def answers(seed: int) -> list[str]:
    """Distinct sentences as models write them: every second one with a word said twice."""
    rows = [word_sets(level, split="train", seed=seed, count=ANSWERS, words=4) for level in ("easy", "medium", "hard")]
    clean = sorted({row["example"] for part in rows for row in part})[:ANSWERS]
    return [text if index % 2 else re.sub(r" (\w+) ", r" \1 \1 ", text, count=1) for index, text in enumerate(clean)]


@pytest.mark.speed
def test_grammar_rate(
    benchmark: BenchmarkFixture, grammar_checker: Checker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warm server and then its cache give the same verdicts."""
    for seed in (1, 2):
        Checker(grammar_checker.server).check(answers(seed))
    texts = answers(3)
    cache = tmp_path / "grammar.sqlite"
    start = time.perf_counter()
    verdicts = benchmark.pedantic(Checker(grammar_checker.server, VerdictCache(cache)).check, args=(texts,), rounds=1)
    middle = time.perf_counter()
    again = Checker(grammar_checker.server, VerdictCache(cache)).check(texts)
    end = time.perf_counter()
    assert again == verdicts
    rates = {"warm": len(texts) / (middle - start), "cached": len(texts) / (end - middle)}
    benchmark.extra_info |= {f"answers_per_second_{name}": round(rate, 1) for name, rate in rates.items()}
    with capsys.disabled():
        print(f"\ngrammar: {rates['warm']:.0f} answers/s warm, {rates['cached']:.0f} answers/s from the cache", end="")
        if isinstance(grammar_checker.server, SharedServer) and (size := memory(grammar_checker.server.java)):
            print(f", {size} MB resident in Java (heap limit {HEAP_MEGABYTES} MB)", end="")


def memory(process: int | None) -> int | None:
    """Resident megabytes of a process."""
    import psutil

    return None if process is None else psutil.Process(process).memory_info().rss // 2**20

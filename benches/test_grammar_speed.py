"""How fast grammar is checked: distinct answers through a warm server, beside plain requests, then
from the cache.
"""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import psutil
import pytest
import requests
from pytest_benchmark.fixture import BenchmarkFixture

from pbcore.metrics.grammar import GrammarChecker, verdict_cache
from pbcore.metrics.languagetool.client import THREADS
from pbcore.metrics.languagetool.server import DIRECT, HEAP_MEGABYTES, SharedServer
from pbcore.tasks.scenes import word_sets

ANSWERS = 500


def answers(seed: int) -> list[str]:
    """Distinct sentences as models write them: every second one with a word said twice."""
    rows = [
        islice(word_sets(level, split="train", seed=seed), ANSWERS)
        for level in ("easy", "medium", "hard")
    ]
    clean = sorted({row["example"] for part in rows for row in part})[:ANSWERS]
    return [
        text if index % 2 else re.sub(r" (\w+) ", r" \1 \1 ", text, count=1)
        for index, text in enumerate(clean)
    ]


def plain(url: str, texts: list[str]) -> None:
    """The same requests without a library between, over connections that stay open."""
    with requests.Session() as session, ThreadPoolExecutor(THREADS) as threads:
        for answer in threads.map(
            lambda text: session.post(
                f"{url}v2/check", {"text": text, "language": "en-US"}, proxies=DIRECT
            ),
            texts,
        ):
            assert answer.json()["matches"] is not None


def seconds(work: object, *arguments: object) -> float:
    start = time.perf_counter()
    work(*arguments)  # type: ignore[operator]
    return time.perf_counter() - start


@pytest.mark.speed
def test_grammar_rate(
    benchmark: BenchmarkFixture,
    grammar_checker: GrammarChecker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A warm server and then its cache give the same verdicts."""
    server = grammar_checker.server
    cache = tmp_path / "grammar.sqlite"
    GrammarChecker(server).check(answers(1))
    texts = answers(2)
    verdicts = benchmark.pedantic(
        GrammarChecker(server, verdict_cache(cache)).check, args=(texts,), rounds=1
    )
    assert GrammarChecker(server, verdict_cache(cache)).check(texts) == verdicts
    took = {
        "cached": seconds(GrammarChecker(server, verdict_cache(cache)).check, texts),
        "checked": 0.0,
        "plain": 0.0,
    }
    for _ in range(2):  # in turns: the machine may be busy with other work
        took["plain"] += seconds(plain, server.url(), texts) / 2
        took["checked"] += seconds(GrammarChecker(server).check, texts) / 2
    rates = {name: len(texts) / one for name, one in took.items()}
    benchmark.extra_info |= {
        f"answers_per_second_{name}": round(rate, 1) for name, rate in rates.items()
    }
    with capsys.disabled():
        print(
            f"\ngrammar: {rates['checked']:.0f} answers/s warm,"
            f" {rates['checked'] / rates['plain']:.2f} of plain requests' {rates['plain']:.0f},"
            f" {rates['cached']:.0f} answers/s from the cache",
            end="",
        )
        if isinstance(server, SharedServer):
            java = psutil.Process(int((server.state / "java").read_text().split()[0]))
            size = java.memory_info().rss // 2**20
            print(f", {size} MB resident in Java (heap limit {HEAP_MEGABYTES} MB)", end="")

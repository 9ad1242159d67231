"""`--max-new-tokens` and `--cot`: the length that a server is sent."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import yaml

import pbcore
from pbcore.extras.servers.spec import KINDS
from tests.extras.lm_eval.harness import needs_harness, write_task
from tests.extras.lm_eval.test_run import SCORED, SUMS
from tests.extras.servers.fake import FakeServer, serving
from tests.extras.servers.served import MINE, declare, right, stored
from tests.plugin.conftest import Run


@pytest.mark.parametrize(
    ("kinds", "asked", "sent"),
    [
        (sorted(KINDS), "", 1024),
        (sorted(KINDS), "--max-new-tokens 16", 16),
        (["vllm"], "--max-new-tokens 2000", 2000),
        (["vllm"], "--cot", 1024),
    ],
)
def test_servers_are_sent_the_length_that_is_asked_for(
    kinds: list[str],
    asked: str,
    sent: int,
    run: Run,
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the record and the estimate say what was sent; without the option it is the declared
    limit.
    """
    monkeypatch.setenv("A_KEY", "0123456789")
    entries = {}
    with ExitStack() as stack:
        servers = {kind: stack.enter_context(serving(right)) for kind in kinds}
        for kind, server in servers.items():
            declare(project, server, kind=kind, **({"key": "A_KEY"} if kind == "anthropic" else {}))
            entries[f"mine-{kind}"] = yaml.safe_load((project.path / "models.yaml").read_text())[
                "mine"
            ]
        (project.path / "models.yaml").write_text(yaml.safe_dump(entries))
        models = " ".join(f"--model {name}" for name in entries)
        output = run(f"--models models.yaml {models} --task copy --limit 2 --out out {asked}")
    rows = pbcore.results.load(project.path / "out").set_index("model")["decoding"]
    assert len(rows) == len(kinds)
    for kind, server in servers.items():
        assert [one.body["max_tokens"] for one in server.asked] == [sent, sent], kind
        assert rows[f"mine-{kind}"]["max_new_tokens"] == {str(sent): 2}
        output.stdout.fnmatch_lines_random([f"*mine-{kind}: *at most {2 * sent:,} answer tokens*"])


@pytest.mark.parametrize(
    ("asked", "sent"), [("--max-new-tokens 16", 16), ("--cot", 256), ("", 128)]
)
def test_a_declared_limit_below_the_steps_gives_way(
    asked: str, sent: int, run: Run, project: pytest.Pytester, server: FakeServer
) -> None:
    """As with `mercury`, whose declared limit is 128 tokens."""
    declare(project, server, max_tokens=128)
    run(f"{MINE} --task copy --limit 1 --out out {asked}").assert_outcomes(passed=1)
    assert server.asked[-1].body["max_tokens"] == sent


def test_equal_lengths_differ_in_their_key(
    run: Run, project: pytest.Pytester, server: FakeServer
) -> None:
    """32 tokens are the task's canvas; asked for, they limit a server, too, and that is another
    measurement.
    """
    declare(project, server)
    asked = (f"{MINE} --task copy --limit 1 --out", "--max-new-tokens 32")
    run(asked[0] + " plain")
    run(f"{asked[0]} limited {asked[1]}")
    plain, limited = (stored(project, run=name).cell.conditions for name in ("plain", "limited"))
    assert plain.data_hash == limited.data_hash
    assert plain.key != limited.key


def test_a_harness_task_has_its_own_length(
    run: Run, project: pytest.Pytester, server: FakeServer
) -> None:
    """A server is sent what the harness asks for, not its declared limit; another length is
    refused.
    """
    needs_harness()
    folder = write_task(project.path / "tasks", "sums", SUMS, **SCORED)
    declare(project, server)
    asked = f"{MINE} --task lm_eval/sums --limit 1 --lm-eval-path {folder}"
    run(asked).assert_outcomes(passed=1)
    assert [one.body["max_tokens"] for one in server.asked] == [16]
    refused = run(f"{asked} --max-new-tokens 64")
    refused.stdout.fnmatch_lines(
        ["left out: 1 cell, lm_eval/sums with --max-new-tokens: lm-evaluation-harness asks*"]
    )

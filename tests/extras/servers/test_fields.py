"""Fields that say a sampler: whether they have an effect, where that is kept, and who tells it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.extras.servers.declared import row_status
from pbcore.extras.servers.field_check import (
    FieldResult,
    answer_tokens,
    base_sampler,
    check_fields,
    far_value,
)
from pbcore.extras.servers.field_report import fields_summary
from pbcore.extras.servers.field_states import (
    field_states,
    keep,
    kept,
    not_verified,
    notes,
    row_text,
)
from pbcore.extras.servers.served_engine import ServedEngine
from pbcore.extras.servers.spec import ServerSpec
from tests.extras.servers.fake import Act, FakeServer, Script, serving
from tests.extras.servers.served import declare, right, stored
from tests.plugin.conftest import Run
from tests.reference import bundled

FIELDS = {
    "confidence": {"steps": "steps", "b": "block"},
    "threshold": {"number": "vllm_xargs.threshold", "b": "block", "prefix": "cache"},
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of each test's own."""
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def spec_of(url: str = "http://h", **keys: Any) -> ServerSpec:
    values = {"sampler": "threshold-0.9+b8", "sampler_fields": FIELDS, "retries": 0, **keys}
    return ServerSpec("mine", "the-model", f"{url}/v1", **values)


def value_at(body: Mapping[str, Any], place: str) -> Any:
    value: Any = body
    for part in place.split("."):
        value = value.get(part, {})
    return value


def reads(*places: str, **extra: Any) -> Script:
    """A server whose answers depend on these fields alone."""
    return lambda number, body: Act(text=repr([value_at(body, place) for place in places]), **extra)


def results_of(script: Script, prompts: int = 2, **keys: Any) -> dict[str, FieldResult]:
    """Policy and place → what came of a field."""
    with serving(script) as server:
        engine = ServedEngine(spec_of(server.url, **keys), None, 10.0)
        found = list(check_fields(engine, [f"prompt {at}" for at in range(prompts)]))
    return {f"{result.policy} {result.field}": result for result in found}


class TestValues:
    @pytest.mark.parametrize(
        ("sampler", "fields", "part", "near", "far"),
        [
            ("threshold-0.9+b8", {"number": "x", "b": "y"}, "number", 0.9, 0.001),
            ("threshold-0.01+b8", {"number": "x", "b": "y"}, "number", 0.01, 1.0),
            ("factor-1.0", {"number": "x"}, "number", 1.0, 0.001),
            ("saber-2", {"number": "x"}, "number", 2, 1000),
            ("confidence-k1+b8", {"k": "x", "b": "y"}, "k", 1, 8),
            ("confidence-k8+b8", {"k": "x", "b": "y"}, "k", 8, 1),
            ("confidence-k1+b8", {"steps": "x", "b": "y"}, "steps", 32, 4),
            ("confidence-k8+b8", {"steps": "x", "b": "y"}, "steps", 4, 32),
            ("threshold-0.9+b8", {"number": "x", "b": "y"}, "b", 8, 32),
            ("threshold-0.9", {"number": "x", "b": "y"}, "b", 32, 8),
            ("threshold-0.9+prefix", {"number": "x", "prefix": "y"}, "prefix", True, False),
        ],
    )
    def test_two_values_far_apart(
        self, sampler: str, fields: dict[str, str], part: str, near: Any, far: Any
    ) -> None:
        """The declared one, and the farthest that the policy takes, of the same type."""
        policy = sampler.partition("-")[0]
        spec = spec_of(sampler=sampler, sampler_fields={policy: fields})
        base = base_sampler(spec, policy)
        assert base is not None
        assert str(base) == sampler
        found = far_value(spec, base, part, answer_tokens(base))
        assert (found, type(found)) == (far, type(near))

    def test_a_policy_that_is_not_the_declared_one(self) -> None:
        """Gets its simplest sampler that the fields can say."""
        spec = spec_of()
        assert str(base_sampler(spec, "confidence")) == "confidence-k1+b8"
        assert str(base_sampler(spec, "threshold")) == "threshold-0.9+b8"
        linear = {"confidence": {"linear": "x", "b": "y"}}
        assert str(base_sampler(spec_of(sampler_fields=linear), "confidence")) == (
            "confidence+b8+linear4"
        )
        assert base_sampler(spec_of(sampler_fields={"server": {}}), "server") is None

    def test_answers_have_whole_blocks(self) -> None:
        """Two at least."""
        lengths = []
        for end in ("", "+b8", "+b12", "+b64"):
            base = base_sampler(spec_of(sampler=f"threshold-0.9{end}"), "threshold")
            assert base is not None
            lengths.append(answer_tokens(base))
        assert lengths == [32, 32, 36, 128]


class TestCheck:
    def test_a_field_that_the_server_ignores_is_inert(self) -> None:
        """vLLM takes per-request `vllm_xargs` and ignores them."""
        found = results_of(reads("steps", "block"))
        verdicts = {name: result.verdict for name, result in found.items()}
        assert verdicts == {
            "confidence steps": "effective",
            "confidence block": "effective",
            "threshold vllm_xargs.threshold": "inert",
            "threshold block": "effective",
            "threshold cache": "inert",
        }
        inert = found["threshold vllm_xargs.threshold"]
        assert (inert.values, inert.changed, inert.of) == ((0.9, 0.001), 0, 2)
        assert fields_summary(list(found.values())).startswith("3 of 5 fields with an effect; ")

    def test_only_one_field_differs(self) -> None:
        """Between the two requests of a field."""
        sent = []

        def script(number: int, body: dict[str, Any]) -> Act:
            sent.append({place: value_at(body, place) for place in FIELDS["threshold"].values()})
            return Act(text="same")

        results_of(script, 1, sampler_fields={"threshold": FIELDS["threshold"]})
        first, again, *varied = sent
        assert first == again
        for request, place in zip(varied, FIELDS["threshold"].values(), strict=True):
            assert {name for name in first if first[name] != request[name]} == {place}

    def test_forwards_show_an_effect(self) -> None:
        """Where answers stay the same."""

        def script(number: int, body: dict[str, Any]) -> Act:
            return Act(text="same", extra={"nfe": int(value_at(body, "vllm_xargs.threshold") * 8)})

        fields = {"threshold": {"number": "vllm_xargs.threshold"}}
        found = results_of(script, sampler_fields=fields, sampler="threshold-0.9", nfe_field="nfe")
        assert found["threshold vllm_xargs.threshold"].verdict == "effective"

    def test_a_server_that_draws_settles_nothing(self) -> None:
        """Answers that change by themselves are no effect of a field."""
        numbers = itertools.count()
        found = results_of(lambda number, body: Act(text=str(next(numbers))))
        assert {result.verdict for result in found.values()} == {"unsettled"}

    def test_empty_answers_settle_nothing(self) -> None:
        """They would be the same whatever a field does."""
        found = results_of(lambda number, body: Act(text=" "))
        assert {result.verdict for result in found.values()} == {"unsettled"}
        assert {result.text for result in found.values()} == {"its answers are empty"}

    def test_a_prompt_that_is_steady_is_enough(self) -> None:
        """Of those whose equal requests have equal answers."""
        numbers = itertools.count()

        def script(number: int, body: dict[str, Any]) -> Act:
            steady = body["messages"][0]["content"] == "prompt 0"
            return Act(text=str(value_at(body, "block") if steady else next(numbers)))

        found = results_of(script)
        assert (found["threshold block"].verdict, found["threshold block"].of) == ("effective", 1)
        assert found["threshold cache"].verdict == "inert"

    def test_a_refused_value_fails_alone(self) -> None:
        """With the server's word; the other fields are tried."""

        def script(number: int, body: dict[str, Any]) -> Act:
            if value_at(body, "vllm_xargs.threshold") == 0.001:
                return Act(status=400, body={"error": {"message": "threshold is too small"}})
            return reads("block")(number, body)

        found = results_of(script)
        failed = found["threshold vllm_xargs.threshold"]
        assert failed.verdict == "failed"
        assert "threshold is too small" in failed.text
        assert found["threshold block"].verdict == "effective"


class TestKept:
    def test_nobody_checked(self) -> None:
        """A row without a check says so, whatever it declares."""
        spec = spec_of()
        assert kept(spec) is None
        assert set(field_states(spec, "threshold").values()) == {"unchecked"}
        assert row_text(spec).startswith(
            "sampler declared, not verified: steps, block never checked"
        )
        assert row_text(spec_of(sampler_fields={})) == ""
        assert row_status(spec).startswith("server, no key needed; sampler declared, not verified")

    def test_what_was_found(self) -> None:
        """Is told by policy, until the server has another version, or is another one."""
        spec = spec_of()
        keep(spec, "1.0", {"threshold": {"vllm_xargs.threshold": "inert", "block": "effective"}})
        keep(spec, "1.0", {"confidence": {"steps": "effective", "block": "effective"}})
        states = field_states(spec, "threshold", "1.0")
        assert list(states.values()) == ["inert", "effective", "unchecked"]
        assert not_verified(states).startswith("vllm_xargs.threshold without effect; cache never")
        assert not_verified(field_states(spec, "confidence")) == ""
        assert "unchecked" in field_states(spec, "confidence", "2.0").values()
        for other in ({"model": "other"}, {"extra_body": {"a": 1}}, {"kind": "vllm"}):
            assert kept(replace(spec, **other)) is None
        keep(spec, "2.0", {"confidence": {"steps": "effective", "block": "effective"}})
        assert set(field_states(spec, "threshold").values()) == {"unchecked"}

    def test_a_verified_row_says_so(self) -> None:
        """And tables say nothing more of its cells."""
        spec = spec_of(sampler_fields={"confidence": FIELDS["confidence"]})
        keep(spec, None, {"confidence": {"steps": "effective", "block": "effective"}})
        assert row_text(spec) == "sampler verified"
        assert notes([("mine", "confidence-k1", field_states(spec, "confidence"))]) == []

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"date": 3}', '{"policies": {"a": "b"}}'])
    def test_a_damaged_file_is_nothing(self, text: str) -> None:
        """And the next check replaces it."""
        spec = spec_of()
        path = keep(spec, None, {"confidence": {"steps": "inert"}})
        path.write_text(text)
        assert set(field_states(spec, "confidence").values()) == {"unchecked"}
        keep(spec, None, {"confidence": {"steps": "inert"}})
        assert field_states(spec, "confidence")["steps"] == "inert"

    def test_a_note_names_samplers_once(self) -> None:
        """A line per model and reason; of many samplers the first."""
        states = {"x": "inert"}
        cells = [("mine", f"confidence-k{k}", states) for k in (1, 2, 4, 8, 8)]
        assert notes([*cells, ("tiny", "confidence-k1", {})]) == [
            "declared, not verified: confidence-k1, confidence-k2, confidence-k4 and 1 more of"
            " mine: x without effect"
        ]


class TestTold:
    FIELDS = "{threshold: {number: vllm_xargs.threshold, b: block}}"

    @pytest.fixture
    def server(self) -> Iterator[FakeServer]:
        def script(number: int, body: dict[str, Any]) -> Act:
            return Act(text=right(number, body).text or "[]")

        with serving(script) as server:
            yield server

    def test_by_a_verdict_that_names_samplers(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """And by the page."""
        declare(project, server, sampler="threshold-0.9+b8", sampler_fields=self.FIELDS)
        samplers = "--sampler threshold-0.9+b8 --sampler threshold-0.5+b8"
        asked = f"--models models.yaml --model mine --task copy --limit 2 {samplers}"
        printed = " ".join(run(f"{asked} --out out").stdout.str().split())
        verdict = printed.partition("mine no winner")[2]
        assert "declared, not verified: threshold-0.5+b8, threshold-0.9+b8 of mine" in verdict
        page = (project.path / "out" / "report.html").read_text()
        assert "declared, not verified: threshold-0.5+b8, threshold-0.9+b8 of mine" in page

    def test_by_the_run_its_tables_and_its_records(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """First that nobody checked, then what the check found."""
        declare(project, server, sampler="threshold-0.9+b8", sampler_fields=self.FIELDS)
        asked = "--models models.yaml --model mine --task copy --limit 1"
        before = run(f"{asked} --out before").stdout.str()
        entry = stored(project, "mine/copy/threshold-0.9+b8", "before")
        assert entry.cell.served.fields == {
            "vllm_xargs.threshold": "unchecked",
            "block": "unchecked",
        }
        checked = ["check", "engine", "--models", "models.yaml", "--engine", "mine", "--fields"]
        assert main(checked) == 1
        after = run(f"{asked} --out after").stdout.str()
        entry = stored(project, "mine/copy/threshold-0.9+b8", "after")
        assert entry.cell.served.fields == {"vllm_xargs.threshold": "inert", "block": "inert"}
        why = {before: "never checked", after: "vllm_xargs.threshold, block without effect"}
        for printed, reason in why.items():
            words = " ".join(printed.split())
            assert words.count("declared, not verified") == 2
            assert reason in words
        report = (project.path / "after" / "report.md").read_text()
        assert "declared, not verified: threshold-0.9+b8 of mine" in report


class TestCommand:
    def run(self, url: str, *more: str) -> int:
        fields = [
            "--set",
            "sampler=threshold-0.9+b8",
            "--set",
            f"sampler_fields={json.dumps(FIELDS)}",
        ]
        return main(["check", "engine", "--url", f"{url}/v1", *fields, "--fields", *more])

    def test_lines_json_and_status(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """1 where one is inert, 0 where all have an effect, 5 where nothing is settled."""
        out = tmp_path / "out.json"
        with serving(reads("steps", "block", "cache")) as server:
            assert self.run(server.url, "--json", str(out)) == 1
            assert len(server.asked) == 12 * (2 + 2 + 2 + 3)
        printed = capsys.readouterr().out
        assert "at most 108 requests for 32 tokens each" in printed
        line = "✗ threshold: vllm_xargs.threshold (0.9 and 0.001): inert, 0 of 12 answers changed"
        assert line in printed
        assert "✓ threshold: cache (False and True): 12 of 12 answers changed" in printed
        assert "kept in" in printed
        written = json.loads(out.read_text())["fields"]
        assert [one["verdict"] for one in written].count("inert") == 1
        with serving(reads("steps", "block", "cache", "vllm_xargs.threshold")) as server:
            assert self.run(server.url) == 0
        numbers = itertools.count()
        with serving(lambda number, body: Act(text=str(next(numbers)))) as server:
            assert self.run(server.url) == 5

    def test_prompts_of_a_made_checkpoint(self) -> None:
        """A dozen, each once."""
        with serving(reads("block")) as server:
            assert self.run(server.url, "--", str(bundled("engines", "llada"))) == 1
        asked = [one.body["messages"][0]["content"] for one in server.asked]
        assert len(set(asked)) == 12
        assert all(text.startswith("w") for text in asked)

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ([], "--fields is of a server"),
            (["--engine", "pbcore"], "--fields is of a server"),
            (["--url", "http://h/v1", "--model", "m"], "engine has no sampler_fields"),
            (["--url", "http://h/v1", "-k", "batch"], "-k chooses cases"),
        ],
    )
    def test_wrong_use(
        self, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Is one line, and status 2."""
        assert main(["check", "engine", "--fields", *more]) == 2
        assert said in capsys.readouterr().err

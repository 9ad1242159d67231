"""Servers under `pbcore check engine`: one that decodes, right or wrong, hangs or breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.extras.check.engine.judge import CaseResult
from pbcore.extras.check.engine.material import Material, read_material
from pbcore.extras.check.engine.report import line
from pbcore.extras.check.engine.run import Checker
from pbcore.extras.check.engine.tokens import text_of
from pbcore.extras.servers.served_engine import ServedEngine
from pbcore.extras.servers.spec import ServerSpec
from tests.extras.check.engine.plain import example_server, wrong
from tests.extras.servers.diffulex import final
from tests.extras.servers.fake import Act, FakeServer, Script, serving
from tests.reference import bundled

FIELDS = {
    "confidence": {"k": "k", "b": "block_length"},
    "threshold": {"number": "threshold", "b": "block_length"},
}
SERVER = example_server()


@pytest.fixture(scope="module")
def folder() -> Path:
    return bundled("engines", "llada")


@pytest.fixture(scope="module")
def material(folder: Path) -> Material:
    return read_material(folder)


class Decoder:
    """The example server's answers; with `special` their texts have special tokens, too."""

    def __init__(self, folder: Path, material: Material, special: bool = False) -> None:
        self._batches = SERVER.Batches(folder)
        self._specials = material.specials
        self._special = special

    def __call__(self, number: int, body: dict[str, Any]) -> Act:
        if self._special:
            return Act(text=text_of(self._batches.ids(body), self._specials))
        (choice,) = self._batches.reply(body)["choices"]
        return Act(text=choice["message"]["content"], finish=choice["finish_reason"])


def spec_of(server: FakeServer, **keys: Any) -> ServerSpec:
    values = {"sampler": "threshold-0.9+b8", "sampler_fields": FIELDS, **keys}
    return ServerSpec("mine", "the-model", f"{server.url}/v1", **values)


@contextmanager
def checking(
    folder: Path, material: Material, script: Script, timeout: float = 20.0, **keys: Any
) -> Iterator[Checker]:
    """A check of a server that plays a script."""
    with serving(script) as server:
        engine = ServedEngine(spec_of(server, **keys), material, timeout)
        yield Checker(folder, material, engine)
        engine.close()


def result_of(checker: Checker, material: Material, name: str) -> CaseResult:
    """A case's result, by the end of its name."""
    return checker.result(next(case for case in material.cases if case.id.endswith(name)))


class TestRight:
    @pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
    @pytest.mark.parametrize(
        "name",
        ["confidence-k4+b8/single", "threshold-0.9+b8/short", "confidence-k8/single",
         "k4+b8/eos-early", "threshold-0.9+b8/eos-within", "k4+b8/eos-border"],
    )  # fmt: skip
    def test_one_client(self, folder: Path, material: Material, name: str, special: bool) -> None:
        """Texts are compared as ids, whether or not they show the token that ends an answer."""
        with checking(folder, material, Decoder(folder, material, special)) as checker:
            result = result_of(checker, material, name)
        assert (result.verdict, result.equal) == ("equal", result.of), line(result)

    def test_several_clients(self, folder: Path, material: Material) -> None:
        """As many ask at once as the setting says."""
        with serving(Decoder(folder, material)) as server:
            engine = ServedEngine(spec_of(server), material, 20.0)
            checker = Checker(folder, material, engine)
            assert result_of(checker, material, "threshold-0.9+b8/batch").verdict == "equal"
            assert server.most_at_once == 3
            assert result_of(checker, material, "threshold-0.9+b8/twice").verdict == "equal"

    def test_ids_of_a_server_that_tells_them(self, folder: Path, material: Material) -> None:
        """Diffulex gets ids, and its ids and forwards are compared."""
        case = next(
            case for case in material.cases if case.id.endswith("threshold-0.9+b8/forwards")
        )
        rows = {tuple(row.prompt): row for row in case.rows}

        def script(number: int, body: dict[str, Any]) -> Act:
            row = rows[tuple(body["prompt"])]
            return Act(events=(final("any text", row.answer, row.forwards),))

        keys = {"kind": "diffulex", "tokenizer": str(folder), "sampler_fields": {}}
        with checking(folder, material, script, **keys) as checker:
            assert checker.result(case).verdict == "equal"


class TestWrong:
    def test_right_with_one_client_and_wrong_with_several(
        self, folder: Path, material: Material
    ) -> None:
        """It sees the padding of the shorter prompts that come with a longer one."""
        decoder = Decoder(folder, material)
        with wrong("padding attended"), checking(folder, material, decoder) as checker:
            several = result_of(checker, material, "threshold-0.9+b8/batch")
            single = result_of(checker, material, "threshold-0.9+b8/single")
        assert single.verdict == "equal"
        assert several.verdict == "fault"
        assert several.diagnosis == ["padding attended"]

    def test_an_answer_that_ends_too_early(self, folder: Path, material: Material) -> None:
        """Is a fault at its end, not the expected answer with an EOS that it leaves out."""
        right = Decoder(folder, material)

        def script(number: int, body: dict[str, Any]) -> Act:
            text = right(number, body).text
            return Act(text=text[: text.rindex("w")])

        with checking(folder, material, script) as checker:
            result = result_of(checker, material, "threshold-0.9+b8/single")
        assert (result.verdict, result.equal) == ("fault", 0)
        assert result.first is not None
        assert result.first.place == 15

    @pytest.mark.parametrize(
        ("act", "said"),
        [
            (Act(pause=30.0), "gave no answer in 1 s (--timeout)"),
            (Act(text="w1w2w3w4w5w6w7w8", cut=2), "broke off"),
            (Act(text="w1w2w3w4w5w6w7w8", reset=2), "the connection broke"),
            (Act(status=502, raw="<html>bad gateway</html>"), "it failed (502"),
            (Act(raw="<html>hello</html>"), "its reply can't be read"),
            (Act(text="Hello!"), "its answer 'Hello!' is not made of the checkpoint's tokens"),
            (Act(text="w1", finish="abort"), "the server ended an answer (abort)"),
            (Act(text="w1" * 17), "too many tokens"),
        ],
        ids=["hangs", "cuts", "resets", "502", "html", "words", "aborts", "long"],
    )
    def test_one_that_breaks_fails_its_case(
        self, folder: Path, material: Material, act: Act, said: str
    ) -> None:
        """With a sentence; the next case is tried."""
        right = Decoder(folder, material)
        names = ("threshold-0.9+b8/batch", "threshold-0.9+b8/single")
        broken = [next(case for case in material.cases if case.id.endswith(name)) for name in names]

        def script(number: int, body: dict[str, Any]) -> Act:
            first = body["messages"][0]["content"] in [row.text for row in broken[0].rows]
            return act if first else right(number, body)

        timeout = 1.0 if act.pause else 20.0
        with checking(folder, material, script, timeout) as checker:
            result = checker.result(broken[0])
            checker._engine.timeout = 20.0  # type: ignore[attr-defined]
            after = checker.result(broken[1])
        assert result.verdict == "failed"
        assert said in result.text
        assert after.verdict == "equal"

    def test_what_its_row_cannot_say_is_not_tried(self, folder: Path, material: Material) -> None:
        """A cache without a field, a number of steps that isn't whole, another sampler than the
        server's own.
        """
        steps = {"confidence": {"steps": "steps", "b": "block"}}
        right = Decoder(folder, material)
        with checking(folder, material, right) as checker:
            assert "no field for 'dual'" in result_of(checker, material, "+dual/single").text
        one = {"sampler": "confidence-k4+b8", "sampler_fields": steps}
        with checking(folder, material, right, **one) as checker:
            assert "no whole number" in result_of(checker, material, "k3+b8/single").text
        with checking(folder, material, right, sampler_fields={}) as checker:
            result = result_of(checker, material, "k4+b8/single")
        assert result.verdict == "not tried"
        assert "its sampler is threshold-0.9+b8" in result.text


class TestCommand:
    def run(self, folder: Path, url: str, *more: str) -> int:
        return main(["check", "engine", str(folder), "--url", f"{url}/v1", *more])

    def test_a_row_by_options(
        self,
        folder: Path,
        material: Material,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Its only model is asked; its fields and the others of its row are those of a models file;
        status and JSON are those of any engine.
        """
        fields = f"sampler_fields={json.dumps(FIELDS)}"
        more = ["--kind", "openai", "--set", "sampler=threshold-0.9+b8", "--set", fields]
        more += ["--set", "extra_body={extra: 1}", "--set", "stream=false", "-k", "0.9+b8/single"]
        with serving(Decoder(folder, material)) as server:
            out = tmp_path / "out.json"
            assert self.run(folder, server.url, *more, "--json", str(out)) == 0
        assert "3 of 3 equal" in capsys.readouterr().out
        (case,) = json.loads(out.read_text())["cases"]
        assert (case["verdict"], case["equal"]) == ("equal", 3)
        body = server.asked[0].body
        sent = [body[name] for name in ("model", "extra", "threshold", "block_length")]
        assert sent == ["the-model", 1, 0.9, 8]
        assert body["stream"] is False

    def test_a_row_of_a_file(
        self, folder: Path, material: Material, project: pytest.Pytester
    ) -> None:
        """By its name, in the command and as pytest's items."""
        with serving(Decoder(folder, material)) as server:
            file = project.path / "models.yaml"
            row = {"base_url": f"{server.url}/v1", "model": "the-model", "sampler_fields": FIELDS}
            file.write_text(json.dumps({"dlm": {**row, "sampler": "confidence-k4+b8"}}))
            named = ["--models", str(file), "--engine", "dlm", "-k", "k4+b8/single"]
            assert main(["check", "engine", str(folder), *named]) == 0
            cases = project.inline_run(
                str(folder), "--check-engine", "dlm", "--models", str(file), "-k", "short"
            )
        cases.assertoutcome(passed=2)

    def test_nothing_tried(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A row without a sampler promises none: status 5, and each case says why."""
        with serving() as server:
            assert self.run(folder, server.url, "--kind", "openai", "-k", "k4+b8/single") == 5
        assert not server.asked
        assert "its sampler is ar" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--engine", "pbcore"], "--engine and --url are two engines"),
            (["--set", "stream"], "give KEY=VALUE, such as stream=false"),
            (["--set", "sampler_fields={a"], "--set sampler_fields={a: "),
            (["--set", "colour=red"], "unknown key colour"),
            (["--set", "sampler=[1]"], "--url, model engine: "),
        ],
    )
    def test_wrong_use(
        self, folder: Path, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Is one line, and status 2."""
        with serving() as server:
            assert self.run(folder, server.url, *more) == 2
        assert said in capsys.readouterr().err

    def test_no_server(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Is wrong use, too, and so is a list of several models."""
        assert self.run(folder, "http://127.0.0.1:9") == 2
        assert "no connection" in capsys.readouterr().err
        with serving(models=("a", "b")) as server:
            assert self.run(folder, server.url) == 2
        assert "has 2 models (a, b); --model" in capsys.readouterr().err
        assert main(["check", "engine", str(folder), "--kind", "openai"]) == 2
        assert "give its address with --url" in capsys.readouterr().err

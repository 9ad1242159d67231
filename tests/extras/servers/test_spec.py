"""Declarations of servers: what can't be meant is named with file, model and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.base.errors import InputError
from pbcore.extras.servers.clients import body_of
from pbcore.extras.servers.declared import KEYS, MODELS, key_status, read_specs
from pbcore.extras.servers.reply import ask_of
from pbcore.models import model_names, resolve_model
from pbcore.models.errors import ModelError
from pbcore.models.registry import add_models_file, register_model
from pbcore.names import parse

GOOD = "qwen:\n  base_url: http://localhost:8000/v1/\n  model: qwen2.5-7b\n"

NEMO = "sampler_fields: {threshold: {number: threshold, b: block_length}, factor: {number: factor}}"
FIELDS = {
    NEMO: "sampler ar is what runs unless --sampler says another; its sampler_fields have",
    f"sampler: threshold+b8, {NEMO}": "its field for 'number' has no value in that name",
    f"sampler: threshold-0.9+b8+eos_stop, {NEMO}": "no field for 'eos_stop' of threshold",
    "sampler: eb-1, sampler_fields: {eb: {number: seed}}": "sets 'seed', which has a key",
    "sampler: eb-1, sampler_fields: {eb: {number: a..b}}": "sets 'a..b'; give a field's",
    "step_map_field: steps": "declare stream: false, and no nfe_field",
    "tokens_field: ids": "tokens_field is for the steps of the tokens; declare step_map_field",
    "task_max_tokens: {copy: 0}": "task_max_tokens copy 0; give a number from 1",
}


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


class TestReading:
    def test_defaults(self) -> None:
        """A name, an address and a model id are enough: `ar`, eight requests at once, the paper's
        length, no price.
        """
        spec = read_specs(GOOD, "f.yaml")["qwen"]
        assert (spec.sampler, spec.concurrency, spec.max_tokens, spec.prices) == (
            "ar",
            8,
            1024,
            None,
        )
        assert spec.base_url == "http://localhost:8000/v1"
        assert spec.provider == "localhost:8000"

    def test_predeclared(self) -> None:
        """Mercury's sampler is the server's, with the paper's 128 tokens; Claude takes no
        temperature; no prices.
        """
        mercury, claude = (MODELS.specs()[name] for name in ("mercury", "claude-haiku"))
        assert (mercury.sampler, mercury.max_tokens, mercury.key) == (
            "server",
            128,
            "INCEPTION_API_KEY",
        )
        assert (claude.kind, claude.temperature, claude.max_tokens) == ("anthropic", False, 1024)
        assert mercury.prices is claude.prices is None

    def test_a_file_changes_keys_of_a_predeclared_model(self, tmp_path: Path) -> None:
        """A price for mercury leaves the rest of it as it is."""
        add_models_file(
            write(tmp_path / "m.yaml", "mercury:\n  prices: {input: 0.25, output: 1}\n")
        )
        spec = MODELS.specs()["mercury"]
        assert spec.prices is not None
        assert (spec.prices.output, spec.max_tokens, spec.key) == (1.0, 128, "INCEPTION_API_KEY")

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ("a: 3", "model a: give the keys of the model, such as base_url and model"),
            ("a/b: {model: x}", "model name 'a/b': use letters, digits, '_', '-' and '.'"),
            ("a: {model: x}", "model a: field base_url is missing"),
            ("a: {base_url: http://h/v1}", "model a: field model is missing"),
            (
                "a: {baseurl: http://h/v1, model: x}",
                "unknown key baseurl; the keys are " + ", ".join(KEYS),
            ),
            (
                "a: {base_url: http://h/v1, model: 3}",
                "model a: field model is 3; it should be a valid string",
            ),
            (
                "a: {base_url: http://h/v1, model: x, concurrency: 0}",
                "concurrency 0; give a number from 1 to 1024",
            ),
            (
                "a: {base_url: http://h/v1, model: x, retries: two}",
                "field retries is 'two'; it should be a valid integer",
            ),
            (
                "a: {base_url: http://h/v1, model: x, stream: 'yes'}",
                "field stream is 'yes'; it should be a valid boolean",
            ),
            (
                "a: {base_url: http://h/v1, model: x, kind: tgi}",
                "kind 'tgi'; give one of openai, anthropic, vllm",
            ),
            (
                "a: {base_url: http://h/v1, model: x, kind: [1]}",
                "kind [1]; give one of openai, anthropic, vllm",
            ),
            (
                "a: {base_url: http://h/v1, model: x, prices: {input: 1}}",
                "field prices is {'input': 1}; give input and output",
            ),
            (
                "a: {base_url: http://h/v1, model: x, prices: {input: 1, output: 1, in: 1}}",
                "field prices is {'in': 1, 'input': 1, 'output': 1}; give input",
            ),
            (
                "a: {base_url: http://h/v1, model: x, prices: {input: -1, output: 1}}",
                "prices -1.0; give USD per million tokens, from 0 to 1,000,000",
            ),
            (
                "a: {base_url: http://h/v1, model: x, prices: {input: 1, output: 1.0e+300}}",
                "prices 1e+300; give USD per million tokens, from 0 to 1,000,000",
            ),
            (
                "a: {base_url: http://h/v1, model: x, nfe_field: ''}",
                "nfe_field ''; give a place in the answer such as usage.num_forwards",
            ),
            (
                "a: {base_url: http://h/v1, model: x, prices: {input: .nan, output: 1}}",
                "Out of range float",
            ),
            (
                "a: {base_url: h/v1, model: x}",
                "base_url is no address; give e.g. http://localhost:8000/v1",
            ),
            (
                "a: {base_url: 'http://me:pw@h/v1', model: x}",
                "base_url holds a user, a password or a query",
            ),
            (
                "a: {base_url: 'http://h/v1?key=abc', model: x}",
                "base_url holds a user, a password or a query",
            ),
            ("a: {base_url: http://h/v1, model: x, sampler: Fast}", "'Fast' is not a policy name"),
            (
                "a: {base_url: http://h/v1, model: x, extra_body: {max_tokens: 3}}",
                "extra_body sets 'max_tokens'",
            ),
            (
                "a: {base_url: http://h/v1, model: x, extra_body: {when: 2026-01-01}}",
                "not JSON serializable",
            ),
            (
                "a: {base_url: http://h/v1, model: x, key: sk-abc-123}",
                "key is the name of an environment variable",
            ),
            *[
                (f"a: {{base_url: http://h/v1, model: x, {keys}}}", said)
                for keys, said in FIELDS.items()
            ],
            ("[a]", "give one entry per model"),
            ("a: {model: x\n", "not valid YAML"),
        ],
    )
    def test_what_cannot_be_meant(self, entry: str, said: str) -> None:
        """File, model, key and what is allowed, in one line."""
        with pytest.raises(InputError) as caught:
            read_specs(entry, "f.yaml")
        assert said in str(caught.value)
        assert str(caught.value).startswith("f.yaml")

    def test_a_key_in_the_file_is_not_repeated(self) -> None:
        """A key pasted where its variable's name belongs, and a password in an address, are not
        shown.
        """
        for entry in (
            "key: sk-secret-1",
            "key: [sk-secret-1]",
            "base_url: http://me:sk-secret-1@h/v1",
        ):
            with pytest.raises(InputError) as caught:
                read_specs(
                    f"a:\n  base_url: http://h/v1\n  model: x\n  {entry}\n".replace(
                        "  base_url: http://h/v1\n",
                        "" if "base_url" in entry else "  base_url: http://h/v1\n",
                    ),
                    "f.yaml",
                )
            assert "secret" not in str(caught.value)


class TestNames:
    def test_added_models_are_known(self, tmp_path: Path) -> None:
        """Names of a file resolve, and stand in the list from which close matches come."""
        assert add_models_file(write(tmp_path / "m.yaml", GOOD)) == ["qwen"]
        assert resolve_model("qwen").loaded_as == "server"
        assert {"qwen", "mercury", "claude-haiku"} <= set(model_names())
        with pytest.raises(ModelError, match="unknown model 'mercurry'; did you mean mercury"):
            resolve_model("mercurry")

    def test_taken_names(self, tmp_path: Path) -> None:
        """A model of the package, of another file or of user code is never replaced silently."""
        with pytest.raises(InputError, match="a model named 'tiny' exists already"):
            add_models_file(write(tmp_path / "a.yaml", GOOD.replace("qwen:", "tiny:")))
        add_models_file(write(tmp_path / "b.yaml", GOOD))
        add_models_file(tmp_path / "b.yaml")
        with pytest.raises(InputError, match=r"'qwen' exists already in .*b\.yaml"):
            add_models_file(write(tmp_path / "c.yaml", GOOD))
        with pytest.raises(InputError, match="already taken"):
            register_model("qwen", lambda **options: None)

    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="no models file"):
            add_models_file(tmp_path / "none.yaml")


class TestSamplers:
    def specs(self, more: str) -> str:
        return f"{GOOD}  {more}\n"

    def test_a_temperature_goes_with_servers_that_take_one(self) -> None:
        """`ar+t1.0` runs where temperature may be sent, and is refused with the reason
        elsewhere.
        """
        free = read_specs(GOOD, "f")["qwen"]
        fixed = read_specs(self.specs("temperature: false"), "f")["qwen"]
        assert free.refusal(parse("ar+t1.0")) is None
        assert fixed.refusal(parse("ar")) is None
        assert fixed.refusal(parse("ar+t1.0")) == "qwen takes no temperature; its sampler is ar"

    def test_others_are_refused(self) -> None:
        """Where the sampler is the server's setting, the declared one alone runs."""
        spec = read_specs(self.specs("sampler: threshold-0.95+b32"), "f")["qwen"]
        assert spec.refusal(parse("threshold-0.95+b32")) is None
        assert spec.refusal(parse("threshold-0.9+b32")) is not None
        assert spec.refusal(parse("ar")) is not None


class TestEntries:
    def test_keys_of_servers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whether the variable is set, never what is in it."""
        monkeypatch.setenv("SOME_KEY", "abc")
        assert key_status("SOME_KEY") == "server, SOME_KEY set"
        monkeypatch.setenv("SOME_KEY", "")
        assert key_status("SOME_KEY") == "server, SOME_KEY not set"
        assert key_status(None) == "server, no key needed"


FIELDS = "a: {{base_url: http://h/v1, model: x, sampler: threshold-0.9+b8, {0}}}"


class TestCollisions:
    """What two keys, or two parts of a name, would set at once is an error at load."""

    @pytest.mark.parametrize(
        ("keys", "said"),
        [
            (
                "sampler_fields: {threshold: {number: t, b: t}}",
                "sampler_fields of threshold sets 't' from 'number' from 'b'; give each a place",
            ),
            (
                "sampler_fields: {threshold: {number: x.t, b: x}}",
                "sets 'x' from 'b', which holds 'x.t' from 'number'; give each a place of its own",
            ),
            (
                "sampler_fields: {threshold: {number: x.t, b: b}}, extra_body: {x: words}",
                "sampler_fields sets 'x.t', and extra_body has 'words' at 'x'",
            ),
            (
                "sampler_fields: {threshold: {number: x.t, b: b}}, extra_body: {x: []}",
                "sampler_fields sets 'x.t', and extra_body has [] at 'x'",
            ),
            (
                "sampler_fields: {threshold: {number: x.t, b: b}}, extra_body: {x: {t: 0.5}}",
                "sampler_fields sets 'x.t', and extra_body has 0.5 at 'x.t'",
            ),
            (
                "sampler_fields: {threshold: {number: x.t, b: b}}, extra_body: {x: {t: {u: 1}}}",
                "sampler_fields sets 'x.t', and extra_body has {'u': 1} at 'x.t'",
            ),
            (
                "sampler_fields: {threshold: {number: t, b: b}}, extra_body: {b: 4}",
                "sampler_fields sets 'b', and extra_body has 4 at 'b'",
            ),
            (
                "sampler_fields: {threshold: {number: stream_options.t, b: b}}",
                "sampler_fields sets 'stream_options', which has a key of its own: stream",
            ),
        ],
    )
    def test_refused(self, keys: str, said: str) -> None:
        with pytest.raises(InputError) as caught:
            read_specs(FIELDS.format(keys), "f.yaml")
        assert said in str(caught.value)

    def test_beside_each_other(self) -> None:
        """Two places in one mapping, and a place beside a value of extra_body, are none; and each
        policy has places of its own.
        """
        keys = (
            "sampler_fields: {threshold: {number: x.t, b: x.b}, factor: {number: x.t, b: x.b}},"
            " extra_body: {x: {seed: 1}}"
        )
        spec = read_specs(FIELDS.format(keys), "f.yaml")["a"]
        ask = ask_of(spec, "Hi.", parse("threshold-0.9+b8"), None, 0)
        assert body_of(spec, ask)["x"] == {"seed": 1, "t": 0.9, "b": 8}


class TestDeclaredSamplers:
    @pytest.mark.parametrize(
        ("declared", "named"),
        [
            ("threshold-0.90+b32", "threshold-0.9+b32"),
            ("threshold", "threshold-0.9"),
            ("server", "server"),
            ("ar+x4", "ar+x4"),
        ],
    )
    def test_one_spelling(self, declared: str, named: str) -> None:
        """That of --sampler; both name what runs."""
        text = f"a: {{base_url: http://h/v1, model: x, sampler: {declared}}}"
        spec = read_specs(text, "f.yaml")["a"]
        assert spec.sampler == named
        assert spec.refusal(parse(named)) is None
        assert spec.refusal(parse(named).alone) is None
        assert spec.refusal(parse("confidence-k7")) is not None

"""Tasks as data: a user's own file, and every mistake in one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.metrics.lists import ListScorer, one_answer
from pbcore.tasks import add_tasks_file, all_task_names, load_task, task_names, task_spec
from pbcore.tasks.registry import identity
from pbcore.tasks.scoring import SCORERS, register_scorer
from pbcore.tasks.spec import GENERATORS, KEYS
from tests.fuzz.outcomes import one_line

GOOD = """
kitchen/reverse:
  generator: reverse
  settings: {items: [salt, pepper, basil, thyme, cumin, clove]}
  scorer: list_match
  shots: 1
  lengths: [3, 4]
  samples: 40
  max_new_tokens: 32
  prompt: |
    Reverse this list: {context}

kitchen/flags:
  samples: flags.jsonl
  scorer: list_match
  max_new_tokens: 16
  prompt: "Name the colours of the flag of {country} as a list."
"""
FLAGS = [
    {"input": {"country": "France"}, "answer": '["blue", "white", "red"]'},
    {"input": {"country": "Italy"}, "answer": '["green", "white", "red"]'},
]


def _laughs() -> str:
    """Seven lists of ten aliases of the list before: ten million values in 200 bytes."""
    lists = [
        f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]" for number in range(1, 8)
    ]
    return "\n".join(["a0: &a0 x", *lists])


def tasks_file(folder: Path, text: str = GOOD) -> Path:
    (folder / "flags.jsonl").write_text("".join(json.dumps(row) + "\n" for row in FLAGS))
    path = folder / "my.yaml"
    path.write_text(text)
    return path


class TestIdentity:
    """Task.identity: what decides scores beside the samples."""

    def identity(self, folder: Path, text: str = GOOD, name: str = "kitchen/reverse") -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pbcore.tasks.registry._ADDED", {})
            add_tasks_file(tasks_file(folder, text))
            return load_task(name, limit=2).identity

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (
                "scorer: list_match\n  shots",
                "scorer: list_sort\n  headline: accuracy_strict\n  shots",
            ),
            ("  shots: 1", "  shots: 1\n  headline: accuracy_strict"),
            ("  shots: 1", "  shots: 2"),
            ("lengths: [3, 4]", "lengths: [3, 4, 5]"),
            ("Reverse this list", "Turn this list around"),
            ("max_new_tokens: 32", "max_new_tokens: 64"),
            ("clove]", "clove, mint]"),
        ],
    )
    def test_every_declaration_counts(self, tmp_path: Path, old: str, new: str) -> None:
        """Scorer, headline, shots, lengths, prompt, canvas and settings change the identity."""
        assert self.identity(tmp_path, GOOD.replace(old, new, 1)) != self.identity(tmp_path)

    def test_what_does_not_count(self, tmp_path: Path) -> None:
        """The number of samples and the place of the file leave it as it is; the samples have their
        own digest.
        """
        other = tmp_path / "other"
        other.mkdir()
        assert self.identity(other, GOOD.replace("samples: 40", "samples: 20")) == self.identity(
            tmp_path
        )
        assert self.identity(other, name="kitchen/flags") == self.identity(
            tmp_path, name="kitchen/flags"
        )

    def test_the_code_of_a_users_scorer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A scorer of the same name and scores with other code is another identity."""
        digests = []
        known = dict(SCORERS.all())
        for answer in ("expected", "list(expected)"):
            monkeypatch.setattr(SCORERS, "_registered", dict(known))
            namespace: dict[str, Any] = {
                "__name__": "console",
                "ListScorer": ListScorer,
                "one_answer": one_answer,
            }
            exec(
                f"def expect(sample):\n    expected = one_answer(sample)\n    return {answer}\n",
                namespace,
            )
            register_scorer("mine", ListScorer(namespace["expect"]))
            spec = replace(task_spec("waiting_line/copy"), scorer="mine")
            digests.append(identity(spec))
        assert digests[0] != digests[1]


class TestAddTasksFile:
    def test_generator_with_other_settings(self, tmp_path: Path) -> None:
        """A built-in generator takes the user's items, lengths and prompt."""
        assert add_tasks_file(tasks_file(tmp_path)) == ["kitchen/reverse", "kitchen/flags"]
        task = load_task("kitchen/reverse")
        assert len(task.samples) == 40
        assert task.samples[0].prompt == f"Reverse this list: {task.samples[0].input['context']}\n"
        assert all(
            set(json.loads(sample.label)) < {"salt", "pepper", "basil", "thyme", "cumin", "clove"}
            for sample in task.samples
        )
        assert task.headline == "accuracy"
        assert set(task.score(str(task.samples[0].answer), task.samples[0]).values()) == {1.0}

    def test_rows_of_a_file(self, tmp_path: Path) -> None:
        """Rows in the official layout, with a path relative to the YAML file."""
        add_tasks_file(tasks_file(tmp_path))
        task = load_task("kitchen/flags", limit=5)
        assert [sample.prompt for sample in task.samples] == [
            "Name the colours of the flag of France as a list.",
            "Name the colours of the flag of Italy as a list.",
        ]
        assert task.score(
            "[green, white, red]", task.samples[1], ["accuracy", "accuracy_strict"]
        ) == {
            "accuracy": 1.0,
            "accuracy_strict": 0.0,
        }
        with pytest.raises(ValueError, match="only the split test"):
            load_task("kitchen/flags", split="train")

    def test_names(self, tmp_path: Path) -> None:
        """Added tasks are among all tasks, the paper's 17 stay 17, and the same file twice is no
        error.
        """
        path = tasks_file(tmp_path)
        assert add_tasks_file(path) == add_tasks_file(path)
        assert all_task_names()[-2:] == ["kitchen/reverse", "kitchen/flags"]
        assert len(task_names()) == 17

    def test_missing_file(self, tmp_path: Path) -> None:
        """A file that isn't there is named."""
        with pytest.raises(FileNotFoundError, match=r"no tasks file .*none.yaml"):
            add_tasks_file(tmp_path / "none.yaml")

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            (
                "generator: reverse",
                "generator: revers",
                r"\bgenerator 'revers'; give one of copy, .*words_to_sentence",
            ),
            (
                "scorer: list_match",
                "scorer: list_mach",
                "scorer 'list_mach'; give one of latin_square, .*list_match",
            ),
            (
                "scorer: list_match",
                "scorer: list_shuffle",
                "needs a label with input.* choose another scorer",
            ),
            ('prompt: "Name', "prompt: 5 #", "prompt 5; give a text"),
            ('prompt: "Name', "prompt: '' #", "prompt ''; give a text"),
            ("samples: 40", "samples: 0", "samples 0; give an integer from 1 to"),
            ("samples: 40", "samples: null", "samples None; give an integer from 1 to"),
            (
                "samples: 40",
                "headline: bleu",
                "headline 'bleu'; give one of accuracy, accuracy_any_layout",
            ),
            ("shots: 1", "shots: many", "shots 'many'; give an integer from 0 to 100"),
            ("shots: 1", "shot: 1", "unknown key '?shot'?; the keys are cot, generator, headline"),
            ("lengths: [3, 4]", "lengths: [1]", r"n = \[1\]; give an integer from 2 to 60"),
            ("  lengths: [3, 4]\n", "", "reverse needs lengths"),
            (
                "lengths: [3, 4]",
                "lengths: [3, 9]",
                "n = 9 needs 9 different items, settings.items has 6",
            ),
            (
                "items: [salt, pepper,",
                "itms: [salt, pepper,",
                "the settings of reverse are: identity, infill, items, word",
            ),
            (
                "salt, pepper, basil, thyme, cumin, clove",
                "salt, salt, salt",
                "a list of at least 3 different texts",
            ),
            ("[salt, pepper,", '["sa,lt", pepper,', "quote, comma or bracket"),
            (
                "max_new_tokens: 32",
                "max_new_tokens: lots",
                "max_new_tokens 'lots'; give an integer",
            ),
            ("  max_new_tokens: 32\n", "", "missing max_new_tokens"),
            (
                "max_new_tokens: 32",
                "max_new_tokens: lots\n  headline: 3",
                r"max_new_tokens 'lots'; .* to 65536 \(and 1 more such fields\)",
            ),
            ("{context}", "{contxt}", "the prompt needs 'contxt', which reverse does not provide"),
            ("{context}", "{}", r"'\{\}' is not the name of a value; .* twice: \{\{ or \}\}"),
            ("{context}", "{context", "write a literal brace twice"),
            ("samples: flags.jsonl", "samples: none.jsonl", "no file .*none.jsonl"),
            ("samples: flags.jsonl", "shots: 1", "give either a generator or samples"),
            (
                "samples: flags.jsonl",
                "samples: flags.jsonl\n  generator: copy",
                "give either a generator or samples",
            ),
            (
                "samples: flags.jsonl",
                "samples: flags.jsonl\n  official: flags",
                "give `folder/file`",
            ),
            ("{country}", "{land}", "line 1: the prompt needs 'land', which the input lacks"),
            (
                "kitchen/reverse",
                "waiting_line/copy",
                "a task named 'waiting_line/copy' exists already in pbcore's tasks.yaml",
            ),
            ("kitchen/reverse", "kitchen", "a task's name must be `category/name`"),
            (GOOD, "[1, 2]", "give one entry per task"),
            (
                "max_new_tokens: 32",
                "max_new_tokens: 1000000000",
                "max_new_tokens 1000000000; give an integer from 1 to 65536",
            ),
            ("shots: 1", "shots: 1000000000", "shots 1000000000; give an integer from 0 to 100"),
            ("samples: 40", "samples: [40]", r"samples \[40\]; give an integer from 1"),
            (
                "  shots: 1",
                "  shots: 1\n  shots: 2",
                "my.yaml, line 7: not valid YAML: 'shots' is given twice",
            ),
            (
                "kitchen/flags:",
                "kitchen/reverse:",
                "my.yaml, line 13: not valid YAML: 'kitchen/reverse' is given twice",
            ),
            ("samples: 40", "samples: !!bool maybe", "not valid YAML: 'maybe'"),
            ("samples: 40", "samples: 2020-13-45", "not valid YAML: month must be in 1..12"),
            ("{context}", "{context!x}", "task kitchen/reverse: Unknown conversion specifier"),
            (
                GOOD,
                "a/b: " + "[" * 10_000,
                "line 1: not valid YAML: more than 20 levels of nesting",
            ),
            (
                GOOD,
                "a: &a x\nb: [" + "*a, " * 1_000_000 + "]",
                "line 2: not valid YAML: over 1000 aliases",
            ),
            (GOOD, "a: &a [*a]", "line 1: not valid YAML: more than 100000 values"),
            (GOOD, _laughs(), "not valid YAML: more than 100000 values, counting every alias"),
            (GOOD, "a: b\x00", "not valid YAML: special characters are not allowed"),
            (GOOD, "a: [", "line 1: not valid YAML"),
            (GOOD, "a/b: 3", "give the keys of the task"),
        ],
    )
    def test_mistakes(self, tmp_path: Path, old: str, new: str, said: str) -> None:
        """Each mistake is named with file, task and what is allowed, and nothing is added."""
        assert old in GOOD
        path = tasks_file(tmp_path, GOOD.replace(old, new, 1))
        with pytest.raises((ValueError, FileNotFoundError), match=said):
            add_tasks_file(path)
        assert not any(name.startswith("kitchen/") for name in all_task_names())

    def test_a_file_that_is_not_utf8(self, tmp_path: Path) -> None:
        """The byte and its line are named."""
        path = tasks_file(tmp_path)
        path.write_bytes(GOOD.encode().replace(b"salt", b"s\xe4lt"))
        with pytest.raises(
            ValueError, match=r"my.yaml, line 4: not UTF-8 \(byte 0xe4\); save the file as UTF-8"
        ):
            add_tasks_file(path)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (GOOD, "1: 2"),
            ("flags.jsonl", "x" * 3000),
            ("flags.jsonl", r'"a\eb\nc"'),
            ("clove]", f"clove, {'x' * 3000}, 3]"),
            ("{context}", "{con\u2028text}"),
            ("kitchen/flags", r'"kitchen/fl\nags"'),
            ("shots: 1", r'"sh\nots": 1'),
        ],
    )
    def test_odd_names_are_shown_on_one_line(self, tmp_path: Path, old: str, new: str) -> None:
        """Paths, items, names of values, tasks and keys, however long and with whatever in them."""
        with pytest.raises((ValueError, FileNotFoundError)) as caught:
            add_tasks_file(tasks_file(tmp_path, GOOD.replace(old, new, 1)))
        assert one_line(str(caught.value))

    def test_aliases_within_limits_are_fine(self, tmp_path: Path) -> None:
        """Anchors, aliases and merge keys share entries between tasks."""
        text = GOOD.replace("kitchen/reverse:", "kitchen/reverse: &base").split("\nkitchen/flags")[
            0
        ]
        text += "\nkitchen/copy:\n  <<: *base\n  generator: copy\n  prompt: 'Copy: {context}'\n"
        assert add_tasks_file(tasks_file(tmp_path, text)) == ["kitchen/reverse", "kitchen/copy"]

    def test_a_task_of_two_files(self, tmp_path: Path) -> None:
        """A name that another file has given is refused, even with the same entry; both files are
        named.
        """
        (tmp_path / "other").mkdir()
        first = tasks_file(tmp_path)
        second = tasks_file(tmp_path / "other")
        add_tasks_file(first)
        with pytest.raises(
            ValueError, match=rf"{second}: a task named 'kitchen/reverse' exists already in {first}"
        ):
            add_tasks_file(second)

    def test_the_same_file_again(self, tmp_path: Path) -> None:
        """A file that was edited is read anew."""
        path = tasks_file(tmp_path)
        add_tasks_file(path)
        path.write_text(GOOD.replace("samples: 40", "samples: 20"))
        assert add_tasks_file(path) == ["kitchen/reverse", "kitchen/flags"]
        assert len(load_task("kitchen/reverse").samples) == 20

    def test_a_wrong_label_is_found(self, tmp_path: Path) -> None:
        """A label that its own scorer calls wrong is reported with its reason."""
        text = GOOD.replace(
            "scorer: list_match\n  max_new_tokens: 16", "scorer: list_shuffle\n  max_new_tokens: 16"
        )
        path = tasks_file(tmp_path, text)
        label = {"input": ["blue", "white"], "example": '["blue", "white"]'}
        (tmp_path / "flags.jsonl").write_text(
            json.dumps({"input": {"country": "X"}, "answer": label}) + "\n"
        )
        with pytest.raises(
            ValueError, match=r"sample 0: its own label .* is wrong .*same as the original"
        ):
            add_tasks_file(path)


class TestDocs:
    def test_the_example_of_the_docs_works(self, tmp_path: Path) -> None:
        """The YAML and the rows of docs/tasks.md, as they stand there."""
        docs = (Path(__file__).parents[2] / "docs/tasks.md").read_text()
        text = docs.split("```yaml\n")[1].split("```")[0]
        (tmp_path / "docs.yaml").write_text(text)
        (tmp_path / "flags.jsonl").write_text(docs.split("```json\n")[1].split("```")[0])
        names = add_tasks_file(tmp_path / "docs.yaml")
        assert [len(load_task(name).samples) for name in names] == [40, 2]

    def test_generators_scorers_and_keys_are_all_named(self) -> None:
        """docs/tasks.md names every generator, scorer, setting and key there is."""
        docs = (Path(__file__).parents[2] / "docs/tasks.md").read_text()
        settings = {name for generator in GENERATORS.values() for name in generator.settings}
        assert [
            word
            for word in [*GENERATORS, *SCORERS.all(), *settings, *KEYS]
            if f"`{word}" not in docs
        ] == []

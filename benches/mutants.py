"""Whether the tests notice a fault: `python benches/mutants.py --count 60 --seed 0 --out FILE`.

Draws places of the package and changes each by an operator of cosmic-ray (a sign, a number, a
comparison, a loop that doesn't run). Each mutant meets its file's own tests, those of its room,
then those of the rooms that import it, until one fails; with `--whole` the survivors meet the whole
suite. A line of FILE tells of each; what FILE has already isn't run again. The work is done in a
copy of the tree.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import grimp

if TYPE_CHECKING:
    from cosmic_ray.operators.operator import Operator
    from parso.tree import NodeOrLeaf

ROOT = Path(__file__).resolve().parents[1]
NEIGHBOURS = "extras"  # a folder of rooms
COPIED = (
    ".ci",
    "benches",
    "docs",
    "fixtures",
    "pbcore",
    "reports",
    "tests",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "conftest.py",
    "constraints.txt",
    "mkdocs.yml",
    "pyproject.toml",
    "tox.ini",
)
SECONDS = 1800  # of the tests of a room; a mutant that loops for ever is noticed, too


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change to one file: the operator's `occurrence`-th place in it, which stands in `line`."""

    file: str
    line: int
    operator: str
    occurrence: int

    @property
    def room(self) -> str:
        """The package that has the file, as tests name it: `decoding`, `extras/servers`."""
        parts = Path(self.file).parts[1:-1]
        return "/".join(parts[:2] if parts[:1] == (NEIGHBOURS,) else parts[:1])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant. `by`: the test that failed, `time` if none ended, empty if it
    survived; `tests`: the files and folders tried.
    """

    mutant: Mutant
    was: str
    became: str
    by: str
    tests: list[str]
    seconds: float


def runs_otherwise(code: str, changed: str) -> bool:
    """Whether the change is Python, and more than an annotation's."""
    try:
        return plain(changed) != plain(code)
    except SyntaxError:
        return False


def plain(code: str) -> str:
    """Code as it runs: without annotations, which nothing evaluates, docstrings and layout."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
    return ast.dump(tree)


def by_line(code: str) -> dict[int, list[tuple[str, int]]]:
    """The operators that change something in each line, with the number of the place in the file,
    as the operator counts.
    """
    from cosmic_ray.ast import get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    found: dict[int, list[tuple[str, int]]] = {}
    tree = get_ast(code)
    for name in operator_names():
        if get_operator(name).arguments():
            continue  # inserts variables that the user names
        for occurrence, line in enumerate(_lines(get_operator(name)(), tree)):
            found.setdefault(line, []).append((name, occurrence))
    return found


def _lines(operator: Operator, tree: NodeOrLeaf) -> Iterator[int]:
    from cosmic_ray.ast import ast_nodes

    for node in ast_nodes(tree):
        for (line, _), _ in operator.mutation_positions(node):
            yield line


def drawn(count: int, seed: int) -> Iterator[tuple[Mutant, str, str]]:
    """`count` mutants with the code before and after, each line of the package as likely as any
    other; lines without an operator and changes that Python doesn't run are drawn again.
    """
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    random = Random(seed)
    codes = {
        file: file.read_text(encoding="utf-8") for file in sorted((ROOT / "pbcore").rglob("*.py"))
    }
    everywhere = [
        (file, line) for file, code in codes.items() for line in range(len(code.splitlines()))
    ]
    known: dict[Path, dict[int, list[tuple[str, int]]]] = {}
    left = count
    while left:
        file, before = random.choice(everywhere)
        code = codes[file]
        if file not in known:
            known[file] = by_line(code)
        choices = known[file].get(before + 1)
        if not choices:
            continue
        operator, occurrence = random.choice(choices)
        changed = mutate_code(code, get_operator(operator)(), occurrence)
        if changed is None or not runs_otherwise(code, changed):
            continue
        name = file.relative_to(ROOT).as_posix()
        yield Mutant(name, before + 1, operator.removeprefix("core/"), occurrence), code, changed
        left -= 1


def may_notice(mutant: Mutant) -> list[str]:
    """The tests that may notice it: the file named after its own, those of its room, then of the
    rooms that import it, by itself or through a module of its room, the fewest imports first.
    """
    graph = grimp.build_graph("pbcore")
    module = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    importing: dict[str, int] = {}
    found, ahead = {module}, [module]
    while ahead:
        for name in graph.find_modules_that_directly_import(ahead.pop()) - found:
            found.add(name)
            room = Mutant(f"{name.replace('.', '/')}/x.py", 0, "", 0).room
            importing[room] = importing.get(room, 0) + 1
            if room == mutant.room:
                ahead.append(name)
    rooms = [mutant.room, *sorted(importing.keys() - {mutant.room}, key=importing.__getitem__)]
    own = Path("tests", *Path(mutant.file).parts[1:-1], f"test_{Path(mutant.file).name}")
    asked = [own.as_posix(), *(f"tests/{room}" for room in rooms if room)]
    return [name for name in asked if (ROOT / name).exists()]


def failed_test(copy: Path, tests: str) -> str:
    """The first test that fails in the copy; empty if none does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
    environment = dict(os.environ, PYTHONPATH=str(copy), OMP_NUM_THREADS="1")
    if (ROOT.parent / "shared").is_dir():
        environment.setdefault("PBCORE_REFERENCE", str(ROOT.parent / "shared"))
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "time"
    if done.returncode in (0, 5):  # 5: no test of the folder runs by default
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0].split()[-1] if lines else "the package can't be loaded"


def tried(copy: Path, drawn_one: tuple[Mutant, str, str], whole: bool) -> Outcome:
    """Runs the tests over one mutant, room by room."""
    mutant, code, changed = drawn_one
    started = time.monotonic()
    file = copy / mutant.file
    file.write_text(changed, encoding="utf-8")
    by, met = "", []
    try:
        for tests in [*may_notice(mutant), *(["tests"] if whole else [])]:
            met.append(tests)
            by = failed_test(copy, tests)
            if by:
                break
    finally:
        file.write_text(code, encoding="utf-8")
    was, became = _difference(code, changed)
    return Outcome(mutant, was, became, by, met, round(time.monotonic() - started, 1))


def _difference(code: str, changed: str) -> tuple[str, str]:
    """The first line that differs, before and after."""
    for was, became in zip(code.splitlines(), changed.splitlines(), strict=False):
        if was != became:
            return was.strip(), became.strip()
    return "", ""


def copied(above: Path) -> Path:
    """A copy of the tree below `above`, which mutants may change."""
    copy = above / "pbcore"
    copy.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, copy / name)
    return copy


def done_before(file: Path) -> list[Outcome]:
    """What the file tells of mutants that ran already."""
    if not file.exists():
        return []
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [Outcome(**{**row, "mutant": Mutant(**row["mutant"])}) for row in rows]


def said(outcome: Outcome) -> str:
    """One mutant's line."""
    mutant = outcome.mutant
    fate = f"killed by {outcome.by}" if outcome.by else "SURVIVED"
    return f"{mutant.file}:{mutant.line}: {outcome.was}  →  {outcome.became}\n  {fate}"


def main(show: Callable[[str], None] = print) -> None:
    """Runs what is asked for and says how many were noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="a line of JSON a mutant")
    parser.add_argument("--whole", action="store_true", help="survivors meet the whole suite")
    asked = parser.parse_args()
    if find_spec("cosmic_ray") is None:
        parser.error('it needs cosmic-ray: pip install -c constraints.txt -e ".[mutants]"')
    before = {outcome.mutant: outcome for outcome in done_before(asked.out)}
    outcomes = []
    with tempfile.TemporaryDirectory() as above:
        copy = copied(Path(above))
        for one in drawn(asked.count, asked.seed):
            outcome = before.get(one[0])
            if outcome is None or (asked.whole and not outcome.by and "tests" not in outcome.tests):
                outcome = tried(copy, one, asked.whole)
                with asked.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(asdict(outcome), ensure_ascii=False) + "\n")
            outcomes.append(outcome)
            show(said(outcome))
    killed = sum(bool(outcome.by) for outcome in outcomes)
    show(f"{killed} of {len(outcomes)} mutants were noticed (seed {asked.seed})")


if __name__ == "__main__":
    main()

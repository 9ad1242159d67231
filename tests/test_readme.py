"""The promises of README and docs/start.md: their names are real, and README shows what a run
prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pbcore.decoding import resolve
from pbcore.decoding.policies import policies
from pbcore.metrics import grammar
from pbcore.models.catalog import availability
from pbcore.models.registry import all_entries
from pbcore.tasks import task_names
from tests.environment import own_environment
from tests.warm_python import warm_programs, warm_python

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
LAST = README.rpartition("```text\n")[2].partition("```")[0]  # lines of the default run
NAMES = README + (ROOT / "docs" / "start.md").read_text()


class TestReadme:
    def test_sampler_names_are_real(self) -> None:
        """Every sampler that they name can be built."""
        names = re.findall(
            r"`((?:random|confidence|left_to_right|margin|entropy|threshold|factor|eb)-[^`\s/]+)`",
            NAMES,
        )
        assert len(names) >= 8
        for name in names:
            resolve(name)

    def test_commands(self) -> None:
        """The two commands for a fresh machine are where .ci/run and a newcomer look for them."""
        for marker in ("main", "tests"):
            assert re.search(
                rf"<!-- {marker} -->\n```bash\n[^\n]*pip install -c constraints.txt[^\n]*\n```",
                README,
            )

    def test_the_first_screen_leads_on(self) -> None:
        """Pictures before the commands, and five links after what they print."""
        before, _, after = README.partition("<!-- main -->")
        pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
        assert all((ROOT / picture).is_file() for picture in pictures)
        assert len(re.findall(r"!\[", before)) == 2
        (links,) = (line for line in after.splitlines() if line.startswith("**Go on:**"))
        targets = re.findall(r"\]\(([^)]+)\)", links)
        assert len(targets) == 5
        assert all((ROOT / target.partition("#")[0]).is_file() for target in targets)
        story = (ROOT / targets[0]).read_text(encoding="utf-8")
        pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
        assert [page for page in sorted(pages) if f"]({page}" not in story] == []

    def test_it_counts_what_there_is(self) -> None:
        """Tasks of the paper and samplers."""
        assert f"**{len(task_names())} tasks**" in README
        said = re.search(r"\*\*over (\d+) samplers\*\*", README)
        assert said is not None
        assert int(said[1]) < len(policies())

    def test_it_counts_the_models_that_come_with_it(self) -> None:
        """Those that `pbcore list models` calls ready; all but the ideal ones are trained."""
        ready = [entry for entry in all_entries() if availability(entry) == "ready"]
        trained = [entry for entry in ready if not entry.name.startswith("ideal")]
        assert (len(ready), len(trained)) == (7, 5)
        assert "Seven small ones come with pbcore, five of them trained." in README

    def test_names_are_explained(self) -> None:
        """The two models and every kind of sampler of the lines that it shows."""
        told = README.partition(LAST)[2]
        for name in ("ideal", "tiny"):
            assert f"*{name}*" in told
        policies_shown = LAST.partition("\n")[0].split()[1:]
        chosen = re.findall(r"^(?:ideal|tiny)   (\S+)   \d", LAST, re.MULTILINE)
        assert len(policies_shown) == 3
        assert len(chosen) == 2
        for name in (*policies_shown, *chosen):
            assert f"`{name}" in told, name


def steady(printed: str) -> str:
    """What a run prints, without seconds, which depend on the machine, and the run's name."""
    text = re.sub(r", ([\d.]+× (less|more)|(about )?as much) time", "", printed)
    text = re.sub(r"[\d.]+ s of decoding", "… s of decoding", text)
    return re.sub(r"reports/\d{8}-\d+-\d+", "reports/RUN", text)


@pytest.mark.nightly
def test_it_shows_what_the_default_run_prints(tmp_path: Path) -> None:
    """All figures but seconds."""
    if not grammar.available():
        pytest.skip("LanguageTool, which scores the text tasks, can't be had here")
    command = [sys.executable, "-m", "pytest", "benches", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        command, cwd=ROOT, env=own_environment(), capture_output=True, text=True, check=True
    )
    assert steady(LAST.partition("page: ")[0]) in steady(done.stdout)


def more() -> list[str]:
    """The lines to copy, without their comments."""
    block = README.partition("<!-- more -->\n```bash\n")[2].partition("\n```")[0]
    return [line for line in block.splitlines() if not line.startswith("#")]


@pytest.mark.slow
@pytest.mark.posix
def test_the_lines_to_copy(tmp_path: Path) -> None:
    """Each runs as it stands, one after the other; that for SLURM as one task of its array, with a
    small model.
    """
    programs = warm_programs(tmp_path / "programs")
    for line in more():
        text = line.replace("reports/", f"{tmp_path}/").replace("baseline.json", f"{tmp_path}/b")
        extra = {"PATH": f"{programs}:{os.environ['PATH']}"}
        if line.startswith("sbatch "):
            _, _, script, model, shards = line.split()
            own = tmp_path / "script.sh"
            # Here is no GPU, and only one cell of the grid is measured.
            own.write_text((ROOT / script).read_text().replace(" --gpu", ""))
            assert (model, shards) == ("llada-8b", "8")
            text = f"cd {tmp_path} && bash script.sh ideal 1000"
            extra |= {"SLURM_ARRAY_TASK_ID": "1", "PYTEST_ADDOPTS": "--limit 1"}
        done = subprocess.run(
            ["bash", "-euc", text.replace(".venv/bin/", "")],
            cwd=ROOT,
            env=own_environment() | extra | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_it_shows_what_an_estimate_prints() -> None:
    """The block under `--estimate` is that of the command above it."""
    words = README.partition("pytest benches --model ")[2].partition("\n")[0].split()
    command = [warm_python(), "-m", "pytest", "benches", "--model", *words, "--estimate"]
    done = subprocess.run(
        command, cwd=ROOT, env=own_environment(), capture_output=True, text=True, check=True
    )
    shown = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert shown[0] in done.stdout

"""The files of docs/examples that are for clusters, checked by the tools that read them."""

from __future__ import annotations

import os
import shlex
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.environment import own_environment
from tests.warm_python import warm_python

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    return content


def check(resource: dict[str, Any]) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    validate.validate(resource, "1.30", strict=True)


class TestGitLab:
    def test_it_runs_the_gate_and_keeps_its_files(self) -> None:
        """The report and the JUnit file lie where `gate.sh` writes them, also after a red gate."""
        job = read("gitlab-ci.yml")["parallel decoding gate"]
        assert job["script"][-1] == "./gate.sh"
        out = job["variables"]["OUT"].replace("$CI_PIPELINE_ID", "7")
        kept = job["artifacts"]
        assert kept["when"] == "always"
        assert f"{out}/".startswith(tuple(kept["paths"]))
        assert fnmatch(f"{out}.xml", kept["reports"]["junit"])
        assert '--junit-xml "$OUT.xml"' in (EXAMPLES / "gate.sh").read_text(encoding="utf-8")


class TestKubernetes:
    def test_the_indexed_job_follows_the_schema(self) -> None:
        """Strictly: no unknown field either. A wrong one is refused, so the check is alive."""
        job = read("kubernetes-indexed-job.yaml")
        check(job)
        job["spec"]["completion"] = 8
        with pytest.raises(Exception, match="completion"):
            check(job)

    @pytest.mark.posix
    def test_the_indexed_job_runs_every_shard(self) -> None:
        """As many pods as shards, and the script asks for shard index + 1 of them."""
        job = read("kubernetes-indexed-job.yaml")["spec"]
        container = job["template"]["spec"]["containers"][0]
        environment = {entry["name"]: entry["value"] for entry in container["env"]}
        assert job["completions"] == job["parallelism"] == int(environment["SHARDS"])
        script = 'pytest() { echo "$@"; }\n' + container["args"][0]
        said = subprocess.run(
            [*container["command"], script],
            env={**environment, "PATH": os.environ["PATH"], "JOB_COMPLETION_INDEX": "0"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        options = "--model llada-1.5 --gpu --profile paper --shard 1/8 --out /results/shard-1"
        assert said.strip() == f"benches {options}"

    def test_pods_of_the_kuberay_job_follow_the_schema(self) -> None:
        """Of head and workers; KubeRay's own schema is in its cluster."""
        cluster = read("kuberay-job.yaml")["spec"]["rayClusterSpec"]
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "x"},
                **group["template"],
            }
            check(pod)

    def test_the_kuberay_job_calls_the_script(self) -> None:
        """Which is there."""
        words = read("kuberay-job.yaml")["spec"]["entrypoint"].split()
        assert (words[0], Path(words[1]).name) == ("bash", "ray-paper.sh")
        assert (EXAMPLES / "ray-paper.sh").is_file()


class TestRayUp:
    def test_ray_accepts_the_cluster_file(self) -> None:
        """Its schema, after the defaults of the provider are filled in."""
        util = pytest.importorskip("ray.autoscaler._private.util")
        cluster = util.prepare_config(read("ray-cluster.yaml"))
        util.validate_config(cluster)
        assert cluster["max_workers"] == 2
        with pytest.raises(Exception, match="provider"):
            util.validate_config(
                {key: value for key, value in cluster.items() if key != "provider"}
            )


@pytest.mark.posix
class TestScript:
    def test_it_begins_and_resumes(self, tmp_path: Path) -> None:
        """A directory that holds a run is resumed."""
        for option in ("--out", "--resume"):
            said = subprocess.run(
                [EXAMPLES / "ray-paper.sh", "tiny", tmp_path, "--limit", "2"],
                env={**os.environ, "PYTEST": "echo"},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            expected = (
                f"benches --model tiny --gpu --profile paper --ray {option} {tmp_path} --limit 2"
            )
            assert said.split() == expected.split()
            (tmp_path / "run.json").touch()

    @pytest.mark.slow
    def test_the_gate_in_a_project_of_a_user(self, tmp_path: Path) -> None:
        """Without cells of its own the stock ones run; a run that was killed before its first cell
        is resumed; a worse baseline fails.
        """
        words = ["--model", "ideal", "--task", "copy", "--sampler", "random-k4", "--limit", "2"]
        pytest_ = [warm_python(), "-m", "pytest"]
        script = f'#!/bin/sh\nexec {shlex.join(pytest_)} "$@"\n'
        (tmp_path / "pytest").write_text(script, encoding="utf-8")
        (tmp_path / "pytest").chmod(0o755)
        environment = {
            **own_environment(),
            "PYTEST": str(tmp_path / "pytest"),
            "PYTHONPATH": str(EXAMPLES.parents[1]),
            "BASELINE": "base.json",
            "OUT": "reports/gate",
        }
        baseline = ["--pyargs", "pbcore.benches", *words, "--update-baseline", "base.json"]
        subprocess.run([*pytest_, *baseline], cwd=tmp_path, env=environment, check=True)
        (tmp_path / "reports" / "gate").mkdir(parents=True)
        run_json = next((tmp_path / "reports").glob("2*/run.json")).read_text()
        (tmp_path / "reports" / "gate" / "run.json").write_text(run_json)
        for option in ("--resume", "--resume"):
            done = subprocess.run(
                [EXAMPLES / "gate.sh", *words],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert "base.json" in done.stdout
            assert option in (tmp_path / "reports" / "gate" / "run.json").read_text()

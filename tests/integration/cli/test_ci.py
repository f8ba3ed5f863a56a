"""What others' repositories run: the pre-commit hook, the steps of the action, and what they make of SARIF."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dray.cli.commands import dray
from dray.explain.lint.rules import RULES
from tests.support.paths import ROOT

GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
WARNED = (
    "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c}\n"
    "spec: {devices: {requests: [{name: r, deviceClassName: gpu}]}}\n"
)
BAD = WARNED.replace("deviceClassName: gpu", "deviceClassName: gpu, allocationMode: Sometimes")


def environment(**more: str) -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", **more}


# --- pre-commit ---


def hook() -> dict[str, Any]:
    (found,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return dict(found)


@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), (WARNED, 0), (BAD, 3)])
def test_hook_is_run_with_the_files_that_changed(tmp_path: Path, text: str, code: int) -> None:
    (tmp_path / "claim.yaml").write_text(text)
    line = [*shlex.split(hook()["entry"]), "claim.yaml"]
    done = subprocess.run(line, cwd=tmp_path, env=environment(), check=False, capture_output=True, timeout=60)
    assert done.returncode == code


def test_hook_says_which_files_it_is_for() -> None:
    assert hook()["types_or"] == ["yaml", "json"]
    wanted = re.compile(hook()["files"])
    for path in ("deploy/claim.yaml", "manifests/DeviceClass.yml", "jobs/job.json"):
        assert wanted.search(path)
    assert not wanted.search("mkdocs.yml")


# --- the action ---


def last_step(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the step that checks, as the runner does: its inputs come by the environment."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    values = {name: one.get("default", "") for name, one in action["inputs"].items()} | inputs
    step = action["runs"]["steps"][-1]
    variables = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: values[found[1]], text)
        for name, text in step["env"].items()
    }
    assert step["shell"] == "bash"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder, env=environment(**variables), check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_action_writes_findings_and_fails_on_errors(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(BAD)
    done = last_step(tmp_path, paths="good.yaml bad.yaml")
    assert done.returncode == 3
    assert "bad.yaml:4: error: ResourceClaim c" in done.stdout
    log = json.loads((tmp_path / "dray-check.sarif").read_text())
    assert [one["level"] for one in log["runs"][0]["results"]] == ["warning", "error"]


@pytest.mark.parametrize(("strict", "code"), [("false", 0), ("true", 3)])
def test_action_may_take_warnings_for_errors(tmp_path: Path, strict: str, code: int) -> None:
    (tmp_path / "warned.yaml").write_text(WARNED)
    assert last_step(tmp_path, paths="warned.yaml", strict=strict, sarif="out.sarif").returncode == code
    assert (tmp_path / "out.sarif").exists()


# --- SARIF ---


def test_sarif_has_what_its_schema_requires(tmp_path: Path) -> None:
    path = tmp_path / "a claim.yaml"
    path.write_text(BAD + "---\nno: object\n")
    log = json.loads(CliRunner().invoke(dray, ["check", str(path), "-o", "sarif"]).output)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    assert [rule["id"] for rule in driver["rules"]] == list(RULES)
    assert len(run["results"]) == 3
    for result in run["results"]:
        assert result["message"]["text"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["artifactLocation"]["uri"].endswith("a%20claim.yaml")
        assert place["region"]["startLine"] >= 1

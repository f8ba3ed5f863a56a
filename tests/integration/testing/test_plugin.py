"""The pytest plugin, in a project of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import TOOLS

PROJECT = """
import pytest

from dray import testing
from dray.client.resources import PODS, RESOURCE_SLICES


@pytest.mark.parametrize("number", range(6))
def test_everyone_has_a_namespace_of_their_own(dray_client, dray_namespace, dray_cluster, number):
    assert dray_client.list(PODS, dray_namespace) == []
    dray_cluster.apply(testing.pod("p"), namespace=dray_namespace)


def test_kubectl_speaks_to_the_cluster(dray_kubectl):
    dray_kubectl("create", "configmap", "c", "--from-literal=a=b")
    assert dray_kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}") == "b"


@pytest.fixture(scope="module")
def prepared(dray_cluster):
    dray_cluster.apply(testing.device_class("mine", driver="gpu.example.com"))
    return dray_cluster


def test_a_module_may_prepare_its_cluster(prepared, dray_cluster):
    assert prepared is dray_cluster and dray_cluster.settings.nodes == 3


@pytest.mark.dray(nodes=2)
def test_a_module_prepares_each_cluster(prepared, dray_cluster):
    assert prepared is dray_cluster and dray_cluster.settings.nodes == 2


@pytest.mark.dray(nodes=1, devices=2, release=["1.34", "1.36"])
def test_each_release(dray_cluster):
    minor = dray_cluster.run(dray_cluster.admin.request("GET", "/version")).object["minor"]
    assert minor == dray_cluster.settings.release.removeprefix("1.")
    assert [len(s["spec"]["devices"]) for s in dray_cluster.client.list(RESOURCE_SLICES)] == [2]
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The plugin is named, so that the test does not depend on how dray was installed.
    plugin = ("-p", "no:dray", "-p", "dray.testing.plugin", "-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *arguments, str(folder)],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "DRAY_KUBECTL": str(TOOLS / "kubectl-1.36")},
    )  # fmt: skip


def test_fixtures_markers_and_parallel_runs(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT)
    done = run(tmp_path, "-n", "2", "--strict-markers")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "11 passed" in done.stdout


def test_a_setting_that_does_not_exist_is_named(tmp_path: Path) -> None:
    wrong = "import pytest\n@pytest.mark.dray(knots=3)\ndef test_it(dray_cluster): pass\n"
    (tmp_path / "test_project.py").write_text(wrong)
    done = run(tmp_path)
    assert done.returncode != 0
    assert "@pytest.mark.dray: " in done.stdout and "'knots'" in done.stdout

"""Manifests of old generations, converted on the command line, run on a cluster of today."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.kubectl import Kubectl
from tests.support.paths import SEEDS
from tests.support.process import DRAY, DrayProcess, dray_process
from tests.support.wait import wait_for_sync

RULES = """
parameters:
- apiGroup: cats.resource.example.com
  kind: ClaimParameters
  selectors:
  - device.attributes["resource-driver.example.com"].color == {spec.color}
  - device.attributes["resource-driver.example.com"].size == {spec.size}
"""


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    """A whole cluster as it comes, cats included."""
    with dray_process(tmp_path_factory.mktemp("today"), "up") as server:
        yield server


@pytest.fixture
def kubectl(tool: Callable[[str], str], today: DrayProcess) -> Kubectl:
    return Kubectl(tool("kubectl-1.36"), today, today.data / "cache")


def convert(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [DRAY, "convert", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def wait_says(kubectl: Kubectl, wanted: str, *command: str) -> None:
    def says() -> str:
        return kubectl(*command, code=None, merged=True)

    wait_for_sync(f"kubectl {' '.join(command)} to say {wanted!r}", lambda: wanted in says(), log=says)


@pytest.mark.parametrize("folder", ["classic-1.27", "structured-1.30", "beta-1.32"])
def test_every_old_manifest_applies_and_runs_as_v1(kubectl: Kubectl, folder: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    made = tmp_path / "made"
    # Only the policies need a human hand: their expressions are about the old shape.
    convert(
        "-f",
        str(SEEDS / folder),
        "--rules",
        str(rules),
        "-o",
        str(made),
        code=3 if folder == "beta-1.32" else 0,
    )
    namespace = folder.replace(".", "-")
    kubectl("create", "namespace", namespace)
    for file in sorted(made.glob("*.yaml"), key=lambda f: ("crd" not in f.name, f.name)):
        text = file.read_text().replace("name-of-the-intended-node", "node-1")
        documents = [d for d in yaml.safe_load_all(text) if d]
        assert not any("v1beta1" in d["apiVersion"] or "v1alpha" in d["apiVersion"] for d in documents)
        elsewhere = any((d.get("metadata") or {}).get("namespace") for d in documents)
        where = () if elsewhere else ("--namespace", namespace)
        # The driver publishes slices of its own, for the nodes that there are.
        only_try = ("--dry-run=server",) if "slices" in file.name else ()
        kubectl("apply", *where, *only_try, "-f", "-", stdin=text)
    pod = ("--namespace", namespace, "pod-with-cats")
    wait_says(kubectl, "Running", "get", "pod", *pod, "-o", "jsonpath={.status.phase}")
    for container in ("container0", "container1"):
        seen = kubectl("exec", *pod, "-c", container, "--", "env")
        assert "CAT_COLOR=black" in seen and "CAT_SIZE=large" in seen
    kubectl("delete", "namespace", namespace, "--wait=false")


def test_a_live_cluster_is_converted_too(
    kubectl: Kubectl, tool: Callable[[str], str], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    bare = ("server", "--emulate", "1.27", "--disable-admission-plugins", "ServiceAccount")
    with dray_process(tmp_path / "old", *bare) as old:
        then = Kubectl(tool("kubectl-1.27"), old, old.data / "cache")
        for file in ("claim-parameters-crd.yaml", "cats.yaml"):
            then("apply", "-f", str(SEEDS / "classic-1.27" / file))
        text = convert("--cluster", "--kubeconfig", str(old.kubeconfig), "--rules", str(rules))
        lossy = convert("--cluster", "--kubeconfig", str(old.kubeconfig), code=3)
    found = [d for d in yaml.safe_load_all(text) if d]
    assert [d["kind"] for d in found] == ["ClaimParameters", "DeviceClass", "ResourceClaimTemplate", "Pod"]
    assert "selectors" in found[2]["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    assert "opaque" in lossy
    said = kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
    assert len(said.splitlines()) == len(found)

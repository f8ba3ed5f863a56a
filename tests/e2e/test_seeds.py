"""The manifests people start from, and the commands they check a cluster with, on the releases they were written for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.kubectl import Kubectl
from tests.support.paths import SEEDS
from tests.support.process import DrayProcess, dray_process

#: folder → the releases it applies to; "" serves everything at once
RELEASES = {
    "classic-1.27": ("1.27", "1.30", ""),
    "structured-1.30": ("1.30", ""),
    "beta-1.32": ("1.32", "1.34", "1.36", ""),
    "v1": ("1.34", "1.36", ""),
    "hands-on": ("1.34", "1.36", ""),
}


class Servers:
    """An API server for each release and set of flags, started when first asked for."""

    def __init__(self, stack: ExitStack, tool: Callable[[str], str], base: Path) -> None:
        self._stack, self._tool, self._base = stack, tool, base
        self._running: dict[tuple[str, ...], DrayProcess] = {}

    def kubectl(self, *flags: str, binary: str = "kubectl-1.36") -> Kubectl:
        server = self._running.get(flags)
        if server is None:
            data = self._base / f"server-{len(self._running)}"
            # No controller makes service accounts beside a bare API server.
            bare = ("server", "--disable-admission-plugins", "ServiceAccount")
            server = self._running[flags] = self._stack.enter_context(dray_process(data, *bare, *flags))
        return Kubectl(self._tool(binary), server, server.data / f"cache-{binary}")


@pytest.fixture(scope="module")
def servers(tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack, tool, tmp_path_factory.mktemp("seeds"))


def emulate(release: str) -> tuple[str, ...]:
    """Beta versions have to be asked for, except where there is nothing else."""
    return ("--emulate", release, "--runtime-config", "api/beta=true") if release else ()


@pytest.mark.parametrize(
    ("folder", "release"),
    [(folder, release) for folder, releases in RELEASES.items() for release in releases],
)
def test_the_seeds_apply_to_their_releases(servers: Servers, folder: str, release: str) -> None:
    kubectl = servers.kubectl(*emulate(release))
    files = sorted((SEEDS / folder).glob("*.yaml"), key=lambda f: ("crd" not in f.name, f.name))
    for file in files:
        said = kubectl("apply", "-f", str(file))
        assert said.strip() and all(
            line.endswith(("created", "configured", "unchanged")) for line in said.splitlines()
        ), said


@pytest.mark.parametrize("binary", ["kubectl-1.27", "kubectl-1.36"])
@pytest.mark.parametrize(
    ("release", "plural"),
    [
        ("1.27", "resourceclasses"),
        ("1.30", "resourceclasses"),
        ("1.32", "deviceclasses"),
        ("1.36", "deviceclasses"),
    ],
)
def test_a_cluster_that_supports_dra_says_so_and_one_that_does_not_says_so_too(
    servers: Servers, release: str, plural: str, binary: str
) -> None:
    off = (
        servers.kubectl(
            "--emulate", release, "--feature-gates", "DynamicResourceAllocation=false", binary=binary
        )
        if (release != "1.36")
        else servers.kubectl("--feature-gates", "DynamicResourceAllocation=false", binary=binary)
    )  # locked since 1.35
    said = off("get", plural, code=1, merged=True)
    assert f'error: the server doesn\'t have a resource type "{plural}"' in said
    on = servers.kubectl("--emulate", release, binary=binary)
    assert on("get", plural, merged=True).strip() == "No resources found"


def test_slices_of_a_driver_are_deleted_by_field(servers: Servers) -> None:
    kubectl = servers.kubectl()
    for node in ("las1", "las2"):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-gpu.example.com-x"},
            "spec": spec,
        }
        kubectl("apply", "-f", "-", stdin=json.dumps(body))
    shown = kubectl("get", "resourceslice", "--field-selector", "spec.driver=gpu.example.com")
    assert [line.split()[:4] for line in shown.splitlines()] == [
        ["NAME", "NODE", "DRIVER", "POOL"],
        ["las1-gpu.example.com-x", "las1", "gpu.example.com", "las1"],
        ["las2-gpu.example.com-x", "las2", "gpu.example.com", "las2"],
    ]
    said = kubectl("delete", "resourceslice", "--field-selector", "spec.driver=gpu.example.com")
    assert 'resourceslice.resource.k8s.io "las1-gpu.example.com-x" deleted' in said
    assert kubectl("get", "resourceslice", "--field-selector", "spec.driver=gpu.example.com") == ""


def test_old_tables_have_the_old_columns(servers: Servers) -> None:
    kubectl = servers.kubectl("--emulate", "1.30")
    for file in ("claim-parameters-crd.yaml", "cats.yaml"):
        kubectl("apply", "-f", str(SEEDS / "classic-1.27" / file))
    assert kubectl("get", "resourceclasses").split()[:3] == ["NAME", "DRIVERNAME", "AGE"]
    assert kubectl("get", "resourceclaimtemplates").split()[:4] == [
        "NAME",
        "RESOURCECLASSNAME",
        "ALLOCATIONMODE",
        "AGE",
    ]


def test_devices_are_described_as_the_release_has_them(servers: Servers) -> None:
    kubectl = servers.kubectl("--emulate", "1.32")
    kubectl("apply", "-f", str(SEEDS / "beta-1.32" / "slices.yaml"))
    shown = kubectl("describe", "resourceslices")
    assert "API Version:  resource.k8s.io/v1beta1" in shown
    assert "Basic:" in shown and "Attributes:" in shown

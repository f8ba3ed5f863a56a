"""Where a node's paths are on a machine that it may share."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.node.hostpaths import HostPaths


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("/var/lib/kubelet", "/data/las1/kubelet"),
        ("/var/lib/kubelet/plugins/x/dra.sock", "/data/las1/kubelet/plugins/x/dra.sock"),
        ("/var/lib/kubelet-other", "/var/lib/kubelet-other"),
        ("/var/run/cdi/a.json", "/data/las1/cdi/a.json"),
        ("/etc/hosts", "/etc/hosts"),
    ],
)
def test_nodes_that_share_a_machine_have_kubelet_and_cdi_directories_of_their_own(
    given: str, found: str
) -> None:
    assert HostPaths.below(Path("/data/las1")).locate(given) == found


def test_a_node_with_a_machine_to_itself_has_the_usual_paths() -> None:
    paths = HostPaths.of_machine()
    assert paths.locate("/var/lib/kubelet/x") == "/var/lib/kubelet/x"
    assert paths.registry == Path("/var/lib/kubelet/plugins_registry")
    assert paths.pod_resources == Path("/var/lib/kubelet/pod-resources/kubelet.sock")

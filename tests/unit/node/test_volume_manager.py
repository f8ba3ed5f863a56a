"""Volumes as directories."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from dray.node.hostpaths import HostPaths
from dray.node.volume_manager import MountedVolumes, MountError, VolumeManager, mounts, write_content


def pod(*volumes: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": "p", "uid": "u", "labels": {"a": "b"}},
        "spec": {"volumes": list(volumes), "containers": []},
    }


@pytest.fixture
def paths(tmp_path: Path) -> HostPaths:
    paths = HostPaths.below(tmp_path / "node")
    paths.create()
    return paths


async def test_a_service_account_volume_has_token_authority_and_namespace(api: Any, paths: HostPaths) -> None:
    api.put("/api/v1/namespaces/ns/configmaps/kube-root-ca.crt", {"data": {"ca.crt": "PEM"}})
    volume = {
        "name": "kube-api-access",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {
                    "downwardAPI": {
                        "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                    }
                },
            ]
        },
    }
    provided = await VolumeManager(api.client, paths, clock=lambda: 1000.0).mount(pod(volume), node={})
    place = provided.places["kube-api-access"]
    assert {f: (place / f).read_text() for f in ("token", "ca.crt", "namespace")} == {
        "token": "a-token",
        "ca.crt": "PEM",
        "namespace": "ns",
    }
    assert provided.refresh_at == 1060.0


async def test_secrets_config_maps_and_empty_directories(api: Any, paths: HostPaths) -> None:
    api.put("/api/v1/namespaces/ns/secrets/s", {"data": {"k": base64.b64encode(b"v").decode()}})
    provided = await VolumeManager(api.client, paths).mount(
        pod(
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "e", "emptyDir": {}},
            {"name": "o", "configMap": {"name": "none", "optional": True}},
        ),
        node={},
    )
    assert (provided.places["s"] / "k").read_text() == "v"
    assert (provided.places["s"] / "k").stat().st_mode & 0o777 == 0o400
    assert list(provided.places["e"].iterdir()) == []


async def test_volumes_that_cannot_be_mounted_are_named(api: Any, paths: HostPaths) -> None:
    volumes = VolumeManager(api.client, paths)
    with pytest.raises(
        MountError, match=r'MountVolume.SetUp failed for volume "c" : configmaps "x" not found'
    ):
        await volumes.mount(pod({"name": "c", "configMap": {"name": "x"}}), node={})
    with pytest.raises(MountError, match="does not provide: nfs"):
        await volumes.mount(pod({"name": "n", "nfs": {"server": "s"}}), node={})


async def test_host_paths_of_a_node_among_several_are_its_own(api: Any, paths: HostPaths) -> None:
    provided = await VolumeManager(api.client, paths).mount(
        pod(
            {"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/plugins_registry"}},
            {"name": "cdi", "hostPath": {"path": "/var/run/cdi"}},
            {"name": "etc", "hostPath": {"path": "/etc"}},
        ),
        node={},
    )
    assert provided.places == {"plugins": paths.registry, "cdi": paths.cdi[0], "etc": Path("/etc")}


def test_content_is_swapped_as_a_whole(tmp_path: Path) -> None:
    write_content(tmp_path, {"a": (b"1", 0o644), "dir/b": (b"2", 0o644)})
    first = (tmp_path / "..data").readlink()
    write_content(tmp_path, {"a": (b"1", 0o644), "dir/b": (b"2", 0o644)})
    assert (tmp_path / "..data").readlink() == first
    write_content(tmp_path, {"a": (b"new", 0o644)})
    assert (tmp_path / "a").read_text() == "new"
    assert not (tmp_path / "dir").exists()
    assert not (tmp_path / first).exists()


def test_mounts_stay_within_their_volume(tmp_path: Path) -> None:
    provided = MountedVolumes({"v": tmp_path})
    container = {"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "sub/dir", "readOnly": True}]}
    [mount] = mounts(container, provided)
    assert (mount.source, mount.target, mount.read_only) == (str(tmp_path / "sub/dir"), "/m", True)
    (tmp_path / "out").symlink_to("/etc")
    for escape in ("../x", "/etc", "out/passwd"):
        with pytest.raises(MountError, match="leads out of its volume"):
            mounts({"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": escape}]}, provided)

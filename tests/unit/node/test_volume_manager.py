"""Volumes as directories."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from dray.node.hostpaths import HostPaths
from dray.node.volume_manager import File, MountedVolumes, MountError, VolumeManager, mounts, write_content


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
    write_content(tmp_path, {"a": File(b"1", 0o644), "dir/b": File(b"2", 0o644)})
    first = (tmp_path / "..data").readlink()
    write_content(tmp_path, {"a": File(b"1", 0o644), "dir/b": File(b"2", 0o644)})
    assert (tmp_path / "..data").readlink() == first
    write_content(tmp_path, {"a": File(b"new", 0o644)})
    assert (tmp_path / "a").read_text() == "new"
    assert not (tmp_path / "dir").exists()
    assert not (tmp_path / first).exists()


def test_a_link_that_a_container_put_in_place_of_the_content_costs_the_host_nothing(tmp_path: Path) -> None:
    victim, volume = tmp_path / "victim", tmp_path / "volume"
    victim.mkdir()
    (victim / "precious").write_text("kept")
    write_content(volume, {"a": File(b"1", 0o644)})
    (volume / "..evil").symlink_to(victim)
    (volume / "..evil").replace(volume / "..data")
    write_content(volume, {"a": File(b"2", 0o644)})
    assert (volume / "a").read_text() == "2"
    assert (victim / "precious").read_text() == "kept"


@pytest.mark.parametrize("target", ["../victim", "/victim", "..0123456789abcdef0123456789abcdef"])
def test_content_is_never_removed_or_written_through_links(tmp_path: Path, target: str) -> None:
    victim, volume = tmp_path / "victim", tmp_path / "volume"
    victim.mkdir()
    (victim / "precious").write_text("kept")
    write_content(volume, {"a": File(b"1", 0o644), "d/b": File(b"1", 0o644)})
    (volume / "..0123456789abcdef0123456789abcdef").symlink_to(victim)
    (volume / "foreign").symlink_to(victim)
    (volume / "..data").unlink()
    (volume / "..data").symlink_to(target.replace("/victim", str(victim)) if target[0] == "/" else target)
    (volume / "d").unlink()
    (volume / "d").symlink_to(victim)
    write_content(volume, {"a": File(b"2", 0o644), "d/b": File(b"2", 0o644)})
    assert ((volume / "a").read_text(), (volume / "d" / "b").read_text()) == ("2", "2")
    assert [p.name for p in victim.iterdir()] == ["precious"]
    assert (volume / "foreign").is_symlink()  # the agent did not make it


@pytest.mark.parametrize("path", ["a/" * 3000 + "b", "a\0b"])
async def test_paths_that_no_kernel_takes_are_told_to_the_pod(api: Any, paths: HostPaths, path: str) -> None:
    api.put("/api/v1/namespaces/ns/configmaps/c", {"data": {"k": "v"}})
    made = pod({"name": "c", "configMap": {"name": "c", "items": [{"key": "k", "path": path}]}})
    with pytest.raises(MountError, match="path "):
        await VolumeManager(api.client, paths).mount(made, node={})


async def test_containers_cannot_write_to_volumes_whose_content_comes_from_the_api(
    api: Any, paths: HostPaths
) -> None:
    api.put("/api/v1/namespaces/ns/configmaps/c", {"data": {"k": "v"}})
    volumes = [
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "projected", "projected": {"sources": [{"configMap": {"name": "c"}}]}},
        {"name": "labels", "downwardAPI": {"items": []}},
        {"name": "secret", "secret": {"secretName": "none", "optional": True}},
        {"name": "scratch", "emptyDir": {}},
    ]
    provided = await VolumeManager(api.client, paths).mount(pod(*volumes), node={})
    container = {"volumeMounts": [{"name": v["name"], "mountPath": f"/{v['name']}"} for v in volumes]}
    read_only = {m.target for m in mounts(container, provided, env={}) if m.read_only}
    assert read_only == {"/config", "/projected", "/labels", "/secret"}


def sub_path(**mount: str) -> dict[str, Any]:
    return {"volumeMounts": [{"name": "v", "mountPath": "/m", **mount}]}


def test_mounts_stay_within_their_volume(tmp_path: Path) -> None:
    provided = MountedVolumes({"v": tmp_path})
    container = {"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "sub/dir", "readOnly": True}]}
    [mount] = mounts(container, provided, env={})
    assert (mount.source, mount.sub_path, mount.target, mount.read_only) == (
        str(tmp_path),
        "sub/dir",
        "/m",
        True,
    )
    assert (tmp_path / "sub/dir").is_dir()
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "up").symlink_to("../..")
    for escape in ("../x", "/etc", "out/passwd", "out/made", "up/made", "sub/../../x"):
        with pytest.raises(MountError, match="leads out of its volume"):
            mounts(sub_path(subPath=escape), provided, env={})
    (tmp_path / "sub" / "link").symlink_to("../sub/dir")
    assert mounts(sub_path(subPath="sub/link"), provided, env={})[0].sub_path == "sub/link"


def test_variables_in_sub_path_expressions_are_filled_in(tmp_path: Path) -> None:
    provided = MountedVolumes({"v": tmp_path})
    [mount] = mounts(sub_path(subPathExpr="logs/$(POD)"), provided, env={"POD": "p-1"})
    assert mount.sub_path == "logs/p-1"
    assert (tmp_path / "logs/p-1").is_dir()
    with pytest.raises(MountError, match="has no variable NONE"):
        mounts(sub_path(subPathExpr="$(NONE)"), provided, env={})
    with pytest.raises(MountError, match="is empty"):
        mounts(sub_path(subPathExpr="$(EMPTY)"), provided, env={"EMPTY": ""})
    with pytest.raises(MountError, match="leads out of its volume"):
        mounts(sub_path(subPathExpr="$(UP)/x"), provided, env={"UP": ".."})


def test_a_path_that_content_does_not_have_is_not_made_there(tmp_path: Path) -> None:
    write_content(tmp_path, {"key": File(b"1", 0o644)})
    provided = MountedVolumes({"v": tmp_path}, read_only=frozenset({"v"}))
    assert mounts(sub_path(subPath="key"), provided, env={})[0].read_only
    with pytest.raises(MountError, match="'other' does not exist in its volume"):
        mounts(sub_path(subPath="other"), provided, env={})
    assert not (tmp_path / "other").exists()


TOKEN = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("security", "expected"),
    [
        ({}, (0, 0, 0o644)),
        ({"runAsUser": 1000}, (1000, 0, 0o600)),
        ({"fsGroup": 2000}, (0, 2000, 0o640)),
        ({"runAsUser": 1000, "fsGroup": 2000}, (1000, 2000, 0o640)),
    ],
)
async def test_tokens_belong_to_the_user_and_group_of_the_pod(
    api: Any, paths: HostPaths, security: dict[str, int], expected: tuple[int, int, int]
) -> None:
    made = pod(TOKEN)
    made["spec"] |= {"securityContext": security, "containers": [{"name": "c"}]}
    provided = await VolumeManager(api.client, paths).mount(made, node={})
    found = (provided.places["t"] / "token").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == expected


async def test_a_token_is_readable_for_all_where_containers_have_different_users(
    api: Any, paths: HostPaths
) -> None:
    made = pod(TOKEN)
    made["spec"]["containers"] = [{"name": str(u), "securityContext": {"runAsUser": u}} for u in (1, 2)]
    provided = await VolumeManager(api.client, paths).mount(made, node={})
    assert (provided.places["t"] / "token").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")
async def test_an_empty_directory_in_memory_is_mounted_once_and_gone_with_the_pod(
    api: Any, paths: HostPaths
) -> None:
    made = pod({"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})
    volumes = VolumeManager(api.client, paths)
    place = (await volumes.mount(made, node={})).places["m"]
    try:
        assert place.is_mount()
        assert (size := os.statvfs(place)).f_blocks * size.f_frsize == 1 << 20
        (place / "kept").touch()
        assert (await volumes.mount(made, node={})).places["m"] == place
        assert (place / "kept").exists()
    finally:
        await volumes.unmount(made)
    assert not place.exists()


async def test_a_container_without_a_limit_is_limited_by_the_node(api: Any, paths: HostPaths) -> None:
    items = [
        {"path": kind, "resourceFieldRef": {"containerName": "c", "resource": f"{kind}.cpu"}}
        for kind in ("limits", "requests")
    ]
    made = pod({"name": "d", "downwardAPI": {"items": items}})
    made["spec"]["containers"] = [{"name": "c"}]
    volumes = VolumeManager(api.client, paths, allocatable={"cpu": "16"})
    place = (await volumes.mount(made, node={})).places["d"]
    assert ((place / "limits").read_text(), (place / "requests").read_text()) == ("16", "0")

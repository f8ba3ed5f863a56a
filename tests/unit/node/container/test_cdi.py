"""CDI devices become edits, by the specification's rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dray.node.container.cdi import CdiCache, CdiError
from dray.runtimes.interface import DeviceNode, Hook, Mount


def write(
    directory: Path, name: str, *, version: str = "0.6.0", kind: str = "v.com/gpu", **content: Any
) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(json.dumps({"cdiVersion": version, "kind": kind, **content}))


def device(name: str, **edits: Any) -> dict[str, Any]:
    return {"name": name, "containerEdits": edits}


def test_a_device_brings_its_own_edits_and_once_those_of_its_spec(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.json",
        devices=[device("0", env=["A=0"]), device("1", env=["B=1"])],
        containerEdits={"env": ["COMMON=yes"]},
    )
    edits = CdiCache([tmp_path]).resolve(["v.com/gpu=0", "v.com/gpu=1"])
    assert edits.env == (("COMMON", "yes"), ("A", "0"), ("B", "1"))


def test_all_kinds_of_edits_are_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.json",
        version="0.7.0",
        devices=[
            device(
                "0",
                deviceNodes=[
                    {"path": "/dev/g0", "hostPath": "/dev/null", "permissions": "rw", "fileMode": 438}
                ],
                mounts=[{"hostPath": "/lib/x", "containerPath": "/x", "options": ["ro", "bind"]}],
                hooks=[{"hookName": "createContainer", "path": "/bin/h", "args": ["h", "1"], "env": ["K=v"]}],
                additionalGids=[0, 44],
            )
        ],
    )
    edits = CdiCache([tmp_path]).resolve(["v.com/gpu=0"])
    assert edits.devices == (DeviceNode(target="/dev/g0", source="/dev/null", permissions="rw", mode=438),)
    assert edits.mounts == (Mount(source="/lib/x", target="/x", read_only=True, options=("ro", "bind")),)
    assert edits.hooks == (Hook(stage="createContainer", path="/bin/h", args=("h", "1"), env=("K=v",)),)
    assert edits.gids == (44,)


def test_later_directories_win(tmp_path: Path) -> None:
    write(tmp_path / "low", "a.json", devices=[device("0", env=["X=low"])])
    write(tmp_path / "high", "b.json", devices=[device("0", env=["X=high"])])
    assert CdiCache([tmp_path / "low", tmp_path / "high"]).resolve(["v.com/gpu=0"]).env == (("X", "high"),)


def test_a_device_that_two_specs_of_one_directory_define_cannot_be_used(tmp_path: Path) -> None:
    write(tmp_path, "a.json", devices=[device("0", env=["X=a"]), device("1", env=["Y=a"])])
    write(tmp_path, "b.json", devices=[device("0", env=["X=b"])])
    resolver = CdiCache([tmp_path])
    with pytest.raises(CdiError, match=r'conflicting device "v.com/gpu=0"'):
        resolver.resolve(["v.com/gpu=0"])
    assert resolver.resolve(["v.com/gpu=1"]).env == (("Y", "a"),)


def test_unknown_devices_are_named_all(tmp_path: Path) -> None:
    with pytest.raises(CdiError, match=r"unresolvable CDI devices v.com/gpu=7, v.com/gpu=8"):
        CdiCache([tmp_path]).resolve(["v.com/gpu=7", "v.com/gpu=8"])


def test_changes_on_disk_are_seen(tmp_path: Path) -> None:
    resolver = CdiCache([tmp_path])
    write(tmp_path, "a.json", devices=[device("0", env=["X=1"])])
    assert resolver.resolve(["v.com/gpu=0"]).env == (("X", "1"),)
    (tmp_path / "a.json").unlink()
    write(tmp_path, "b.json", devices=[device("0", env=["X=22"])])
    assert resolver.resolve(["v.com/gpu=0"]).env == (("X", "22"),)


def test_yaml_specs_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "cdiVersion: 0.3.0\nkind: v.com/gpu\ndevices:\n- name: g\n  containerEdits:\n    env: [A=b]\n"
    )
    assert CdiCache([tmp_path]).resolve(["v.com/gpu=g"]).env == (("A", "b"),)


def test_paths_of_the_host_are_looked_up_where_the_node_has_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.json",
        devices=[device("0", mounts=[{"hostPath": "/var/lib/kubelet/x", "containerPath": "/x"}])],
    )
    resolver = CdiCache([tmp_path], locate=lambda p: p.replace("/var/lib/kubelet", "/node/kubelet"))
    assert resolver.resolve(["v.com/gpu=0"]).mounts[0].source == "/node/kubelet/x"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"version": "9.9.9", "devices": [device("0", env=["A=b"])]}, "unknown CDI version"),
        ({"kind": "gpu", "devices": [device("0", env=["A=b"])]}, "invalid kind"),
        ({"devices": []}, "no devices"),
        ({"devices": [device("0")]}, "empty device edits"),
        ({"devices": [device("../0", env=["A=b"])]}, "invalid device name"),
        ({"devices": [device("0", env=["A"])]}, "invalid environment variable"),
        ({"devices": [device("0", env=["A=b"]), device("0", env=["A=b"])]}, "multiple device"),
        ({"devices": [device("0", deviceNodes=[{"path": "/d", "type": "x"}])]}, "invalid type"),
        ({"devices": [device("0", mounts=[{"hostPath": "/a", "containerPath": "b"}])]}, "relative"),
        ({"devices": [device("0", hooks=[{"hookName": "whenever", "path": "/x"}])]}, "invalid hook name"),
        ({"devices": [device("0", hooks=[{"hookName": "poststop", "path": "x"}])]}, "invalid hook"),
    ],
)
def test_bad_specs_are_set_aside_with_a_reason(tmp_path: Path, content: dict[str, Any], problem: str) -> None:
    write(tmp_path, "bad.json", **content)
    write(tmp_path, "good.json", kind="other.com/nic", devices=[device("n", env=["N=1"])])
    resolver = CdiCache([tmp_path])
    assert resolver.resolve(["other.com/nic=n"]).env == (("N", "1"),)
    [text] = resolver.errors().values()
    assert problem in text


def test_a_file_that_is_no_spec_at_all_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1, 2")
    (tmp_path / "y.yaml").write_text("- a\n- b")
    (tmp_path / "z.yaml").write_text("a: [")
    assert len(CdiCache([tmp_path]).errors()) == 3

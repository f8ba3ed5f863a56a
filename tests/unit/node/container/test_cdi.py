"""CDI devices become edits, by the specification's rules."""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict
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


MALFORMED = [
    *(
        '{"cdiVersion": []}',
        '{"cdiVersion": {}}',
        "null",
        "1",
        '"text"',
        "[[]]",
        "[" * 100_000,
        "{" * 100_000,
    ),
    *('{"a":' * 100_000, "9" * 10_000, "\ufeff{}", "NaN"),
    *(
        json.dumps({"cdiVersion": "0.6.0", "kind": "v.com/gpu", **content})
        for content in (
            {"devices": "0"},
            {"devices": {"name": "0"}},
            {"devices": ["0"]},
            {"devices": [None]},
            {"devices": [{"name": ["0"], "containerEdits": {"env": ["A=b"]}}]},
            {"devices": [{"name": "0", "containerEdits": ["A=b"]}]},
            {"devices": [device("0", env="A=b")]},
            {"devices": [device("0", env=7)]},
            {"devices": [device("0", env=["A=\0"])]},
            {"devices": [device("0", env=["A=\ud800"])]},
            {"devices": [device("0", deviceNodes=["/dev/null"])]},
            {"devices": [device("0", deviceNodes=[{"path": "/d", "permissions": 7}])]},
            {"devices": [device("0", deviceNodes=[{"path": "/d", "type": ["c"]}])]},
            {"devices": [device("0", deviceNodes=[{"path": "/d", "major": "1"}])]},
            {"devices": [device("0", deviceNodes=[{"path": "/d", "major": 1 << 70}])]},
            {"devices": [device("0", mounts=[{"hostPath": 1, "containerPath": "/b"}])]},
            {"devices": [device("0", mounts=[{"hostPath": "/a", "containerPath": "/b", "options": 1}])]},
            {"devices": [device("0", hooks=[{"hookName": ["x"], "path": "/x"}])]},
            {"devices": [device("0", hooks=[{"hookName": "poststop", "path": "/x", "timeout": "1"}])]},
            {"devices": [device("0", additionalGids=["x"])]},
            {"devices": [device("0", additionalGids=[-1])]},
            {"devices": [device("0", env=["A=b"])], "containerEdits": 1},
            {"kind": 7, "devices": [device("0", env=["A=b"])]},
        )
    ),
]


@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_a_malformed_spec_concerns_only_those_who_name_its_devices(tmp_path: Path, number: int) -> None:
    (tmp_path / "bad.json").write_text(MALFORMED[number])
    write(tmp_path, "good.json", kind="other.com/nic", devices=[device("n", env=["N=1"])])
    resolver = CdiCache([tmp_path])
    assert resolver.resolve(["other.com/nic=n"]).env == (("N", "1"),)
    with pytest.raises(
        CdiError, match=r"unresolvable CDI devices v.com/gpu=0; specs that cannot be read: .*bad.json: "
    ):
        resolver.resolve(["v.com/gpu=0"])


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 {x: 1}\n" + "".join(f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}\n" for n in range(40)),
        "a: &a " + "x" * 100_000 + "\nb: [" + "*a," * 10_000 + "]\n",
        "a: " + "[" * 30_000,
        "a: " + "x" * (5 << 20),
        "? [a]\n: b\n",
        "1: b\n",
    ],
    ids=["merges", "aliases", "deep", "large", "odd key", "number as key"],
)
def test_yaml_that_would_grow_or_go_deep_is_set_aside(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(CdiError, match=r"specs that cannot be read: .*bad\.yaml"):
        CdiCache([tmp_path]).resolve(["v.com/gpu=0"])


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "directory.json").mkdir()
    (tmp_path / "\udcff.json").write_text("{")
    write(tmp_path, "good.json", kind="other.com/nic", devices=[device("n", env=["N=1"])])
    resolver = CdiCache([tmp_path])
    assert resolver.resolve(["other.com/nic=n"]).env == (("N", "1"),)
    problems = {path.name: problem for path, problem in resolver.errors().items()}
    assert (
        problems["fifo.json"] == problems["zero.json"] == problems["directory.json"] == "not a regular file"
    )
    with pytest.raises(CdiError) as refused:
        resolver.resolve(["v.com/gpu=0"])
    assert len(str(refused.value).encode()) <= 1024


SEED = {
    "cdiVersion": "0.6.0",
    "kind": "v.com/gpu",
    "devices": [
        device(
            "0",
            env=["A=b"],
            deviceNodes=[
                {"path": "/dev/g", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 3, "uid": 0}
            ],
            mounts=[{"hostPath": "/a", "containerPath": "/b", "options": ["ro"], "type": "none"}],
            hooks=[{"hookName": "poststop", "path": "/h", "args": ["h"], "env": ["A=b"], "timeout": 3}],
            additionalGids=[7],
        )
    ],
    "containerEdits": {"env": ["C=d"]},
}
ODD = [None, True, 0, -1, 1 << 80, 1.5, "", "x", "\0", "\ud800", "/", "=", [], [[]], {}, {"": {}}, "../" * 50]


def mutated(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.08:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {k if chance.random() > 0.03 else "odd": mutated(v, chance) for k, v in value.items()}
    if isinstance(value, list):
        return [mutated(v, chance) for v in value for _ in range(chance.choice((1, 1, 1, 1, 0, 2)))]
    return value


def garbled(text: str, chance: random.Random) -> bytes:
    data = bytearray(text.encode())
    for _ in range(chance.choice((0, 0, 1, 3))):
        place = chance.randrange(len(data) or 1)
        data[place : place + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
    return bytes(data)


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_specs_of_every_shape_are_used_or_set_aside(tmp_path: Path, suffix: str) -> None:
    """DRAY_FUZZ is the number of specs; a seed that fails is in the name of the file."""
    write(tmp_path, "good.json", kind="other.com/nic", devices=[device("n", env=["N=1"])])
    used = 0
    for seed in range(int(os.environ.get("DRAY_FUZZ") or 400)):
        chance = random.Random(seed)
        file = tmp_path / f"{seed}.{suffix}"
        file.write_bytes(garbled(json.dumps(mutated(SEED, chance)), chance))
        resolver = CdiCache([tmp_path])
        assert resolver.resolve(["other.com/nic=n"]).env == (("N", "1"),)
        try:
            edits = resolver.resolve(["v.com/gpu=0"])
        except CdiError as e:
            assert len(str(e).encode()) <= 1024
        else:
            used += 1
            json.dumps(asdict(edits)).encode()
        file.unlink()
    assert used

"""The commands: exit codes, and output for people and for programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dray.api.release.effective import EMULATED
from dray.cli import kubectl_complete
from dray.cli.cel import words
from dray.cli.commands import dray
from dray.cli.prompt import completion
from dray.explain.model import snapshot
from tests.support.explain import claim, cluster, device, device_class, node, pod, slice_
from tests.support.gallery import puzzles


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """One node, a free device and a taken one; one pod fits, one does not."""
    found = cluster(
        node("n"), slice_("n", device("a"), device("b")), device_class(), claim("c", taken=("n/a",)), claim("one"),
        claim("two", count=2), pod("fits", "one"), pod("waits", "two"),
    )  # fmt: skip
    path = tmp_path / "cluster.json.gz"
    snapshot.save(found.snapshot, path)
    return path


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(dray, [str(one) for one in arguments], input=stdin)


def test_devices_lists_states_in_plain_columns(world: Path) -> None:
    lines = run("devices", "--snapshot", world).output.splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [
        ["n", "gpu.example.com/n/a", "allocated"], ["n", "gpu.example.com/n/b", "free"],
    ]  # fmt: skip
    assert lines[-1] == "2 devices: 1 free, 1 allocated"


def test_devices_by_class_and_state_as_yaml(world: Path) -> None:
    answer = run("devices", "--snapshot", world, "--by", "class", "--state", "free", "-o", "yaml")
    assert yaml.safe_load(answer.output) == {
        "by": "class", "groups": [{"name": "gpu", "total": 1, "free": 1}],
    }  # fmt: skip


def test_explain_tells_by_its_exit_code_whether_all_is_well(world: Path) -> None:
    assert run("explain", "pod", "fits", "--snapshot", world).exit_code == 0
    assert run("explain", "pod/waits", "--snapshot", world).exit_code == 3
    missing = run("explain", "pod", "nobody", "--snapshot", world)
    assert (missing.exit_code, missing.output) == (1, "Error: there is no pod default/nobody\n")
    assert run("explain").exit_code == 2


def test_explain_speaks_json(world: Path) -> None:
    told = json.loads(run("explain", "claim", "two", "--snapshot", world, "-o", "json").output)
    assert told["outcome"] == "pending"
    assert told["requests"][0]["bestNode"] == {"name": "n", "usable": 1, "ifFreed": 2}


def test_explain_takes_manifests_before_they_are_applied() -> None:
    folder = puzzles()[0].folder
    answer = run("explain", "--offline", "-f", folder / "cluster.yaml", "-f", folder / "apply.yaml")
    assert answer.exit_code == 3
    assert "did you mean gpu.example.com/model?" in answer.output


def test_allocate_counts_what_fits_and_explains_the_rest(world: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(
        yaml.safe_dump_all(
            [
                {"apiVersion": "resource.k8s.io/v1", **claim("wish"), "kind": "ResourceClaimTemplate",
                 "metadata": {"name": "wish"}, "spec": {"spec": claim("x")["spec"]}},
                {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {
                    "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
                    "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "wish"}]}}}},
            ]
        )
    )  # fmt: skip
    answer = run("allocate", "--snapshot", world, "-f", manifest, "--count", 3)
    assert answer.exit_code == 3
    assert "g=" not in answer.output
    assert "r=gpu.example.com/n/b" in answer.output
    assert "1 of 3 fit" in answer.output


def test_cel_answers_once_or_at_a_prompt(world: Path) -> None:
    matching = run("cel", "--snapshot", world, 'device.driver == "gpu.example.com"')
    assert (matching.exit_code, matching.output.splitlines()[0]) == (0, "2 of 2 devices match")
    assert run("cel", "--snapshot", world, 'device.driver == "x"').exit_code == 3
    assert run("cel", "--snapshot", world, "device.").exit_code == 1
    prompt = run("cel", "--snapshot", world, stdin="device.\ntrue\n\n").output
    assert "Syntax error" in prompt
    assert "2 of 2 devices match" in prompt


def test_cel_may_be_about_the_devices_of_one_class(world: Path) -> None:
    within = run("cel", "--snapshot", world, "true", "--class", "gpu")
    assert within.output.splitlines()[0] == "2 of 2 devices match"
    unknown = run("cel", "--snapshot", world, "true", "--class", "tpu")
    assert (unknown.exit_code, unknown.stderr) == (1, "Error: there is no device class tpu; there are: gpu\n")


def test_the_prompt_completes_what_the_devices_have() -> None:
    found = cluster(node("n"), slice_("n", device("a", model="x")), device_class())
    known = words(d for pool in found.pools.values() for d in pool.devices)
    begun = 'device.attributes["gpu.example.com"].m'
    assert completion(known, begun, 0) == 'device.attributes["gpu.example.com"].model'
    assert completion(known, begun, 1) is None


def test_ctrl_c_at_the_prompt_gives_up_the_line_only(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter([KeyboardInterrupt, "true", ""])

    def read(prompt: str) -> str:
        line = next(lines)
        if not isinstance(line, str):
            raise line
        return line

    monkeypatch.setattr("builtins.input", read)
    assert "2 of 2 devices match" in run("cel", "--snapshot", world).output


def test_devices_of_a_node_that_is_not_there_are_a_failure(world: Path) -> None:
    done = run("devices", "--snapshot", world, "--node", "nosuch")
    assert (done.exit_code, done.stderr) == (1, "Error: there is no node nosuch\n")


@pytest.mark.parametrize("command", ["up", "server"])
def test_the_help_lists_the_releases_that_can_be_emulated(command: str) -> None:
    words = " ".join(run(command, "--help").output.split())
    assert ", ".join(map(str, EMULATED)) in words


NAMELESS = """apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClass
name: cats
driverName: cats.example.com
---
apiVersion: cats.example.com/v1
kind: ClaimParameters
name: black
–--
apiVersion: v1
kind: Pod
"""


def test_check_names_what_a_copied_page_gets_wrong(tmp_path: Path) -> None:
    (tmp_path / "cats.yaml").write_text(NAMELESS)
    told = run("check", tmp_path / "cats.yaml", "--emulate", "1.27")
    assert told.exit_code == 3 and "not served since" not in told.output
    for line in (
        "cats.yaml:1: error: ResourceClass: metadata.name: Required value",
        'cats.yaml:3: error: ResourceClass: unknown field "name"; name belongs under metadata',
        "cats.yaml:6: error: ClaimParameters: metadata.name: Required value",
        "cats.yaml:9: error: –-- separates no documents, as it has the sign EN DASH for a hyphen: write ---",
    ):
        assert line in told.output
    assert "cats.yaml:9: –-- separates no documents" in run("convert", "-f", tmp_path / "cats.yaml").stderr


@pytest.mark.parametrize(("release", "warned"), [("1.32", False), ("1.36", True), ("", True)])
def test_check_warns_of_versions_as_the_release_does(tmp_path: Path, release: str, warned: bool) -> None:
    manifest = tmp_path / "class.yaml"
    manifest.write_text(
        "apiVersion: resource.k8s.io/v1beta1\nkind: DeviceClass\nmetadata: {name: c}\nspec: {}\n"
    )
    assert ("deprecated-version" in run("check", manifest, "--emulate", release).output) is warned


@pytest.mark.parametrize(
    ("typed", "meant"), [("–-snapshot", "--snapshot"), ("—snapshot", "--snapshot"), ("–f", "-f")]
)
def test_a_dash_from_a_page_is_named(typed: str, meant: str) -> None:
    told = run("explain", typed, "x")
    assert (
        told.exit_code == 2 and f"{typed} begins with a dash that is no hyphen: type {meant}" in told.stderr
    )


def test_converted_files_do_not_overwrite_one_another(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n")
    both = ("-f", tmp_path / "a" / "x.yaml", "-f", tmp_path / "b" / "x.yaml", "-o", tmp_path / "out")
    told = run("convert", *both)
    assert told.exit_code == 1 and "would both be written as x.yaml" in told.stderr
    assert not (tmp_path / "out").exists()
    assert run("convert", "-f", tmp_path, "-o", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "b" / "x.yaml").exists()


def test_check_fails_on_errors_and_with_strict_on_warnings(tmp_path: Path) -> None:
    manifest = tmp_path / "claim.yaml"
    manifest.write_text(
        "apiVersion: resource.k8s.io/v1beta2\nkind: ResourceClaim\nmetadata: {name: c}\n"
        "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}\n"
    )
    assert run("check", manifest).exit_code == 0
    assert run("check", "--strict", manifest).exit_code == 3
    log = json.loads(run("check", "-f", manifest, "-o", "sarif").output)
    assert log["runs"][0]["results"][0]["ruleId"] == "deprecated-version"
    manifest.write_text("kind: [")
    broken = run("check", manifest)
    assert broken.exit_code == 3
    assert f"{manifest}:2: error: not YAML" in broken.output


def test_snapshot_of_a_snapshot_is_the_same_and_can_be_anonymous(world: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    assert run("snapshot", "--snapshot", world, "-f", copy).exit_code == 0
    assert snapshot.load(copy) == snapshot.load(world)
    assert b"waits" not in run("snapshot", "--snapshot", world, "--anonymous").stdout_bytes


@pytest.mark.parametrize("name", ["devices", "explain", "allocate", "cel", "check", "snapshot"])
def test_every_tool_has_examples_in_its_help(name: str) -> None:
    assert "Examples:" in run(name, "--help").output


def test_name_that_is_not_there_is_answered_with_those_that_are(world: Path) -> None:
    assert "did you mean waits?" in run("explain", "pod", "wait", "--snapshot", world).output


def test_allocate_spreads_or_packs_over_nodes(tmp_path: Path) -> None:
    found = cluster(
        *(d for n in ("a", "b") for d in (node(n), slice_(n, device("x"), device("y"), device("z")))), device_class(),
        claim("old", taken=("b/x",)),
    )  # fmt: skip
    path = tmp_path / "cluster.json"
    snapshot.save(found.snapshot, path)
    wish = tmp_path / "claims.yaml"
    documents = [{"apiVersion": "resource.k8s.io/v1", **claim(f"c{i}")} for i in range(2)]
    wish.write_text(yaml.safe_dump_all(documents))
    nodes = {}
    for policy in ("default", "pack", "spread"):
        answer = run("allocate", "--snapshot", path, "-f", wish, "--policy", policy, "-o", "json").output
        nodes[policy] = [one["node"] for one in json.loads(answer)["pods"]]
    assert nodes == {"default": ["a", "a"], "pack": ["b", "b"], "spread": ["a", "a"]}


def test_kubectl_is_told_how_to_complete(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-dra", "devices", "--state", "t"])
    kubectl_complete()
    assert capsys.readouterr().out.splitlines() == ["tainted", ":4"]


MALFORMED = {
    "a pod with words for a spec": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: x",
    "a pod without apiVersion": "kind: Pod\nmetadata: {name: a}\nspec: {containers: []}",
    "a pod of a version to come": "apiVersion: v9\nkind: Pod\nmetadata: {name: a}\nspec: x",
    "claims that are none": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {resourceClaims: x}",
    "requests that are none": "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec: {devices: {requests: [3]}}",
    "a deployment of three": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: 3",
    "a template in a custom resource": "apiVersion: x.io/v1\nkind: Train\nmetadata: {name: a}\nspec: {template: {spec: x}}",
    "its metadata": "apiVersion: x.io/v1\nkind: Train\nmetadata: {name: a}\nspec: {template: {metadata: x, spec: {}}}",
    "metadata that are a list": "apiVersion: x.io/v1\nkind: Train\nmetadata: [a]",
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_manifest_that_is_no_object_of_its_kind_is_refused_in_one_line(
    world: Path, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text(MALFORMED[name])
    for command in (("allocate",), ("explain",)):
        answer = run(*command, "-f", path, "--snapshot", world)
        assert (answer.exit_code, answer.output.count("\n")) == (1, 1), (
            command,
            answer.output,
            answer.exception,
        )
        assert answer.output.startswith("Error: ")
    assert run("check", "-f", path).exit_code in (0, 3)  # it says more


def test_snapshot_may_come_by_standard_input_and_from_kubectl(world: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "resource.k8s.io/v1", **slice_("n", device("a"))},
    ]}  # fmt: skip
    answer = run("devices", "--snapshot", "-", stdin=json.dumps(listed))
    assert answer.output.splitlines()[-1] == "1 device: 1 free"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("cut.json", b'{"apiVersion":"dray.dev/v1","kind":"Snap'),
        ("cut.gz", b"\x1f\x8bxx"),
        ("words.yaml", b"garbage"),
    ],
)
def test_file_that_is_no_snapshot_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    answer = run("devices", "--snapshot", tmp_path / name)
    assert (answer.exit_code, name in answer.output) == (1, True)

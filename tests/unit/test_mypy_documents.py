"""mypy's plugin: a key that a document's type does not have is an error, in whatever way it is asked for."""

from __future__ import annotations

import pytest
from mypy import api

from tests.support.paths import ROOT

SNIPPET = """
from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypedDict

from dray.api.fields import FieldTable, Patch
from dray.api.types.core import Pod, PodStatus
from dray.client.client import Client
from dray.client.resources import LEASES, PODS, RESOURCE_CLAIMS


class Spec(TypedDict, total=False):
    replicas: int


class Claim(TypedDict, total=False):
    name: str
    spec: Spec


class OldClaim(TypedDict, total=False):
    name: str
    source: str


KEY: Final = "nmae"


def wrong(claim: Claim, maybe: Claim | None, claims: Sequence[Claim], either: Claim | OldClaim) -> None:
    claim["nmae"]  # wrong
    claim.get("nmae")  # wrong
    claim.get("nmae", "")  # wrong
    claim.get(KEY)  # wrong
    claim.pop("nmae", None)  # wrong
    claim.setdefault("nmae", "")  # wrong
    "nmae" in claim  # wrong
    "nmae" not in claim  # wrong
    any("nmae" in each for each in claims)  # wrong
    [each.get("nmae") for each in claims]  # wrong
    (claim.get("spec") or {}).get("replcias")  # wrong
    (maybe or {}).get("spce")  # wrong
    if maybe and "spce" in maybe: pass  # wrong
    "sorce" in either  # wrong
    for name in ("name", "spce"):
        claim.get(name)  # wrong
        name in claim  # wrong


async def wrong_writes(client: Client, pod: Pod) -> None:
    await client.create(PODS, "default", {"metadata": {"nmae": "a"}})  # wrong
    await client.update_status(PODS, "default", {**pod, "status": {"phsae": "Failed"}})  # wrong
    await client.apply(LEASES, "default", {"sepc": {}}, field_manager="test")  # wrong
    await client.update(RESOURCE_CLAIMS, "default", pod)  # wrong
    await client.patch(PODS, "default", "a", {"metdata": {}})  # wrong
    await client.patch_status(PODS, "default", "a", {"status": {"phsae": None}})  # wrong
    await client.patch_status(PODS, "default", "a", {"status": {"conditions": [{"typ": "a"}]}})  # wrong
    await client.patch(PODS, "default", "a", {"spec": {"tolerations": [{"ky": k} for k in ("a", "b")]}})  # wrong
    (await client.get(PODS, "default", "a"))["sepc"]  # wrong
    [one["sepc"] for one in (await client.list(PODS)).items]  # wrong


def wrong_patch(pod: Pod) -> Patch[Pod]:
    status: Patch[PodStatus] = Patch({"conditions": [{"typ": "a"}]})  # wrong
    status = Patch({"$setElementOrder/cnditions": [{"type": "a"}]})  # wrong
    status = Patch({"$setElementOrder/conditions": [{"typ": "a"}]})  # wrong
    return Patch({"metdata": {}, "status": status})  # wrong


WRONG_TABLE: FieldTable[Pod] = FieldTable({"mountPaht": "a"})  # wrong


def wrong_context() -> None:
    Patch({"metadata": {}})  # wrong


async def right_writes(client: Client, pod: Pod) -> None:
    made: Pod = await client.create(PODS, "default", {"metadata": {"name": "a"}, "spec": {"containers": []}})
    await client.update_status(PODS, "default", {**pod, "status": {"phase": "Failed"}})
    await client.patch(PODS, "default", "a", {"metadata": {"labels": {"any": None}}, "status": None})
    await client.patch_status(PODS, "default", "a", {"status": {"conditions": [{"type": "a", "$patch": "delete"}]}})
    await client.patch(PODS, "default", "a", [{"op": "add", "path": "/metadata/labels/a", "value": "b"}])


def right_patch(pod: Pod) -> Patch[Pod]:
    status: Patch[PodStatus] = Patch({"conditions": [{"type": "a", "$patch": "delete"}], "phase": None})
    return Patch({"metadata": {"uid": "a"}, "status": status})


RIGHT_TABLE: FieldTable[Pod] = FieldTable({"mountPath": "a", "uid": "b"})


def right(claim: Claim, either: Claim | OldClaim, labels: dict[str, str], key: str) -> None:
    name: str | None = claim.get("name")
    named: str = claim.get("name", "")
    replicas: int | None = (claim.get("spec") or {}).get("replicas")
    replicas = claim.get("spec", {}).get("replicas", 1)
    "name" in claim
    "source" in either
    labels.get("anything")
    "anything" in labels
    claim.get(key)
    for part in ("name", "spec"):
        found: str | Spec | None = claim.get(part)
        part in claim
"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says about the snippet, by line."""
    folder = tmp_path_factory.mktemp("snippet")
    (folder / "mypy.ini").write_text(
        f"[mypy]\nstrict = true\nmypy_path = {ROOT}/src\nplugins = {ROOT}/scripts/mypy_documents.py\n"
        "[mypy-dray.*]\nignore_errors = true\n"
    )
    (folder / "snippet.py").write_text(SNIPPET)
    output, trouble, _ = api.run(
        [f"--config-file={folder}/mypy.ini", f"--cache-dir={folder}/cache", f"{folder}/snippet.py"]
    )
    assert not trouble
    errors = (line.split(":", 2) for line in output.splitlines() if ": error:" in line)
    return {int(number): message for _, number, message in errors}


@pytest.mark.parametrize(
    ("number", "line"),
    [(n, line) for n, line in enumerate(SNIPPET.splitlines(), 1) if line.endswith("# wrong")],
    ids=lambda value: value.removesuffix("# wrong").strip() if isinstance(value, str) else "",
)
def test_a_misspelt_key_is_an_error(reported: dict[int, str], number: int, line: str) -> None:
    assert any(
        words in reported[number] for words in ("has no key", "Extra key", "incompatible type", "of what")
    )


def test_nothing_else_is_an_error(reported: dict[int, str]) -> None:
    wrong = {n for n, line in enumerate(SNIPPET.splitlines(), 1) if line.endswith("# wrong")}
    assert {n: message for n, message in reported.items() if n not in wrong} == {}

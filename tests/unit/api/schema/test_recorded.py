"""Upstream's recorded refusals of documents, and the shapes of what it accepted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import BadRequest
from dray.api.release import V1_30, V1_36, Release
from dray.api.schema import decode, known, normalise, omit_empty, type_of

_REFUSED = re.compile(
    r"^(\w+) in version \"(\w+)\" cannot be handled as a \w+: "
    r"((?:strict decoding error: )?(?:json: |quantities |parsing time |unknown field |duplicate field ).*)$",
    re.DOTALL,
)
_GROUPS = {"rbac.authorization.k8s.io": "rbac"}


def _type_name(document: dict[str, Any]) -> str:
    group, _, version = str(document.get("apiVersion", "")).rpartition("/")
    return f"{_GROUPS.get(group, group.partition('.')[0] or 'core')}/{version}.{document.get('kind')}"


def _steps(directory: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(directory.glob("*.json")):
        yield from json.loads(file.read_text())["recorded"]


def _without_uids(value: Any) -> Any:
    """Recordings leave out what differs from run to run."""
    if isinstance(value, dict):
        return {k: _without_uids(v) for k, v in value.items() if k != "uid" or v}
    return [_without_uids(v) for v in value] if isinstance(value, list) else value


def test_documents_are_refused_in_the_recorded_words(conformance: Path) -> None:
    compared = 0
    for step in _steps(conformance / "api-136"):
        body = step.get("body")
        match = _REFUSED.match(str(body.get("message", ""))) if isinstance(body, dict) else None
        if match is None or "yaml" in step["step"].get("contentType", ""):
            continue
        given = step["step"]
        text = given["bodyText"] if "bodyText" in given else json.dumps(given["body"])
        name = _type_name(json.loads(text))
        if not known(name):
            continue
        compared += 1
        try:
            problems = decode(type_of(name, V1_36), text.encode(), strict=True).problems
            found = f"strict decoding error: {', '.join(problems)}"
        except BadRequest as e:
            found = e.message
        assert found == match[3]
    assert compared >= 10


@pytest.mark.parametrize(("directory", "release"), [("api-136", V1_36), ("api-130", V1_30)])
def test_recorded_objects_have_the_shape_we_give_them(
    conformance: Path, directory: str, release: Release
) -> None:
    compared = 0
    for step in _steps(conformance / directory):
        body = step.get("body")
        if (
            not isinstance(body, dict)
            or "kind" not in body
            or "metadata" not in body
            or not known(_type_name(body))
        ):
            continue
        if body["kind"] == "Status" or body["kind"].endswith("List"):
            continue
        text = json.dumps(body).replace('"<time>"', '"2024-01-01T00:00:00Z"')
        document = json.loads(text)
        if "<" in text:  # other masks are no values of their types
            continue
        type_ = type_of(_type_name(document), release)
        shaped = normalise(type_, document)
        omit_empty(type_, shaped)
        assert _without_uids(shaped) == document
        compared += 1
    assert compared >= 10

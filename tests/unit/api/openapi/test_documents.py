"""OpenAPI documents: what clients look for in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dray.api.openapi import OpenAPI, descriptions, protobuf
from dray.api.release import Release
from dray.api.scheme.kinds import Kind, Scale, Version
from dray.api.scheme.strategy import Strategy, UpdateStrategy

POD = Kind(
    group="",
    kind="Pod",
    plural="pods",
    versions=(Version(name="v1", type="core/v1.Pod"),),
    storage="v1",
    subresources={"status": UpdateStrategy()},
    actions={"binding": ("create",), "log": ("get",)},
)
DEPLOYMENT = Kind(
    group="apps",
    kind="Deployment",
    plural="deployments",
    versions=(Version(name="v1", type="apps/v1.Deployment"),),
    storage="v1",
    scale=Scale(),
)
CLAIM = Kind(
    group="resource.k8s.io",
    kind="ResourceClaim",
    plural="resourceclaims",
    versions=(
        Version(name="v1", type="resource/v1.ResourceClaim"),
        Version(name="v1beta1", type="resource/v1beta1.ResourceClaim"),
    ),
    storage="v1",
    strategy=Strategy(),
)
WIDGET = Kind(
    group="example.com",
    kind="Widget",
    plural="widgets",
    versions=(Version(name="v1", type=""),),
    storage="v1",
    namespaced=False,
    custom=True,
)
WIDGET_SCHEMA = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
}


@pytest.fixture(scope="module")
def openapi() -> OpenAPI:
    served = [(k, [v.name for v in k.versions]) for k in (POD, DEPLOYMENT, CLAIM, WIDGET)]
    return OpenAPI(served=served, server_version="v1.36.4", custom=lambda kind, version: WIDGET_SCHEMA)


def v3(openapi: OpenAPI, at: str) -> dict[str, Any]:
    document = openapi.v3(at)
    assert document is not None
    found: dict[str, Any] = json.loads(document.data)
    return found


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    if isinstance(value, list):
        return set().union(*map(references, value))
    return set()


def test_the_index_lists_every_group_and_version_with_a_hash(openapi: OpenAPI) -> None:
    found = json.loads(openapi.index().data)["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/resource.k8s.io", "apis/resource.k8s.io/v1beta1"} <= set(found)
    url = found["apis/apps/v1"]["serverRelativeURL"]
    document = openapi.v3("apis/apps/v1")
    assert document is not None
    assert url == f"/openapi/v3/apis/apps/v1?hash={document.hash}"


def test_a_version_that_is_not_served_has_no_document(openapi: OpenAPI) -> None:
    assert openapi.v3("apis/resource.k8s.io/v9") is None


def test_hashes_follow_what_is_served(openapi: OpenAPI) -> None:
    other = OpenAPI(served=[(POD, ["v1"])], server_version="v1.36.4")
    assert other.v3("api/v1") == openapi.v3("api/v1")
    newer = OpenAPI(served=[(POD, ["v1"])], server_version="v1.37.0")
    assert newer.index().hash != other.index().hash


@pytest.mark.parametrize(
    "at", ["api", "api/v1", "apis/apps", "apis/apps/v1", "apis/example.com/v1", "version"]
)
def test_every_reference_leads_somewhere(openapi: OpenAPI, at: str) -> None:
    document = v3(openapi, at)
    schemas = document["components"]["schemas"]
    assert {r.removeprefix("#/components/schemas/") for r in references(document)} <= set(schemas)
    v2 = json.loads(openapi.v2().data)
    assert {r.removeprefix("#/definitions/") for r in references(v2)} <= set(v2["definitions"])


def test_kinds_are_found_by_their_path_and_their_schema_by_the_kind(openapi: OpenAPI) -> None:
    document = v3(openapi, "apis/resource.k8s.io/v1")
    kind = {"group": "resource.k8s.io", "kind": "ResourceClaim", "version": "v1"}
    path = document["paths"]["/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"]
    assert path["post"]["x-kubernetes-group-version-kind"] == kind
    schema = document["components"]["schemas"]["io.k8s.api.resource.v1.ResourceClaim"]
    assert schema["x-kubernetes-group-version-kind"] == [kind]


def test_clients_learn_from_a_patch_what_the_server_understands(openapi: OpenAPI) -> None:
    path = v3(openapi, "api/v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]
    assert {"dryRun", "fieldValidation", "fieldManager", "force"} <= {
        p["name"] for p in path["patch"]["parameters"]
    }
    assert "application/strategic-merge-patch+json" in path["patch"]["requestBody"]["content"]
    custom = v3(openapi, "apis/example.com/v1")["paths"]["/apis/example.com/v1/widgets/{name}"]
    assert "application/strategic-merge-patch+json" not in custom["patch"]["requestBody"]["content"]


def test_lists_say_how_they_are_merged(openapi: OpenAPI) -> None:
    schemas = v3(openapi, "api/v1")["components"]["schemas"]
    ports = schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"
    assert ports["x-kubernetes-patch-strategy"] == "merge"
    assert schemas["io.k8s.api.core.v1.PodSpec"]["required"] == ["containers"]


def test_subresources_and_actions_have_paths(openapi: OpenAPI) -> None:
    pods = v3(openapi, "api/v1")["paths"]
    item = "/api/v1/namespaces/{namespace}/pods/{name}"
    assert set(pods[f"{item}/status"]) == {"get", "put", "patch", "parameters"}
    assert pods[f"{item}/binding"]["post"]["x-kubernetes-group-version-kind"]["kind"] == "Binding"
    assert pods[f"{item}/log"]["get"]["x-kubernetes-action"] == "connect"
    scale = v3(openapi, "apis/apps/v1")["paths"][
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
    ]
    assert scale["get"]["x-kubernetes-group-version-kind"]["kind"] == "Scale"


def test_custom_resources_show_their_own_schema(openapi: OpenAPI) -> None:
    schemas = v3(openapi, "apis/example.com/v1")["components"]["schemas"]
    assert set(schemas["com.example.v1.Widget"]["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert schemas["com.example.v1.WidgetList"]["required"] == ["items"]


def test_a_release_shows_only_the_fields_it_knows() -> None:
    def properties(release: Release) -> set[str]:
        document = OpenAPI(served=[(POD, ["v1"])], release=release).v3("api/v1")
        assert document is not None
        schemas = json.loads(document.data)["components"]["schemas"]
        return set(schemas["io.k8s.api.core.v1.PodResourceClaim"]["properties"])

    assert properties(Release(1, 30)) == {"name", "source"}
    assert properties(Release(1, 36)) == {"name", "resourceClaimName", "resourceClaimTemplateName"}


def test_our_own_kinds_are_described_in_our_own_words() -> None:
    assert descriptions.of("resource/v1.ResourceClaim")[""]
    assert (
        descriptions.of("resource/v1beta1.ResourceClaim")["spec"]
        == descriptions.of("resource/v1.ResourceClaim")["spec"]
    )


def test_protobuf_holds_what_the_json_holds(openapi: OpenAPI) -> None:
    document = json.loads(openapi.v2().data)
    data = openapi.v2_protobuf().data
    assert data[:5] == b"\x0a\x032.0"
    fields = _fields(data)
    paths, definitions = _fields(fields[8][0]), _fields(fields[9][0])
    assert [_fields(p)[1][0].decode() for p in paths[2]] == list(document["paths"])
    assert [_fields(d)[1][0].decode() for d in definitions[1]] == list(document["definitions"])
    assert protobuf.MEDIA_TYPE.endswith("+protobuf")


def _fields(data: bytes) -> dict[int, list[bytes]]:
    """The length-delimited fields of a protobuf message."""
    found: dict[int, list[bytes]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        assert tag & 7 == 2
        size = varint()
        found.setdefault(tag >> 3, []).append(data[at : at + size])
        at += size
    return found

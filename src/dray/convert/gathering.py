"""What a live cluster holds of the old generations, as it would stand in manifests."""

from __future__ import annotations

from typing import Any, Final

from dray.api.errors import NotFound, StatusError
from dray.api.kinds import Object
from dray.client import resources
from dray.client.client import Client
from dray.client.discovery import Discovery

#: Where each kind is looked for, oldest version first: the oldest one served shows all that is stored as such.
_CLASSIC: Final = (
    resources.CLASSIC_RESOURCE_CLASSES,
    resources.RESOURCE_CLASS_PARAMETERS,
    resources.RESOURCE_CLAIM_PARAMETERS,
    resources.CLASSIC_RESOURCE_CLAIM_TEMPLATES,
    resources.CLASSIC_RESOURCE_CLAIMS,
)
_MODERN: Final = (
    resources.DEVICE_CLASSES,
    resources.RESOURCE_CLAIM_TEMPLATES,
    resources.RESOURCE_CLAIMS,
)
_BETAS: Final = ("v1beta1", "v1beta2", "v1alpha3")
#: What the server or a driver wrote, and nobody would write into a manifest.
_SERVED: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


async def gather(client: Client) -> list[Object]:
    """Classes, templates, claims that no pod owns, and their parameters."""
    found: list[Object] = []
    for resource in _CLASSIC:
        found += await _list(client, resource) or ()
    if not found:
        for resource in _MODERN:
            for version in _BETAS:
                items = await _list(client, resource.at(version))
                if items is not None:
                    found += items
                    break
    references = [reference for document in found for reference in _references(document)]
    return [*(await _parameters(client, references)), *found]


async def _list(client: Client, resource: resources.Resource) -> list[Object] | None:
    try:
        listed = await client.list(resource)
    except NotFound:
        return None  # not served
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [_as_manifest({**typed, **item}) for item in listed.items if not _made_for_pod(item)]


def _made_for_pod(document: Object) -> bool:
    return any(owner.get("kind") == "Pod" for owner in document["metadata"].get("ownerReferences") or ())


def _as_manifest(document: Object) -> Object:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _SERVED}
    return {
        key: metadata if key == "metadata" else value for key, value in document.items() if key != "status"
    }


def _references(document: Object) -> list[tuple[str, str, str, str]]:
    spec: Any = document.get("spec") or document
    if document["kind"] == "ResourceClaimTemplate":
        spec = spec.get("spec") or {}
    reference = spec.get("parametersRef")
    if not reference:
        return []
    namespace = reference.get("namespace") or document["metadata"].get("namespace") or ""
    return [(reference.get("apiGroup") or "", reference["kind"], namespace, reference["name"])]


async def _parameters(client: Client, references: list[tuple[str, str, str, str]]) -> list[Object]:
    """The objects of drivers' own kinds that classes and claims refer to."""
    wanted = [r for r in dict.fromkeys(references) if r[0] != "resource.k8s.io"]
    if not wanted:
        return []
    discovery = Discovery(client)
    found = []
    for group, kind, namespace, name in wanted:
        try:
            resource = await discovery.find(await _preferred(client, group), kind)
            if resource is None:
                continue
            document = await client.get(resource, namespace, name)
        except StatusError:
            continue  # the conversion notes what it could not find
        found.append(_as_manifest({"apiVersion": resource.api_version, "kind": kind, **document}))
    return found


async def _preferred(client: Client, group: str) -> str:
    if not group:
        return "v1"
    served = (await client.request("GET", f"/apis/{group}")).object
    return str(served["preferredVersion"]["groupVersion"])

"""What a live cluster holds of the old generations, as it would stand in manifests."""

from __future__ import annotations

from typing import Any, Final

from dray.api.errors import NotFound, StatusError
from dray.api.scheme.kinds import Object
from dray.client import resources
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.convert.pods import pod_specs

_CLASSIC_VERSIONS: Final = ("v1alpha2", "v1alpha1")
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
#: Whatever has pods that may use claims.
_WORKLOADS: Final = (
    resources.DEPLOYMENTS,
    resources.STATEFULSETS,
    resources.DAEMONSETS,
    resources.REPLICASETS,
    resources.JOBS,
    resources.CRONJOBS,
    resources.PODS,
)
#: What the server, a controller or a driver wrote, and nobody would write into a manifest.
_SERVED: Final = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "finalizers",
    "ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName",
)  # fmt: skip
_NOTED: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
)
#: The volume with which every pod gets its service account's token.
_TOKEN_VOLUME: Final = "kube-api-access-"


async def collect_manifests(client: Client) -> list[Object]:
    """Classes, templates, claims and their parameters, and the workloads whose pods use claims.

    Left out is what a controller has made, as it will make it anew.
    """
    found = await _newest(client, _CLASSIC, _CLASSIC_VERSIONS) or await _newest(client, _MODERN, _BETAS)
    references = [reference for document in found for reference in _references(document)]
    return [*(await _parameters(client, references)), *found, *(await _workloads(client))]


async def _newest(
    client: Client, kinds: tuple[resources.Resource[Any], ...], versions: tuple[str, ...]
) -> list[Object]:
    """All objects of these kinds, each in the first of the versions that the server has."""
    found: list[Object] = []
    for resource in kinds:
        for version in versions:
            items = await _list(client, resource.at(version))
            if items is not None:
                found += items
                break
    return found


async def _workloads(client: Client) -> list[Object]:
    found: list[Object] = []
    for resource in _WORKLOADS:
        found += [item for item in await _list(client, resource) or () if _uses_claims(item)]
    return found


def _uses_claims(document: Object) -> bool:
    return any(spec.get("resourceClaims") for spec in pod_specs(document))


async def _list(client: Client, resource: resources.Resource[Any]) -> list[Object] | None:
    try:
        listed = await client.list(resource)
    except NotFound:
        return None  # not served
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [_as_manifest({**typed, **item}) for item in listed.items if not _is_made(item)]


def _is_made(document: Object) -> bool:
    return any(owner.get("controller") for owner in document["metadata"].get("ownerReferences") or ())


def _as_manifest(document: Object) -> Object:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _SERVED}
    annotations = {k: v for k, v in (metadata.pop("annotations", None) or {}).items() if k not in _NOTED}
    if annotations:
        metadata["annotations"] = annotations
    manifest = {
        key: metadata if key == "metadata" else value for key, value in document.items() if key != "status"
    }
    if document["kind"] == "Pod":
        manifest["spec"] = _unplaced(document["spec"])
    return manifest


def _unplaced(spec: Object) -> Object:
    """A pod as it was before it was admitted and got its node."""
    before = {key: value for key, value in spec.items() if key not in ("nodeName", "volumes")}
    volumes = [v for v in spec.get("volumes") or () if not v["name"].startswith(_TOKEN_VOLUME)]
    if volumes:
        before["volumes"] = volumes
    for group in ("initContainers", "containers"):
        if group in spec:
            before[group] = [_without_token(container) for container in spec[group]]
    return before


def _without_token(container: Object) -> Object:
    kept = {key: value for key, value in container.items() if key != "volumeMounts"}
    mounts = [m for m in container.get("volumeMounts") or () if not m["name"].startswith(_TOKEN_VOLUME)]
    return {**kept, "volumeMounts": mounts} if mounts else kept


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

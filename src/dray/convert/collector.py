"""The objects of old versions in a live cluster, as their authors would write them in manifests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from dray.api.errors import NotFound, StatusError
from dray.api.objects import controller_of
from dray.api.pods import TOKEN_VOLUME
from dray.client import resources
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.convert.parameters import Reference
from dray.convert.pods import pod_specs

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Container, Pod, PodSpec
    from dray.api.types.meta import APIGroup, ObjectMeta
    from dray.api.types.resource_v1alpha2 import (
        ResourceClaim,
        ResourceClaimSpec,
        ResourceClaimTemplate,
        ResourceClass,
    )

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


async def collect_manifests(client: Client) -> list[Object]:
    """Classes, templates, claims and their parameters, and the workloads whose pods use claims.

    Objects that belong to a controller are left out, as it will create them anew.
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
    return any(cast("PodSpec", spec).get("resourceClaims") for spec in pod_specs(document))


async def _list(client: Client, resource: resources.Resource[Any]) -> list[Object] | None:
    try:
        listed = await client.list(resource)
    except NotFound:
        return None  # not served
    typed: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [_as_manifest({**typed, **item}) for item in listed.items if controller_of(item) is None]


def _as_manifest(document: Object) -> Object:
    # Or any other kind: only of a pod the spec is looked at.
    manifest = cast("Pod", {key: value for key, value in document.items() if key != "status"})
    manifest["metadata"] = _written_metadata(manifest["metadata"])
    if manifest["kind"] == "Pod":
        manifest["spec"] = _unscheduled(manifest["spec"])
    return manifest


def _written_metadata(metadata: ObjectMeta) -> ObjectMeta:
    kept = cast("ObjectMeta", {key: value for key, value in metadata.items() if key not in _SERVED})
    annotations = {k: v for k, v in (kept.pop("annotations", None) or {}).items() if k not in _NOTED}
    if annotations:
        kept["annotations"] = annotations
    return kept


def _unscheduled(spec: PodSpec) -> PodSpec:
    """A pod as it was before it was admitted and got its node."""
    before = spec.copy()
    before.pop("nodeName", None)
    volumes = before.pop("volumes", None) or ()
    if volumes := [volume for volume in volumes if not volume["name"].startswith(TOKEN_VOLUME)]:
        before["volumes"] = volumes
    if "initContainers" in spec:
        before["initContainers"] = [_without_token(container) for container in spec["initContainers"]]
    if "containers" in spec:
        before["containers"] = [_without_token(container) for container in spec["containers"]]
    return before


def _without_token(container: Container) -> Container:
    kept = container.copy()
    mounts = kept.pop("volumeMounts", None) or ()
    if mounts := [mount for mount in mounts if not mount["name"].startswith(TOKEN_VOLUME)]:
        kept["volumeMounts"] = mounts
    return kept


def _references(document: Any) -> Iterator[Reference]:
    obj: ResourceClass | ResourceClaim | ResourceClaimTemplate = document
    spec: ResourceClass | ResourceClaimSpec = document
    claim: ResourceClaim = document
    if obj["kind"] == "ResourceClaimTemplate":
        template: ResourceClaimTemplate = document
        spec = (template.get("spec") or {}).get("spec") or {}
    elif claim.get("spec"):
        spec = claim["spec"]
    if reference := spec.get("parametersRef"):
        yield Reference.of(reference, obj["metadata"].get("namespace") or "")


async def _parameters(client: Client, references: list[Reference]) -> list[Object]:
    """The objects of drivers' own kinds that classes and claims refer to."""
    wanted = [r for r in dict.fromkeys(references) if r.group != "resource.k8s.io"]
    if not wanted:
        return []
    discovery = Discovery(client)
    found = []
    for group, kind, namespace, name in wanted:
        try:
            resource = await discovery.find(await _preferred(client, group), kind)
            if resource is None:
                continue
            document: Object = await client.get(resource, namespace, name)
        except StatusError:
            continue  # the conversion notes what it could not find
        found.append(_as_manifest({"apiVersion": resource.api_version, "kind": kind, **document}))
    return found


async def _preferred(client: Client, group: str) -> str:
    if not group:
        return "v1"
    served: APIGroup = (await client.request("GET", f"/apis/{group}")).object
    return str(served["preferredVersion"]["groupVersion"])

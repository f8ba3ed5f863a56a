"""The objects that a pod names, which the pod's node may therefore read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from dray.api import claims
from dray.api.pods import MIRROR_ANNOTATION, all_containers

if TYPE_CHECKING:
    from dray.api.types.core import (
        ConfigMapEnvSource,
        ConfigMapKeySelector,
        ConfigMapProjection,
        ConfigMapVolumeSource,
        Container,
        EphemeralContainer,
        LocalObjectReference,
        Pod,
        PodSpec,
        SecretEnvSource,
        SecretKeySelector,
        SecretProjection,
        Volume,
    )

    _Reference = (
        ConfigMapEnvSource
        | ConfigMapKeySelector
        | ConfigMapProjection
        | ConfigMapVolumeSource
        | LocalObjectReference
        | SecretEnvSource
        | SecretKeySelector
        | SecretProjection
    )


class Reference(NamedTuple):
    resource: str
    namespace: str
    name: str


_WITH_SECRET_REF: Final[
    tuple[Literal["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"], ...]
] = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")


def references(pod: Pod, *, fixed_names: bool = False) -> frozenset[Reference]:
    """The objects that the node of a pod may read for the pod. With ``fixed_names``, claims from templates are named
    as old releases named them."""
    meta = pod["metadata"]
    if MIRROR_ANNOTATION in (meta.get("annotations") or {}):
        return frozenset()  # whoever can make such a pod is the node itself
    namespace = meta["namespace"]
    return frozenset(
        Reference(resource, namespace, name)
        for resource, name in (*_of_spec(pod["spec"], meta["name"]), *_claims(pod, fixed_names))
        if name
    )


def _of_spec(spec: PodSpec, pod: str) -> Iterator[tuple[str, str]]:
    yield "serviceaccounts", spec.get("serviceAccountName") or ""
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", secret.get("name") or ""
    for container in all_containers(spec):
        yield from _of_container(container)
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume, pod)


def _of_container(container: Container | EphemeralContainer) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom") or ():
        yield "secrets", _name(source.get("secretRef"))
        yield "configmaps", _name(source.get("configMapRef"))
    for variable in container.get("env") or ():
        value = variable.get("valueFrom") or {}
        yield "secrets", _name(value.get("secretKeyRef"))
        yield "configmaps", _name(value.get("configMapKeyRef"))


def _of_volume(volume: Volume, pod: str) -> Iterator[tuple[str, str]]:
    yield "secrets", (volume.get("secret") or {}).get("secretName") or ""
    yield "secrets", (volume.get("azureFile") or {}).get("secretName") or ""
    yield "secrets", _name((volume.get("csi") or {}).get("nodePublishSecretRef"))
    for kind in _WITH_SECRET_REF:
        yield "secrets", _name((volume.get(kind) or {}).get("secretRef"))
    yield "configmaps", _name(volume.get("configMap"))
    for projection in (volume.get("projected") or {}).get("sources") or ():
        yield "secrets", _name(projection.get("secret"))
        yield "configmaps", _name(projection.get("configMap"))
    if claim := volume.get("persistentVolumeClaim"):
        yield "persistentvolumeclaims", claim.get("claimName") or ""
    elif volume.get("ephemeral") is not None:
        yield "persistentvolumeclaims", f"{pod}-{volume['name']}"


def _claims(pod: Pod, fixed_names: bool) -> Iterator[tuple[str, str]]:
    for reference in claims.references(pod, fixed_names=fixed_names):
        yield "resourceclaims", reference.claim or ""
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    yield "resourceclaims", extended.get("resourceClaimName") or ""


def _name(reference: _Reference | None) -> str:
    return "" if reference is None else reference.get("name") or ""

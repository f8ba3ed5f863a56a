"""What a pod on a node gives that node access to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from dray.api import claims
from dray.api.pods import MIRROR_ANNOTATION


class Reference(NamedTuple):
    resource: str
    namespace: str
    name: str


#: Volume sources that name a secret, and where.
_SECRET_REFS: Final = (
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("csi", "nodePublishSecretRef"),
    ("flexVolume", "secretRef"),
    ("iscsi", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("storageos", "secretRef"),
)


def references(pod: Mapping[str, Any], *, fixed_names: bool = False) -> frozenset[Reference]:
    """Everything that the node of a pod may see for its sake. With ``fixed_names``, claims made from templates are
    called as old releases called them."""
    meta = pod["metadata"]
    if MIRROR_ANNOTATION in (meta.get("annotations") or {}):
        return frozenset()  # whoever can make such a pod is the node itself
    namespace = meta["namespace"]
    return frozenset(
        Reference(resource, namespace, name)
        for resource, name in (*_of_spec(pod["spec"], meta["name"]), *_claims(pod, fixed_names))
        if name
    )


def _of_spec(spec: Mapping[str, Any], pod: str) -> Iterator[tuple[str, str]]:
    yield "serviceaccounts", spec.get("serviceAccountName") or ""
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", secret.get("name") or ""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(key) or ():
            yield from _of_container(container)
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume, pod)


def _of_container(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom") or ():
        yield "secrets", _name(source.get("secretRef"))
        yield "configmaps", _name(source.get("configMapRef"))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield "secrets", _name(source.get("secretKeyRef"))
        yield "configmaps", _name(source.get("configMapKeyRef"))


def _of_volume(volume: Mapping[str, Any], pod: str) -> Iterator[tuple[str, str]]:
    yield "secrets", (volume.get("secret") or {}).get("secretName") or ""
    yield "secrets", (volume.get("azureFile") or {}).get("secretName") or ""
    for source, key in _SECRET_REFS:
        if source in volume:
            yield "secrets", _name((volume[source] or {}).get(key))
    yield "configmaps", _name(volume.get("configMap"))
    for projection in (volume.get("projected") or {}).get("sources") or ():
        yield "secrets", _name(projection.get("secret"))
        yield "configmaps", _name(projection.get("configMap"))
    if claim := volume.get("persistentVolumeClaim"):
        yield "persistentvolumeclaims", claim.get("claimName") or ""
    elif volume.get("ephemeral") is not None:
        yield "persistentvolumeclaims", f"{pod}-{volume['name']}"


def _claims(pod: Mapping[str, Any], fixed_names: bool) -> Iterator[tuple[str, str]]:
    for reference in claims.references(pod, fixed_names=fixed_names):
        yield "resourceclaims", reference.claim or ""
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    yield "resourceclaims", extended.get("resourceClaimName") or ""


def _name(reference: Mapping[str, Any] | None) -> str:
    return (reference or {}).get("name") or ""

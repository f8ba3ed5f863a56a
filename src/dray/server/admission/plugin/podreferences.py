"""The secrets, config maps and other API objects that a pod's spec names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal

from dray.api.pods import all_containers

if TYPE_CHECKING:
    from dray.api.types.core import PodSpec, Volume


#: Volume sources whose secret is given by a reference.
_WITH_SECRET_REF: Final[
    tuple[Literal["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"], ...]
] = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
#: Volume sources that need nothing from the API.
_LOCAL: Final = frozenset(
    (
        *(
            "awsElasticBlockStore",
            "azureDisk",
            "cephfs",
            "cinder",
            "downwardAPI",
            "emptyDir",
            "fc",
            "flexVolume",
        ),
        *(
            "flocker",
            "gcePersistentDisk",
            "gitRepo",
            "hostPath",
            "image",
            "iscsi",
            "nfs",
            "photonPersistentDisk",
        ),
        *("portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
    )
)
_VOLUMES: Final[Mapping[str, str]] = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED: Final[Mapping[str, str]] = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def _from_environment(
    spec: PodSpec,
    whole: Literal["secretRef", "configMapRef"],
    key: Literal["secretKeyRef", "configMapKeyRef"],
) -> Iterator[str]:
    for container in all_containers(spec):
        for source in container.get("envFrom") or ():
            yield (source.get(whole) or {}).get("name", "")
        for variable in container.get("env") or ():
            yield ((variable.get("valueFrom") or {}).get(key) or {}).get("name", "")


def _projections(spec: PodSpec, kind: Literal["secret", "configMap"]) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield (source.get(kind) or {}).get("name", "")


def secret_names(spec: PodSpec) -> Iterator[str]:
    """The names of all secrets that a pod refers to itself."""
    yield from filter(None, _secret_names(spec))


def _secret_names(spec: PodSpec) -> Iterator[str]:
    for reference in spec.get("imagePullSecrets") or ():
        yield reference.get("name", "")
    yield from _from_environment(spec, "secretRef", "secretKeyRef")
    yield from _projections(spec, "secret")
    for volume in spec.get("volumes") or ():
        yield (volume.get("secret") or {}).get("secretName", "")
        yield (volume.get("azureFile") or {}).get("secretName", "")
        yield ((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name", "")
        for kind in _WITH_SECRET_REF:
            yield ((volume.get(kind) or {}).get("secretRef") or {}).get("name", "")


def config_map_names(spec: PodSpec) -> Iterator[str]:
    """The names of all config maps that a pod refers to itself."""
    yield from filter(None, _config_map_names(spec))


def _config_map_names(spec: PodSpec) -> Iterator[str]:
    yield from _from_environment(spec, "configMapRef", "configMapKeyRef")
    yield from _projections(spec, "configMap")
    for volume in spec.get("volumes") or ():
        yield (volume.get("configMap") or {}).get("name", "")


class UnknownSource(ValueError):
    """A volume of a sort that nothing is known about."""


def referred_resource(spec: PodSpec) -> str:
    """The first resource of the API that a pod depends on; empty if it depends on none."""
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if any(secret_names(spec)):
        return "secrets"
    if any(config_map_names(spec)):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        if found := _of_volume(volume):
            return found
    return ""


def _of_volume(volume: Volume) -> str:
    kind = next((key for key, value in volume.items() if key != "name" and value is not None), "")
    if kind in _LOCAL:
        return ""
    if kind in _VOLUMES:
        return _VOLUMES[kind]
    if kind != "projected":
        raise UnknownSource(f'unknown volume type for volume  "{volume.get("name", "")}"')
    for source in volume["projected"].get("sources") or ():
        part = next((key for key, value in source.items() if value is not None), "")
        if part in _PROJECTED:
            return _PROJECTED[part]
        if part != "downwardAPI":
            raise UnknownSource(f'unknown source for projected volume "{volume.get("name", "")}"')
    return ""

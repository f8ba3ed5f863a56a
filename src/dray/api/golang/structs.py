"""Objects the way upstream prints them inside messages: by the names of its internal Go structs, nothing left out.

Clients see this form when a change is refused. It follows from the type of the wire format: fields in Go's case, unset
ones as null or zero. Where the internal struct differs from the wire's, a table here says how.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dray.api import schema
from dray.api.release import Release
from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type

_NAMES: Final[Mapping[str, str]] = {
    "apiVersion": "APIVersion", "apiGroup": "APIGroup", "cel": "CEL", "ips": "IPs", "uid": "UID", "gid": "GID", "ip": "IP", "os": "OS", "tty": "TTY",
    "dnsPolicy": "DNSPolicy", "dnsConfig": "DNSConfig", "httpGet": "HTTPGet", "httpHeaders": "HTTPHeaders",
    "tcpSocket": "TCPSocket", "grpc": "GRPC", "seLinuxOptions": "SELinuxOptions", "fsType": "FSType", "nfs": "NFS",
    "seLinuxChangePolicy": "SELinuxChangePolicy", "fsGroup": "FSGroup", "fsGroupChangePolicy": "FSGroupChangePolicy",
    "iscsi": "ISCSI", "rbd": "RBD", "cephfs": "CephFS", "fc": "FC", "csi": "CSI", "storageos": "StorageOS",
    "gcePersistentDisk": "GCEPersistentDisk", "awsElasticBlockStore": "AWSElasticBlockStore", "pdName": "PDName",
    "iqn": "IQN", "wwids": "WWIDs", "gmsaCredentialSpec": "GMSACredentialSpec", "qosClass": "QOSClass",
    "gmsaCredentialSpecName": "GMSACredentialSpecName", "podCIDRs": "PodCIDRs", "reportingComponent": "ReportingController",
}  # fmt: skip
#: Names of fields of single structs.
_NAMES_IN: Final[Mapping[tuple[str, str], str]] = {
    ("resource/v1.DeviceAttribute", name): name.title().removesuffix("s")
    + ("Values" if name[-1] == "s" else "Value")
    for name in ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
}
#: Structs whose internal counterpart has its fields in another order, or fewer of them.
_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "core/v1.PodSpec": (
        "volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy",
        "terminationGracePeriodSeconds", "activeDeadlineSeconds", "dnsPolicy", "nodeSelector", "serviceAccountName",
        "automountServiceAccountToken", "nodeName", "securityContext", "imagePullSecrets", "hostname", "subdomain",
        "setHostnameAsFQDN", "affinity", "schedulerName", "tolerations", "hostAliases", "priorityClassName",
        "priority", "preemptionPolicy", "dnsConfig", "readinessGates", "runtimeClassName", "overhead",
        "enableServiceLinks", "topologySpreadConstraints", "os", "schedulingGates", "resourceClaims", "resources",
        "hostnameOverride", "schedulingGroup",
    ),
    "core/v1.PodSecurityContext": (
        "hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers", "seLinuxOptions",
        "windowsOptions", "runAsUser", "runAsGroup", "runAsNonRoot", "supplementalGroups",
        "supplementalGroupsPolicy", "fsGroup", "fsGroupChangePolicy", "sysctls", "seccompProfile",
        "appArmorProfile", "seLinuxChangePolicy",
    ),
    "core/v1.Volume": (
        "name", "hostPath", "emptyDir", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "secret", "nfs",
        "iscsi", "glusterfs", "persistentVolumeClaim", "rbd", "quobyte", "flexVolume", "cinder", "cephfs", "flocker",
        "downwardAPI", "fc", "azureFile", "configMap", "vsphereVolume", "azureDisk", "photonPersistentDisk",
        "projected", "portworxVolume", "scaleIO", "storageos", "csi", "ephemeral", "image",
    ),
}  # fmt: skip
#: What the internal struct keeps in the pod's security context and the wire beside it.
_IN_SECURITY_CONTEXT: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_PLAIN_BOOLS: Final = frozenset({"hostNetwork", "hostPID", "hostIPC"})
_ZEROS: Final[Mapping[str, Any]] = {
    "string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0, "quantity": "0", "intorstring": 0,
    "duration": "0s",
}  # fmt: skip


def render(type_name: str, value: Mapping[str, Any] | None, release: Release | None = None) -> Any:
    """An object of a type, as upstream's internal struct would be printed, with the fields that a release has."""
    if value is None:
        return None
    return _struct(schema.type_of(type_name, release), value)


def diff(
    type_name: str, old: Mapping[str, Any], new: Mapping[str, Any], release: Release | None = None
) -> str:
    """What changed between two objects, line by line with three lines around each change."""
    before, after = (_lines(render(type_name, value, release)) for value in (old, new))
    lines = difflib.unified_diff(before, after, n=3)
    return "".join(line for line in lines if not line.startswith(("--- ", "+++ ")))


def _lines(value: Any) -> list[str]:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    for char, escape in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(char, escape)
    return [line + "\n" for line in text.split("\n")]


def _struct(type_: Struct, value: Mapping[str, Any]) -> dict[str, Any]:
    if type_.name.startswith("meta/"):
        # These have no internal counterpart: they are printed as on the wire.
        return {f.name: _any(f.type, value[f.name]) for f in type_.fields if value.get(f.name) is not None}
    if type_.name == "core/v1.PodTemplateSpec":
        about = render("meta/v1.ObjectMeta", value.get("metadata") or {})
        return {**about, "Spec": _any(type_.by_name["spec"].type, value.get("spec"))}
    if type_.name == "core/v1.PodSpec" and value.get("securityContext") is not None:
        moved = {part: value[part] for part in _IN_SECURITY_CONTEXT if part in value}
        value = {**value, "securityContext": {**value["securityContext"], **moved}}
    shown: dict[str, Any] = {}
    for name in _names(type_):
        known = type_.by_name.get(name)
        if known is not None:
            shown[_go(name, type_.name)] = _field(known, value.get(name))
        elif name in _IN_SECURITY_CONTEXT:
            shown[_go(name)] = value.get(name, False if name in _PLAIN_BOOLS else None)
    return shown


def _names(type_: Struct) -> Iterable[str]:
    return _ORDER.get(type_.name) or (f.name for f in type_.fields)


def _go(name: str, type_name: str = "") -> str:
    return _NAMES_IN.get((type_name, name)) or _NAMES.get(name) or name[:1].upper() + name[1:]


def _field(known: Field, value: Any) -> Any:
    if value is None and (known.pointer or isinstance(known.type, ListOf | MapOf)):
        return None
    return _any(known.type, value)


def _any(type_: Type, value: Any) -> Any:
    match type_:
        case Struct():
            return _struct(type_, value or {})
        case ListOf(item=item):
            return [_any(item, entry) for entry in value or ()]
        case MapOf(value=item):
            return {key: _any(item, entry) for key, entry in sorted((value or {}).items())}
        case Scalar(base=base):
            return _ZEROS.get(base) if value is None else value
    return value

"""A pod template as Go's dump library prints it: every field of every Go struct, set or not.

Upstream's controllers hash this text, and the names of ReplicaSets and of the revisions of DaemonSets contain the hash.
The format is that of ``%#v``: a value stands after its type in parentheses, except within lists and maps and behind
pointers, where the type is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from dray.api.fields import FieldTable
from dray.api.release import Release
from dray.api.schema.loader import type_of
from dray.api.schema.model import Field, ListOf, MapOf, Scalar, Struct, Type

if TYPE_CHECKING:
    from dray.api.types.core import PodTemplateSpec, RBDVolumeSource

#: Fields that Go calls otherwise than JSON, apart from the first letter.
_GO_NAMES: Final[FieldTable[PodTemplateSpec]] = FieldTable({
    "apiGroup": "APIGroup", "apiVersion": "APIVersion", "awsElasticBlockStore": "AWSElasticBlockStore",
    "cephfs": "CephFS", "chapAuthDiscovery": "DiscoveryCHAPAuth", "chapAuthSession": "SessionCHAPAuth", "csi": "CSI",
    "diskURI": "DataDiskURI", "dnsConfig": "DNSConfig", "dnsPolicy": "DNSPolicy", "endpoints": "EndpointsName",
    "fc": "FC", "fsGroup": "FSGroup", "fsGroupChangePolicy": "FSGroupChangePolicy", "fsType": "FSType",
    "gcePersistentDisk": "GCEPersistentDisk", "gmsaCredentialSpec": "GMSACredentialSpec",
    "gmsaCredentialSpecName": "GMSACredentialSpecName", "grpc": "GRPC", "httpGet": "HTTPGet",
    "httpHeaders": "HTTPHeaders", "ip": "IP", "iqn": "IQN", "iscsi": "ISCSI", "iscsiInterface": "ISCSIInterface",
    "metadata": "ObjectMeta", "nfs": "NFS", "os": "OS", "pdName": "PDName", "rbd": "RBD",
    "seLinuxChangePolicy": "SELinuxChangePolicy", "seLinuxOptions": "SELinuxOptions",
    "serviceAccount": "DeprecatedServiceAccount", "sslEnabled": "SSLEnabled", "storageos": "StorageOS",
    "tcpSocket": "TCPSocket", "tty": "TTY", "uid": "UID", "wwids": "WWIDs",
})  # fmt: skip
#: And those that differ in one struct only.
_GO_NAMES_IN: Final[Mapping[str, FieldTable[RBDVolumeSource]]] = {
    "RBDVolumeSource": FieldTable(
        {
            "image": "RBDImage",
            "monitors": "CephMonitors",
            "pool": "RBDPool",
            "user": "RadosUser",
        }
    ),
}
_ZERO_TIME: Final = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY: Final = re.compile(r"(-?)0*+([0-9]*+)(?:\.([0-9]*+))?([KMGTPE]i|[numkMGTPE]?|[eE][-+]?[0-9]+)")


def dump_for_hash(template: PodTemplateSpec, release: Release) -> str:
    """A pod template with all the fields that a release has."""
    kind = type_of("core/v1.PodTemplateSpec", release)
    return f"({kind.go}){_value(kind, template)}"


def _typed(field: Field, value: Any) -> str:
    """A field's value after its type."""
    go = field.type.go
    if field.pointer:
        return f"(*{go})<nil>" if value is None else f"(*{go}){_value(field.type, value)}"
    return f"({go}){_value(field.type, value)}"


def _value(kind: Type, value: Any) -> str:
    match kind:
        case Struct():
            document = value or {}
            return f"{{{' '.join(_members(kind, document))}}}"
        case ListOf():
            return f"[{' '.join(_value(kind.item, one) for one in value)}]" if value else "<nil>"
        case MapOf():
            if not value:
                return "<nil>"
            return f"map[{' '.join(f'{key}:{_value(kind.value, value[key])}' for key in sorted(value))}]"
        case Scalar():
            return _scalar(kind.base, value)
    raise TypeError(f"{kind.go} is not part of a pod template")


def _members(kind: Struct, document: Mapping[str, Any]) -> Iterator[str]:
    for go_name, go_type, fields in _layout(kind):
        if go_type:
            embedded = " ".join(f"{n}:{_typed(f, document.get(f.name))}" for n, _, (f,) in fields)
            yield f"{go_name}:({go_type}){{{embedded}}}"
        else:
            (field,) = fields
            yield f"{go_name}:{_typed(field, document.get(field.name))}"


@cache
def _layout(kind: Struct) -> Sequence[tuple[str, str, Any]]:
    """Go's names for a struct's members. One that is embedded has a type and members of its own; JSON flattens it."""
    found: list[tuple[str, str, Any]] = []
    for field in kind.fields:
        special = _GO_NAMES_IN.get(field.via[-1] if field.via else kind.short)
        name = (
            (special and special.get(field.name))
            or _GO_NAMES.get(field.name)
            or field.name[0].upper() + field.name[1:]
        )
        plain = (name, "", (field,))
        if not field.via:
            found.append(plain)
        elif found and found[-1][0] == field.via[0]:
            found[-1][2].append(plain)
        else:
            found.append((field.via[0], f"v1.{field.via[0]}", [plain]))
    return found


def _scalar(base: str, value: Any) -> str:
    match base:
        case "string":
            return value or ""
        case "bool":
            return "true" if value else "false"
        case "time":
            return _ZERO_TIME
        case "quantity":
            return _quantity(str(value or ""))
        case "intorstring":
            text = value if isinstance(value, str) else ""
            number = 0 if isinstance(value, str) else value or 0
            return f"{{Type:(intstr.Type){int(bool(text))} IntVal:(int32){number} StrVal:(string){text}}}"
    return str(value or 0)


def _quantity(text: str) -> str:
    """The parts of a quantity: a number, its scale, the format; and the text, where parsing keeps it."""
    found = _QUANTITY.fullmatch(text)
    number = scale = 0
    kept, form = text, "DecimalSI"
    if found is not None and text != "0":
        sign, whole, fraction, suffix = found[1], found[2] or "0", found[3] or "", found[4]
        digits = int(whole + fraction)
        if suffix in _BINARY:
            form, number = "BinarySI", digits << _BINARY[suffix]
            kept = text if digits & 7 else ""
        else:
            exponential = suffix[:1] in ("e", "E") and suffix != "E"
            form = "DecimalExponent" if exponential else "DecimalSI"
            scale = (int(suffix[1:]) if exponential else _DECIMAL[suffix]) - len(fraction)
            number = digits
            shifted = whole + fraction
            kept = text if scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0" else ""
        number = -number if sign else number
    amount = f"(resource.int64Amount){{value:(int64){number} scale:(resource.Scale){scale}}}"
    rest = f"d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){kept} Format:(resource.Format){form}"
    return f"{{i:{amount} {rest}}}"

"""Volumes of a pod: each of exactly one type, with what that type needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core import persistentvolumeclaim
from dray.api.groups.core.pod.files import check_downward_file, check_key_to_path, check_mode
from dray.api.groups.core.pod.options import Part, PodValidationOptions
from dray.api.groups.core.pod.paths import check_descending, check_no_backsteps
from dray.api.groups.core.pod.projected import check_annotations_and_labels, check_projected
from dray.api.quantity import Quantity
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import EphemeralVolumeSource, Volume

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PARTITION: Final = "must be between 1 and 255, inclusive"
_ONE_TYPE: Final = "may not specify more than 1 volume type"
_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip

Check = Callable[[Any, Path], list[FieldError]]  # the first is the struct of one type of volume


def _needs(*parts: str) -> Check:
    """A source whose only rule is that some of its fields are given."""
    return lambda source, path: [field.required(path.child(part)) for part in parts if not source.get(part)]


def _check_empty_dir(source: Part, path: Path) -> list[FieldError]:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity.parse(limit).sign < 0:
        return [field.forbidden(path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity")]
    return []


def _check_host_path(source: Part, path: Path) -> list[FieldError]:
    if not source.get("path"):
        return [field.required(path.child("path"))]
    found = check_no_backsteps(source["path"], path.child("path"))
    kind = source.get("type", "")
    if kind not in _HOST_PATH_TYPES:
        found.append(field.not_supported(path.child("type"), kind, _HOST_PATH_TYPES))
    return found


def _check_git(source: Part, path: Path) -> list[FieldError]:
    found = _needs("repository")(source, path)
    return found + check_descending(source.get("directory", ""), path.child("directory"))


def _check_keyed(name: str) -> Check:
    """Secrets and config maps: a name, a mode, and which keys go where."""

    def check(source: Part, path: Path) -> list[FieldError]:
        found = _needs(name)(source, path) + check_mode(source, "defaultMode", path)
        for i, item in enumerate(source.get("items") or ()):
            found += check_key_to_path(item, path.child("items").index(i))
        return found

    return check


def _check_disk(name: str) -> Check:
    def check(source: Part, path: Path) -> list[FieldError]:
        found = _needs(name)(source, path)
        if not 0 <= source.get("partition", 0) <= 255:
            found.append(field.invalid(path.child("partition"), source["partition"], _PARTITION))
        return found

    return check


def _check_nfs(source: Part, path: Path) -> list[FieldError]:
    found = _needs("server", "path")(source, path)
    if source.get("path") and not source["path"].startswith("/"):
        found.append(field.invalid(path.child("path"), source["path"], "must be an absolute path"))
    return found


def _check_downward(source: Part, path: Path) -> list[FieldError]:
    found = check_mode(source, "defaultMode", path)
    return found + [p for item in source.get("items") or () for p in check_downward_file(item, path)]


def check_driver(name: str, path: Path) -> list[FieldError]:
    if not name:
        return [field.required(path)]
    found = [field.too_long(path, 63)] if len(name) > 63 else []
    return found + checks.each(name, path, names.dns1123_subdomain(name.lower()))


def _check_csi(source: Part, path: Path) -> list[FieldError]:
    found = check_driver(source.get("driver", ""), path.child("driver"))
    if (secret := source.get("nodePublishSecretRef")) is not None:
        if name := secret.get("name", ""):
            found += checks.dns_subdomain(name, path.child("name"))
        else:
            found.append(field.required(path.child("nodePublishSecretRef", "name")))
    return found


def _check_ephemeral(source: EphemeralVolumeSource, path: Path) -> list[FieldError]:
    template, at = source.get("volumeClaimTemplate"), path.child("volumeClaimTemplate")
    if template is None:
        return [field.required(at)]
    found = check_annotations_and_labels(template.get("metadata") or {}, at.child("metadata"))
    return found + persistentvolumeclaim.check_spec(template.get("spec") or {}, at.child("spec"))


#: Types in the order in which they are looked at: how to check each, and under which name it is reported.
_TYPES: Final[Sequence[tuple[str, Check]]] = (
    ("emptyDir", _check_empty_dir),
    ("hostPath", _check_host_path),
    ("gitRepo", _check_git),
    ("gcePersistentDisk", _check_disk("pdName")),
    ("awsElasticBlockStore", _check_disk("volumeID")),
    ("secret", _check_keyed("secretName")),
    ("nfs", _check_nfs),
    ("iscsi", _needs("targetPortal", "iqn")),
    ("glusterfs", _needs("endpoints", "path")),
    ("flocker", _needs()),
    ("persistentVolumeClaim", _needs("claimName")),
    ("rbd", _needs("monitors", "image")),
    ("cinder", _needs("volumeID")),
    ("cephfs", _needs("monitors")),
    ("quobyte", _needs("registry", "volume")),
    ("downwardAPI", _check_downward),
    ("fc", _needs()),
    ("flexVolume", _needs("driver")),
    ("configMap", _check_keyed("name")),
    ("azureFile", _needs("secretName", "shareName")),
    ("vsphereVolume", _needs("volumePath")),
    ("photonPersistentDisk", _needs("pdID")),
    ("portworxVolume", _needs("volumeID")),
    ("azureDisk", _needs("diskName", "diskURI")),
    ("storageos", _needs("volumeName")),
    ("projected", check_projected),
    ("scaleIO", _needs("gateway", "system", "volumeName")),
    ("csi", _check_csi),
    ("ephemeral", _check_ephemeral),
)
_REPORTED_AS: Final = {"gcePersistentDisk": "persistentDisk"}
TYPE_NAMES: Final = frozenset(name for name, _ in _TYPES) | {"image"}


def _check_source(volume: Volume, path: Path, pod_name: str, opts: PodValidationOptions) -> list[FieldError]:
    found: list[FieldError] = []
    given = 0
    sources: Volume = volume
    for part, check in (*_TYPES, ("image", _check_image(opts))):
        source = sources.get(part)
        if source is None:
            continue
        if given:
            found.append(field.forbidden(path.child(part), _ONE_TYPE))
            continue
        given += 1
        found += check(source, path.child(_REPORTED_AS.get(part, part)))
        if part == "ephemeral" and pod_name and volume.get("name"):
            claim = f"{pod_name}-{volume['name']}"
            for message in names.dns1123_subdomain(claim):
                words = f"PVC name {field.quote(claim)}: {message}"
                found.append(field.invalid(path.child("name"), volume["name"], words))
    return found if given else [field.required(path, "must specify a volume type")]


def _check_image(opts: PodValidationOptions) -> Check:
    def check(source: Part, path: Path) -> list[FieldError]:
        missing = opts.is_pod and not source.get("reference")
        found = [field.required(path.child("reference"))] if missing else []
        return found + checks.one_of(source.get("pullPolicy", ""), path.child("pullPolicy"), PULL_POLICIES)

    return check


def check_volumes(
    volumes: Sequence[Volume], path: Path, opts: PodValidationOptions, *, pod_name: str = ""
) -> tuple[Mapping[str, Part], list[FieldError]]:
    """The well-formed volumes by name, and what is wrong with the others."""
    good: dict[str, Part] = {}
    found: list[FieldError] = []
    made = {f"{pod_name}-{v.get('name', '')}" for v in volumes if pod_name and v.get("ephemeral") is not None}
    for i, volume in enumerate(volumes):
        at, name = path.index(i), volume.get("name", "")
        wrong = _check_source(volume, at, pod_name, opts)
        wrong += checks.dns_label(name, at.child("name")) if name else [field.required(at.child("name"))]
        if name in good:
            wrong.append(field.duplicate(at.child("name"), name))
        if wrong:
            found += wrong
        else:
            good[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in made:
            words = "must not reference a PVC that gets created for an ephemeral volume"
            found.append(field.invalid(at.child("persistentVolumeClaim", "claimName"), claim, words))
    return good, found

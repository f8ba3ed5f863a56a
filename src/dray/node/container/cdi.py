"""Resolves CDI devices: from their qualified names to what changes about a container.

The rules are those of the CDI specification and its reference implementation: specs are read from several directories,
of which later ones win; a device that two specs of one directory define cannot be used; a spec's own edits apply once if
any of its devices is used. Specs come from drivers, so they are checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dray.api import yamldocs
from dray.runtimes.interface import DeviceNode, Edits, Hook, Mount

if TYPE_CHECKING:
    from dray.kubelet_api import cdi

VERSIONS = frozenset(("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"))
_HOOKS = frozenset(
    ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
#: Specs describe a few devices; a file beyond this size is a mistake or an attack.
_MAX_SPEC_BYTES = 4 << 20


class CdiError(Exception):
    """A device cannot be injected; the text is for the pod's events."""


@dataclass(frozen=True, slots=True)
class _Spec:
    path: Path
    priority: int
    kind: str
    common: Edits
    devices: Mapping[str, Edits]


class CdiCache:
    """Finds devices in the specs of some directories. Reads files anew only when they have changed."""

    def __init__(
        self, directories: Sequence[Path], *, locate: Callable[[str], str] = lambda path: path
    ) -> None:
        """``locate`` says where a path that a spec names for the host is to be found here."""
        self._directories = list(directories)
        self._locate = locate
        self._files: dict[Path, tuple[tuple[int, int, int], _Spec | str]] = {}
        self._devices: dict[str, _Spec] = {}
        self._conflicts: dict[str, tuple[Path, Path]] = {}

    def resolve(self, names: Sequence[str]) -> Edits:
        """The edits of these devices together, in their order; each spec's own edits once."""
        if not names:
            return Edits()
        self._refresh()
        missing = [name for name in names if name not in self._devices]
        if missing:
            reasons = [self._why_missing(name) for name in missing]
            raise CdiError(f"unresolvable CDI devices {', '.join(missing)}{''.join(filter(None, reasons))}")
        parts: list[Edits] = []
        seen: set[Path] = set()
        for name in dict.fromkeys(names):
            spec = self._devices[name]
            if spec.path not in seen:
                seen.add(spec.path)
                parts.append(spec.common)
            parts.append(spec.devices[name.partition("=")[2]])
        return merge(parts)

    def errors(self) -> dict[Path, str]:
        """Files that could not be used, and why."""
        self._refresh()
        return {path: found for path, (_, found) in self._files.items() if isinstance(found, str)}

    def _why_missing(self, name: str) -> str:
        if name in self._conflicts:
            one, other = self._conflicts[name]
            return f'; conflicting device "{name}" (specs "{one}", "{other}")'
        broken = [f"{path}: {found}" for path, (_, found) in self._files.items() if isinstance(found, str)]
        return f"; specs that cannot be read: {'; '.join(broken)}" if broken else ""

    def _refresh(self) -> None:
        files: dict[Path, tuple[tuple[int, int, int], _Spec | str]] = {}
        for priority, directory in enumerate(self._directories):
            for path in sorted([*directory.glob("*.json"), *directory.glob("*.yaml")]):
                try:
                    stat = path.stat()
                except OSError:
                    continue
                stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
                known = self._files.get(path)
                files[path] = known if known and known[0] == stamp else (stamp, self._load(path, priority))
        if files.keys() == self._files.keys() and all(files[p] is self._files[p] for p in files):
            return
        self._files = files
        self._index([found for _, found in files.values() if isinstance(found, _Spec)])

    def _load(self, path: Path, priority: int) -> _Spec | str:
        try:
            if path.stat().st_size > _MAX_SPEC_BYTES:
                return "the file is too large"
            return read_spec(path, path.read_text(), priority=priority, locate=self._locate)
        except (OSError, ValueError, CdiError) as e:
            return str(e)

    def _index(self, specs: Sequence[_Spec]) -> None:
        devices: dict[str, _Spec] = {}
        conflicts: dict[str, tuple[Path, Path]] = {}
        for spec in specs:
            for device in spec.devices:
                name = f"{spec.kind}={device}"
                other = devices.get(name)
                if other and other.priority == spec.priority:
                    conflicts[name] = (other.path, spec.path)
                else:
                    conflicts.pop(name, None)  # a directory of higher priority settles it
                    devices[name] = spec
        self._devices = {n: s for n, s in devices.items() if n not in conflicts}
        self._conflicts = conflicts


def read_spec(path: Path, text: str, *, priority: int, locate: Callable[[str], str]) -> _Spec:
    """A spec's devices with their edits; CdiError says what is wrong with it."""
    document = _parse(path, text)
    if document.get("cdiVersion") not in VERSIONS:
        raise CdiError(f"unknown CDI version {document.get('cdiVersion')!r}")
    kind = str(document.get("kind", ""))
    vendor, _, cls = kind.partition("/")
    if not _NAME.fullmatch(vendor) or not _NAME.fullmatch(cls):
        raise CdiError(f"invalid kind {kind!r}")
    devices: dict[str, Edits] = {}
    for entry in document.get("devices") or []:
        name = str(entry.get("name", ""))
        if not _DEVICE.fullmatch(name):
            raise CdiError(f"invalid device name {name!r}")
        if name in devices:
            raise CdiError(f'invalid spec, multiple device "{name}"')
        edits = read_edits(entry.get("containerEdits") or {}, locate=locate)
        if edits == Edits():
            raise CdiError(f'invalid device, empty device edits for "{name}"')
        devices[name] = edits
    if not devices:
        raise CdiError("invalid spec, no devices")
    common = read_edits(document.get("containerEdits") or {}, locate=locate)
    return _Spec(path, priority, kind, common, devices)


def _parse(path: Path, text: str) -> cdi.Spec:
    if path.suffix == ".json":
        document = json.loads(text)
    else:
        try:
            document = yamldocs.load(text)
        except yamldocs.InvalidYAML as e:
            raise CdiError(str(e)) from e
    if not isinstance(document, dict):
        raise CdiError("the file is no object")
    return cast("cdi.Spec", document)


def read_edits(edits: cdi.ContainerEdits, *, locate: Callable[[str], str]) -> Edits:
    return Edits(
        env=tuple(_variable(e) for e in edits.get("env") or ()),
        devices=tuple(_device_node(d, locate) for d in edits.get("deviceNodes") or ()),
        mounts=tuple(_mount(m, locate) for m in edits.get("mounts") or ()),
        hooks=tuple(_hook(h) for h in edits.get("hooks") or ()),
        gids=tuple(int(g) for g in edits.get("additionalGids") or () if g),
    )


def merge(parts: Sequence[Edits]) -> Edits:
    """All edits together. A later device node, mount or variable of the same name replaces an earlier one."""
    env: dict[str, str] = {}
    nodes: dict[str, DeviceNode] = {}
    mounts: dict[str, Mount] = {}
    hooks: list[Hook] = []
    gids: dict[int, None] = {}
    for part in parts:
        env |= dict(part.env)
        nodes |= {n.target: n for n in part.devices}
        mounts |= {m.target: m for m in part.mounts}
        hooks += part.hooks
        gids |= dict.fromkeys(part.gids)
    return Edits(
        env=tuple(env.items()),
        devices=tuple(nodes.values()),
        mounts=tuple(sorted(mounts.values(), key=lambda m: m.target.count("/"))),
        hooks=tuple(hooks),
        gids=tuple(gids),
    )


def _variable(text: object) -> tuple[str, str]:
    name, equals, value = str(text).partition("=")
    if not name or not equals:
        raise CdiError(f"invalid environment variable {text!r}")
    return name, value


def _device_node(d: cdi.DeviceNode, locate: Callable[[str], str]) -> DeviceNode:
    path = str(d.get("path") or "")
    kind, permissions = d.get("type") or "", d.get("permissions") or ""
    if not path:
        raise CdiError("invalid (empty) device path")
    if kind not in ("", "b", "c", "u", "p"):
        raise CdiError(f"device {path!r}: invalid type {kind!r}")
    if permissions != "none" and set(permissions) - set("rwm"):
        raise CdiError(f"device {path!r}: invalid permissions {permissions!r}")
    return DeviceNode(
        target=path,
        source=locate(d.get("hostPath") or path),
        kind=kind,
        major=d.get("major"),
        minor=d.get("minor"),
        mode=d.get("fileMode"),
        permissions=permissions,
        uid=d.get("uid"),
        gid=d.get("gid"),
    )


def _mount(m: cdi.Mount, locate: Callable[[str], str]) -> Mount:
    source, target = str(m.get("hostPath") or ""), str(m.get("containerPath") or "")
    if not source:
        raise CdiError("invalid mount, empty host path")
    if not target.startswith("/"):
        raise CdiError(
            "invalid mount, empty container path" if not target else f"mount target {target!r} is relative"
        )
    options = tuple(str(o) for o in m.get("options") or ())
    return Mount(
        source=locate(source),
        target=target,
        read_only="ro" in options,
        kind=m.get("type") or "",
        options=options,
    )


def _hook(h: cdi.Hook) -> Hook:
    stage, path = h.get("hookName") or "", h.get("path") or ""
    if stage not in _HOOKS:
        raise CdiError(f"invalid hook name {stage!r}")
    if not str(path).startswith("/"):
        raise CdiError(f"invalid hook {stage!r} with path {path!r}")
    for variable in h.get("env") or ():
        _variable(variable)
    return Hook(
        stage=stage,
        path=path,
        args=tuple(h.get("args") or ()),
        env=tuple(h.get("env") or ()),
        timeout=h.get("timeout"),
    )

"""Resolves CDI devices: from their qualified names to what changes about a container.

The rules are those of the CDI specification and its reference implementation: specs are read from several directories,
of which later ones win; a device that two specs of one directory define cannot be used; a spec's own edits apply once if
any of its devices is used. Specs come from drivers, so they are checked: whatever a file holds, it concerns only those who
name its devices.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dray.api import yamldocs
from dray.runtimes.interface import DeviceNode, Edits, Hook, Mount

VERSIONS = frozenset(("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"))
_HOOKS = frozenset(
    ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
#: Specs describe a few devices; a file beyond this size is a mistake or an attack.
_MAX_SPEC_BYTES = 4 << 20
#: The bytes of an event's message, and the number of files that it names.
_MAX_MESSAGE = 1000
_MAX_FILES_NAMED = 5
#: What a file holds before anybody has checked it.
_Unchecked = Mapping[str, object]


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
    """Finds devices in the specs of some directories. Reads files anew only when they have changed. Threads may share it."""

    def __init__(
        self, directories: Sequence[Path], *, locate: Callable[[str], str] = lambda path: path
    ) -> None:
        """``locate`` says where a path that a spec names for the host is to be found here."""
        self._lock = threading.Lock()
        self._directories = list(directories)
        self._locate = locate
        self._files: dict[Path, tuple[tuple[int, int, int], _Spec | str]] = {}
        self._devices: dict[str, _Spec] = {}
        self._conflicts: dict[str, tuple[Path, Path]] = {}

    def resolve(self, names: Sequence[str]) -> Edits:
        """The edits of these devices together, in their order; each spec's own edits once."""
        if not names:
            return Edits()
        with self._lock:
            self._refresh()
            return self._resolve(names)

    def _resolve(self, names: Sequence[str]) -> Edits:
        missing = [name for name in names if name not in self._devices]
        if missing:
            conflicts = [self._conflict(name) for name in missing if name in self._conflicts]
            broken = self._broken() if len(conflicts) < len(missing) else ""
            text = f"unresolvable CDI devices {', '.join(missing)}{''.join(conflicts)}{broken}"
            # Names of files need not be text.
            raise CdiError(text.encode(errors="backslashreplace")[:_MAX_MESSAGE].decode(errors="ignore"))
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
        with self._lock:
            self._refresh()
            return {path: found for path, (_, found) in self._files.items() if isinstance(found, str)}

    def _conflict(self, name: str) -> str:
        one, other = self._conflicts[name]
        return f'; conflicting device "{name}" (specs "{one}", "{other}")'

    def _broken(self) -> str:
        broken = [f"{path}: {found}" for path, (_, found) in self._files.items() if isinstance(found, str)]
        more = [f"and {len(broken) - _MAX_FILES_NAMED} more"] if len(broken) > _MAX_FILES_NAMED else []
        named = "; ".join(broken[:_MAX_FILES_NAMED] + more)
        return f"; specs that cannot be read: {named}" if broken else ""

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
            return read_spec(path, _read(path), priority=priority, locate=self._locate)
        except RecursionError:
            return "the file is nested too deeply"
        except OSError as e:
            return e.strerror or str(e)
        except (ValueError, CdiError) as e:
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


def _read(path: Path) -> str:
    """The text of a regular file. Anybody who may write to the directory could put something there that blocks or never
    ends."""
    if not path.is_file():
        raise CdiError("not a regular file")
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it was replaced meanwhile
            raise CdiError("not a regular file")
        data = file.read(_MAX_SPEC_BYTES + 1)
    if len(data) > _MAX_SPEC_BYTES:
        raise CdiError(f"the file is larger than {_MAX_SPEC_BYTES >> 20} MiB")
    return data.decode()


def read_spec(path: Path, text: str, *, priority: int, locate: Callable[[str], str]) -> _Spec:
    """A spec's devices with their edits; CdiError says what is wrong with it."""
    document = _parse(path, text)
    if (version := _text(document, "cdiVersion")) not in VERSIONS:
        raise CdiError(f"unknown CDI version {version!r}")
    kind = _text(document, "kind")
    vendor, _, cls = kind.partition("/")
    if not _NAME.fullmatch(vendor) or not _NAME.fullmatch(cls):
        raise CdiError(f"invalid kind {kind!r}")
    devices: dict[str, Edits] = {}
    for entry in _objects(document, "devices"):
        name = _text(entry, "name")
        if not _DEVICE.fullmatch(name):
            raise CdiError(f"invalid device name {name!r}")
        if name in devices:
            raise CdiError(f'invalid spec, multiple device "{name}"')
        edits = read_edits(_object(entry, "containerEdits"), locate=locate)
        if edits == Edits():
            raise CdiError(f'invalid device, empty device edits for "{name}"')
        devices[name] = edits
    if not devices:
        raise CdiError("invalid spec, no devices")
    common = read_edits(_object(document, "containerEdits"), locate=locate)
    return _Spec(path, priority, kind, common, devices)


def _parse(path: Path, text: str) -> _Unchecked:
    if path.suffix == ".json":
        document = json.loads(text)
    else:
        try:
            document = yamldocs.load(text)
        except yamldocs.InvalidYAML as e:
            raise CdiError(" ".join(str(e).split())) from e
    return _as_object(document, "the file")


def _as_object(value: object, what: str) -> _Unchecked:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise CdiError(f"{what} is no object")
    return value


def _object(holder: _Unchecked, name: str) -> _Unchecked:
    value = holder.get(name)
    return {} if value is None else _as_object(value, name)


def _list(holder: _Unchecked, name: str) -> Sequence[object]:
    value = holder.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise CdiError(f"{name} is no list")
    return value


def _objects(holder: _Unchecked, name: str) -> Sequence[_Unchecked]:
    return [_as_object(value, f"an entry of {name}") for value in _list(holder, name)]


def _as_text(value: object, what: str) -> str:
    if not isinstance(value, str) or "\0" in value or (not value.isascii() and _has_surrogates(value)):
        raise CdiError(f"{what} is no text")
    return value


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _text(holder: _Unchecked, name: str) -> str:
    value = holder.get(name)
    return "" if value is None else _as_text(value, name)


def _texts(holder: _Unchecked, name: str) -> tuple[str, ...]:
    return tuple(_as_text(value, f"an entry of {name}") for value in _list(holder, name))


def _as_number(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
        raise CdiError(f"{what} is no number between 0 and 4294967295")
    return value


def _number(holder: _Unchecked, name: str) -> int | None:
    value = holder.get(name)
    return None if value is None else _as_number(value, name)


def read_edits(edits: _Unchecked, *, locate: Callable[[str], str]) -> Edits:
    gids = [_as_number(gid, "an entry of additionalGids") for gid in _list(edits, "additionalGids")]
    return Edits(
        env=tuple(_variable(e) for e in _texts(edits, "env")),
        devices=tuple(_device_node(d, locate) for d in _objects(edits, "deviceNodes")),
        mounts=tuple(_mount(m, locate) for m in _objects(edits, "mounts")),
        hooks=tuple(_hook(h) for h in _objects(edits, "hooks")),
        gids=tuple(gid for gid in gids if gid),
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


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CdiError(f"invalid environment variable {text!r}")
    return name, value


def _device_node(d: _Unchecked, locate: Callable[[str], str]) -> DeviceNode:
    path, kind, permissions = _text(d, "path"), _text(d, "type"), _text(d, "permissions")
    if not path:
        raise CdiError("invalid (empty) device path")
    if kind not in ("", "b", "c", "u", "p"):
        raise CdiError(f"device {path!r}: invalid type {kind!r}")
    if permissions != "none" and set(permissions) - set("rwm"):
        raise CdiError(f"device {path!r}: invalid permissions {permissions!r}")
    return DeviceNode(
        target=path,
        source=locate(_text(d, "hostPath") or path),
        kind=kind,
        major=_number(d, "major"),
        minor=_number(d, "minor"),
        mode=_number(d, "fileMode"),
        permissions=permissions,
        uid=_number(d, "uid"),
        gid=_number(d, "gid"),
    )


def _mount(m: _Unchecked, locate: Callable[[str], str]) -> Mount:
    source, target = _text(m, "hostPath"), _text(m, "containerPath")
    if not source:
        raise CdiError("invalid mount, empty host path")
    if not target.startswith("/"):
        raise CdiError(
            "invalid mount, empty container path" if not target else f"mount target {target!r} is relative"
        )
    options = _texts(m, "options")
    return Mount(
        source=locate(source),
        target=target,
        read_only="ro" in options,
        kind=_text(m, "type"),
        options=options,
    )


def _hook(h: _Unchecked) -> Hook:
    stage, path, env = _text(h, "hookName"), _text(h, "path"), _texts(h, "env")
    if stage not in _HOOKS:
        raise CdiError(f"invalid hook name {stage!r}")
    if not path.startswith("/"):
        raise CdiError(f"invalid hook {stage!r} with path {path!r}")
    for variable in env:
        _variable(variable)
    return Hook(stage=stage, path=path, args=_texts(h, "args"), env=env, timeout=_number(h, "timeout"))

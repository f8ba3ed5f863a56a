"""Mounts a pod's volumes: each is a directory on the host.

Content that comes from the API is written as a whole and swapped in behind a link, so that a container never sees half of
it. Containers cannot write there. The agent nevertheless touches only names that it made itself, and follows no links.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from dray.api import pods
from dray.api.errors import NotFound, StatusError
from dray.api.quantity import Quantity
from dray.api.times import to_epoch
from dray.client.client import Client
from dray.client.resources import CONFIGMAPS, SECRETS, Resource, T
from dray.node.container import environment
from dray.node.hostpaths import HostPaths
from dray.runtimes import bind_mounts
from dray.runtimes.interface import Mount

if TYPE_CHECKING:
    from dray.api.types.authentication import TokenRequest
    from dray.api.types.core import (
        ConfigMapProjection,
        Container,
        DownwardAPIProjection,
        HostPathVolumeSource,
        KeyToPath,
        Pod,
        SecretProjection,
        ServiceAccountTokenProjection,
        Volume,
        VolumeProjection,
    )

#: Seconds after which content that comes from the API is looked at again.
REFRESH_PERIOD = 60.0
#: The link to the current content, and the names of the directories that it leads to.
_DATA = "..data"
_GENERATION = re.compile(r"\.\.[0-9a-f]{32}")
#: What the kernel takes for one path.
_PATH_MAX = 4096


class File(NamedTuple):
    """A file of a volume: what is in it, its mode, and whose it is if not root's."""

    content: bytes
    mode: int
    user: int | None = None


Files = dict[str, File]


class MountError(Exception):
    """A volume cannot be provided; the text is for the pod's events."""


@dataclass(frozen=True, slots=True)
class MountedVolumes:
    """The volumes of a pod: where each is, which ones containers may not write to, and when their content should be looked
    at again."""

    places: Mapping[str, Path]
    read_only: frozenset[str] = frozenset()
    refresh_at: float | None = None


_NOTHING_MOUNTED = MountedVolumes({})


class PodVolumes(Protocol):
    """What a pod's worker does about volumes."""

    async def mount(self, pod: Pod, *, node: Mapping[str, str]) -> MountedVolumes: ...

    async def unmount(self, pod: Pod) -> None: ...


class NoVolumes:
    """For runtimes whose containers see no files of the host."""

    async def mount(self, pod: Pod, *, node: Mapping[str, str]) -> MountedVolumes:
        return _NOTHING_MOUNTED

    async def unmount(self, pod: Pod) -> None:
        return


class VolumeManager:
    """Mounts and unmounts the volumes of one node's pods."""

    def __init__(
        self,
        client: Client,
        paths: HostPaths,
        *,
        clock: Callable[[], float] = time.time,
        allocatable: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``allocatable`` is what the node has for pods: their limit where they name none."""
        self._client = client
        self._paths = paths
        self._clock = clock
        self._allocatable = allocatable

    async def mount(self, pod: Pod, *, node: Mapping[str, str]) -> MountedVolumes:
        places: dict[str, Path] = {}
        refresh: list[float] = []
        for volume in pod["spec"].get("volumes") or []:
            try:
                place, again = await self._mount(pod, volume, node)
            except (OSError, ValueError, StatusError, environment.ContainerConfigError) as e:
                text = e.message if isinstance(e, StatusError) else str(e)
                raise MountError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {text}') from e
            places[volume["name"]] = place
            if again is not None:
                refresh.append(again)
        volumes = pod["spec"].get("volumes") or []
        content = frozenset(v["name"] for v in volumes if _content_of(v))
        return MountedVolumes(places, content, min(refresh) if refresh else None)

    async def unmount(self, pod: Pod) -> None:
        """Removes everything of the pod below the kubelet's directory, beside the event loop: there may be much."""
        for volume in pod["spec"].get("volumes") or []:
            if _in_memory(volume):
                with contextlib.suppress(OSError):  # not mounted
                    bind_mounts.detach(str(self._place(pod, "empty-dir", volume["name"])))
        place = str(self._paths.pod(pod["metadata"]["uid"]))
        await _in_thread(lambda: bind_mounts.remove_tree(place))

    async def _mount(self, pod: Pod, volume: Volume, node: Mapping[str, str]) -> tuple[Path, float | None]:
        if source := volume.get("hostPath"):
            return self._host_path(source), None
        if "emptyDir" in volume or len(volume) == 1:
            place = self._place(pod, "empty-dir", volume["name"])
            place.mkdir(parents=True, exist_ok=True)
            if _in_memory(volume) and not place.is_mount():
                _mount_memory(place, size=_bytes((volume["emptyDir"] or {}).get("sizeLimit")))
            place.chmod(0o777)
            _own(place, user=None, group=fs_group(pod), extra=0o2770)
            return place, None
        if content := _content_of(volume):
            return await self._content(pod, volume["name"], content, node)
        kinds = ", ".join(k for k in volume if k != "name")
        raise MountError(f'volume "{volume["name"]}" is of a kind that this node does not provide: {kinds}')

    def _place(self, pod: Pod, kind: str, name: str) -> Path:
        return self._paths.pod(pod["metadata"]["uid"]) / "volumes" / f"kubernetes.io~{kind}" / name

    def _host_path(self, source: HostPathVolumeSource) -> Path:
        path, kind = Path(self._paths.locate(source["path"])), source.get("type") or ""
        if kind == "DirectoryOrCreate" or (not kind and self._paths.private and not path.exists()):
            path.mkdir(parents=True, exist_ok=True)
        elif kind == "FileOrCreate":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        checks = {
            "Directory": path.is_dir,
            "File": path.is_file,
            "Socket": path.is_socket,
            "CharDevice": path.is_char_device,
            "BlockDevice": path.is_block_device,
        }
        if kind in checks and not checks[kind]():
            raise MountError(f"hostPath type check failed: {source['path']} is not a {kind}")
        return path

    async def _content(
        self, pod: Pod, name: str, content: _Content, node: Mapping[str, str]
    ) -> tuple[Path, float | None]:
        files: Files = {}
        again = self._clock() + REFRESH_PERIOD
        for source in content.sources:
            made, expires = await self._files(pod, source, content.mode, node)
            files |= made
            if expires is not None:
                again = min(again, expires)
        place = self._place(pod, content.kind, name)
        await _in_thread(lambda: write_content(place, files, group=fs_group(pod)))
        return place, again

    async def _files(
        self, pod: Pod, source: VolumeProjection, mode: int, node: Mapping[str, str]
    ) -> tuple[Files, float | None]:
        """The files of one source, and when they expire."""
        files: Files = {}
        expires = None
        for kind in source:
            if kind == "configMap":
                files |= await self._config_map(pod, source["configMap"] or {}, mode)
            elif kind == "secret":
                files |= await self._secret(pod, source["secret"] or {}, mode)
            elif kind == "downwardAPI":
                files |= _downward(pod, source["downwardAPI"] or {}, mode, node, self._allocatable)
            elif kind == "serviceAccountToken":
                made, expires = await self._token(pod, source["serviceAccountToken"] or {}, mode)
                files |= made
            else:
                raise MountError(f"source {kind} is not provided by this node")
        return files, expires

    async def _config_map(self, pod: Pod, source: ConfigMapProjection, mode: int) -> Files:
        optional = bool(source.get("optional"))
        found = await self._get(CONFIGMAPS, pod, source["name"], optional=optional) or {}
        data = {k: v.encode() for k, v in (found.get("data") or {}).items()}
        data |= {k: base64.b64decode(v) for k, v in (found.get("binaryData") or {}).items()}
        return _selected(data, source.get("items"), mode, f"configmap {source['name']}", optional=optional)

    async def _secret(self, pod: Pod, source: SecretProjection, mode: int) -> Files:
        optional = bool(source.get("optional"))
        found = await self._get(SECRETS, pod, source["name"], optional=optional) or {}
        data = {k: base64.b64decode(v) for k, v in (found.get("data") or {}).items()}
        return _selected(data, source.get("items"), mode, f"secret {source['name']}", optional=optional)

    async def _token(self, pod: Pod, source: ServiceAccountTokenProjection, mode: int) -> tuple[Files, float]:
        metadata = pod["metadata"]
        seconds = source.get("expirationSeconds", 3600)
        request: TokenRequest = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [source["audience"]] if source.get("audience") else [],
                "expirationSeconds": seconds,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
            },
        }
        account = pod["spec"].get("serviceAccountName") or "default"
        answer = await self._client.create_token(metadata["namespace"], account, request)
        status = answer["status"]
        now = self._clock()
        life = to_epoch(status["expirationTimestamp"]) - now
        user = fs_user(pod)
        # Where it is known who reads the token, nobody else does.
        narrow = user is not None or fs_group(pod) is not None
        file = File(status["token"].encode(), 0o600 if narrow else mode, user)
        return {source["path"]: file}, now + min(life * 0.8, 24 * 3600)

    async def _get(self, resource: Resource[T], pod: Pod, name: str, *, optional: bool) -> T | None:
        try:
            return await self._client.get(resource, pod["metadata"]["namespace"], name)
        except NotFound:
            if optional:
                return None
            raise


class _Content(NamedTuple):
    """A volume whose content comes from the API: its kind in lower case, its sources, the mode of its files."""

    kind: str
    sources: Sequence[VolumeProjection]
    mode: int


def _content_of(volume: Volume) -> _Content | None:
    if "configMap" in volume:
        config_map = volume["configMap"] or {}
        projection: VolumeProjection = {"configMap": config_map}
        return _Content("configmap", [projection], config_map.get("defaultMode", 0o644))
    if "secret" in volume:
        secret = volume["secret"] or {}
        named: SecretProjection = {**cast("SecretProjection", secret), "name": secret["secretName"]}
        return _Content("secret", [{"secret": named}], secret.get("defaultMode", 0o644))
    if "downwardAPI" in volume:
        downward = volume["downwardAPI"] or {}
        return _Content("downwardapi", [{"downwardAPI": downward}], downward.get("defaultMode", 0o644))
    if "projected" in volume:
        projected = volume["projected"] or {}
        return _Content("projected", projected.get("sources") or (), projected.get("defaultMode", 0o644))
    return None


def fs_user(pod: Pod) -> int | None:
    """The user of all containers of a pod, if they have one and the same."""
    whole = (pod["spec"].get("securityContext") or {}).get("runAsUser")
    users = {
        (container.get("securityContext") or {}).get("runAsUser", whole)
        for container in pods.all_containers(pod["spec"])
    }
    return users.pop() if len(users) == 1 else None


def fs_group(pod: Pod) -> int | None:
    return (pod["spec"].get("securityContext") or {}).get("fsGroup")


def _in_memory(volume: Volume) -> bool:
    return ((volume.get("emptyDir") or {}).get("medium") or "") == "Memory"


def _bytes(quantity: str | None) -> int:
    return Quantity.parse(str(quantity)).value() if quantity is not None else 0


def _mount_memory(place: Path, *, size: int) -> None:
    """Mounts memory on a directory. Where the agent has not the rights of root, the directory is on disk as any other."""
    with contextlib.suppress(PermissionError):
        bind_mounts.mount_tmpfs(str(place), size=size)


def _own(path: Path, *, user: int | None, group: int | None, extra: int) -> None:
    """Gives a path to a user and a group, who get more rights. An ordinary user's agent leaves it as it is."""
    if user is None and group is None:
        return
    with contextlib.suppress(PermissionError):
        os.chown(path, -1 if user is None else user, -1 if group is None else group)
        if group is not None:
            path.chmod(path.stat().st_mode & 0o7777 | extra)


def _downward(
    pod: Pod,
    source: DownwardAPIProjection,
    mode: int,
    node: Mapping[str, str],
    allocatable: Mapping[str, str],
) -> Files:
    files: Files = {}
    for item in source.get("items") or []:
        if ref := item.get("fieldRef"):
            text = environment.field_value(pod, ref["fieldPath"], node)
        else:
            text = environment.resource_value(pod, None, item["resourceFieldRef"], allocatable)
        files[item["path"]] = File(text.encode(), item.get("mode", mode))
    return files


async def _in_thread(work: Callable[[], None]) -> None:
    """Works in a thread, because disks are slow. When it is cancelled, it returns only after the work has ended."""
    done = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise


def mounts(container: Container, provided: MountedVolumes, *, env: Mapping[str, str]) -> tuple[Mount, ...]:
    """A container's mounts; MountError if a path leads out of its volume. ``env`` has the variables of ``subPathExpr``."""
    out = []
    for entry in container.get("volumeMounts") or []:
        source = provided.places[entry["name"]]
        content = entry["name"] in provided.read_only
        sub_path = entry.get("subPath") or _expanded(entry.get("subPathExpr") or "", env)
        if sub_path:
            _check_sub_path(source, sub_path, create=not content)
        out.append(
            Mount(
                source=str(source),
                sub_path=sub_path,
                target=entry["mountPath"],
                read_only=content or bool(entry.get("readOnly")),
                propagation=entry.get("mountPropagation") or "",
            )
        )
    return tuple(out)


def _expanded(expression: str, env: Mapping[str, str]) -> str:
    missing: list[str] = []

    def lookup(name: str) -> str | None:
        if name not in env:
            missing.append(name)
        return env.get(name)

    text = environment.expand(expression, lookup)
    if missing:
        raise MountError(f"subPathExpr {expression!r}: the container has no variable {', '.join(missing)}")
    if expression and not text:
        raise MountError(f"subPathExpr {expression!r} is empty once its variables are filled in")
    return text


def _check_sub_path(source: Path, sub_path: str, *, create: bool) -> None:
    """Whether there is something to mount, in words for the pod's events. The runtime resolves the path itself, once."""
    _check_descending(sub_path)
    try:
        if create:
            bind_mounts.make_beneath(str(source), sub_path)
        with bind_mounts.opened(str(source), sub_path):
            pass
    except FileNotFoundError as e:
        raise MountError(f"path {sub_path!r} does not exist in its volume") from e
    except OSError as e:
        if e.errno in (errno.EXDEV, errno.ELOOP):
            raise MountError(f"path {sub_path!r} leads out of its volume") from e
        raise MountError(f"path {sub_path!r}: {e.strerror}") from e


def write_content(place: Path, files: Files, *, group: int | None = None) -> None:
    """Makes the directory hold exactly these files, at one instant for every reader.

    As the kubelet does it: files live in a directory of their own, ``..data`` links to it, and each name links through
    ``..data``. The directory's name says what is in it.
    """
    for name in files:
        _check_descending(name)
    place.mkdir(parents=True, exist_ok=True)
    volume = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fresh, old = _generation(files, group), _read_link(_DATA, volume)
        if old == fresh:
            return
        _remove_generation(fresh, volume)
        _write_files(fresh, files, volume, group=group)
        _link(fresh, _DATA, volume)
        tops = {name.split("/", 1)[0] for name in files}
        for name in tops:
            if _read_link(name, volume) != f"{_DATA}/{name}":
                _link(f"{_DATA}/{name}", name, volume)
        for name in os.listdir(volume):  # noqa: PTH208 (a descriptor)
            if name not in tops and _read_link(name, volume) == f"{_DATA}/{name}":
                os.unlink(name, dir_fd=volume)
        _remove_generation(old, volume)
    finally:
        os.close(volume)


def _generation(files: Files, group: int | None) -> str:
    digest = hashlib.sha256(f"{group}".encode())
    for name, (content, mode, user) in sorted(files.items()):
        digest.update(f"{len(name)} {len(content)} {mode} {user} {name}\n".encode() + content)
    return f"..{digest.hexdigest()[:32]}"


def _write_files(directory: str, files: Files, volume: int, *, group: int | None) -> None:
    os.mkdir(directory, 0o755, dir_fd=volume)
    for name, (content, mode, user) in files.items():
        *parents, last = Path(name).parts
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=volume)
        try:
            for part in parents:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=handle)
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = inner
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(last, flags, 0o600, dir_fd=handle), "wb") as file:
                file.write(content)
                with contextlib.suppress(PermissionError):  # an ordinary user's agent
                    os.fchown(file.fileno(), -1 if user is None else user, -1 if group is None else group)
                os.fchmod(file.fileno(), mode if group is None else mode | 0o440)
        finally:
            os.close(handle)


def _read_link(name: str, volume: int) -> str:
    try:
        return os.readlink(name, dir_fd=volume)
    except OSError:
        return ""


def _link(target: str, name: str, volume: int) -> None:
    """Makes a link, or replaces the one that is there at one instant."""
    made = f"{_DATA}_tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(made, dir_fd=volume)
    os.symlink(target, made, dir_fd=volume)
    os.replace(made, name, src_dir_fd=volume, dst_dir_fd=volume)


def _remove_generation(name: str, volume: int) -> None:
    """Removes a directory that ``write_content`` made. A link of such a name is not followed, but left alone."""
    if _GENERATION.fullmatch(name):
        bind_mounts.remove_tree(name, dir_fd=volume)


def _selected(
    data: Mapping[str, bytes], items: Sequence[KeyToPath] | None, mode: int, what: str, *, optional: bool
) -> Files:
    if not items:
        return {k: File(v, mode) for k, v in data.items()}
    files: Files = {}
    for item in items:
        if item["key"] not in data:
            if optional:
                continue
            raise MountError(f"references non-existent {what} key: {item['key']}")
        files[item["path"]] = File(data[item["key"]], item.get("mode", mode))
    return files


def _check_descending(relative: str) -> None:
    if len(relative.encode()) >= _PATH_MAX:
        raise MountError(f"path {relative[:40]!r}… is longer than {_PATH_MAX} bytes")
    if "\0" in relative:
        raise MountError(f"path {relative!r} has a byte that no path has")
    if ".." in Path(relative).parts or Path(relative).is_absolute():
        raise MountError(f"path {relative!r} leads out of its volume")

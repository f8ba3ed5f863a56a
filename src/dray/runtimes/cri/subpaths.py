"""Sub paths of volumes, for runtimes that take paths and resolve them again.

As the kubelet does it: the path is opened once, without leaving its volume, and what was opened is mounted in a place that
no container can reach. The runtime gets that place. The mount is needed until the container has been started.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dray.runtimes import bind_mounts
from dray.runtimes.interface import Mount, RuntimeFailure


@contextmanager
def sub_path(mount: Mount) -> Iterator[str]:
    """Where a mount's sub path is for the runtime, as long as the context lasts."""
    place = Path(tempfile.mkdtemp(prefix="dray-subpath-", dir="/run")) / "mounted"
    try:
        with bind_mounts.opened(mount.source, mount.sub_path) as handle:
            if Path(f"/proc/self/fd/{handle}").is_dir():
                place.mkdir()
            else:
                place.touch()
            bind_mounts.attach(bind_mounts.clone(handle, recursive=True), str(place))
    except OSError as e:
        _remove(place)
        text = f"subPath {mount.sub_path!r} cannot be mounted: {e.strerror}"
        raise RuntimeFailure("CreateContainerError", text) from e
    try:
        yield str(place)
    finally:
        bind_mounts.detach(str(place))
        _remove(place)


def _remove(place: Path) -> None:
    """Removes the mount point alone: never what may still be mounted on it."""
    if place.is_dir():
        place.rmdir()
    else:
        place.unlink(missing_ok=True)
    place.parent.rmdir()

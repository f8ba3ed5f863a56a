"""containerd on a plain host: private directories, no network plugin, images made on the spot from busybox."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.wait import wait_for_sync

IMAGE = "images.example.com/busybox:1"
PAUSE = "images.example.com/pause:1"

CONFIG = """\
version = 3
root = "{directory}/root"
state = "{directory}/state"
[grpc]
address = "{directory}/c.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{directory}/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
enable_cdi = true
cdi_spec_dirs = ["{cdi}"]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "{directory}/runc"
BinaryName = "{runc}"
"""


@contextlib.contextmanager
def run_containerd(directory: Path, *, cdi: Path, tools: Path, runc: str) -> Iterator[Path]:
    """A containerd for the length of the block; yields its socket."""
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "config.toml"
    config.write_text(CONFIG.format(directory=directory, cdi=cdi, pause=PAUSE, runc=runc))
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}:/usr/sbin:/sbin"}
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(tools / "containerd"), "--config", str(config)], stdout=log, stderr=log, env=environment
        )
    socket = directory / "c.sock"
    try:
        wait_for_sync(
            "containerd's socket", socket.exists,
            log=(directory / "log").read_text, alive=lambda: process.poll() is None,
        )  # fmt: skip
        time.sleep(0.2)
        for name, entrypoint in (
            (IMAGE, ["sh"]),
            (PAUSE, ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done"]),
        ):
            archive = directory / "image.tar"
            archive.write_bytes(image(name, tools / "busybox", entrypoint))
            subprocess.run(
                [str(tools / "ctr"), "-a", str(socket), "-n", "k8s.io", "images", "import", str(archive)],
                check=True,
                capture_output=True,
            )
        yield socket
    finally:
        process.terminate()
        process.wait(20)
        _end_shims(socket)
        _clean(directory)


def _end_shims(socket: Path) -> None:
    """What a test that failed has left running."""
    parents: dict[int, list[int]] = {}
    shims = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                stat = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                parents.setdefault(int(stat[1]), []).append(int(folder.name))
                if str(socket).encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                    shims.append(int(folder.name))
    for pid in [child for shim in shims for child in parents.get(shim, [])] + shims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _clean(directory: Path) -> None:
    """Mounts of sandboxes may outlive containerd."""
    with open("/proc/self/mountinfo") as mounts:  # noqa: PTH123
        points = [line.split()[4] for line in mounts]
    for point in sorted((p for p in points if p.startswith(str(directory))), reverse=True):
        subprocess.run(["umount", "-l", point], check=False, capture_output=True)
    shutil.rmtree(directory, ignore_errors=True)


def image(name: str, busybox: Path, entrypoint: list[str]) -> bytes:
    """A docker archive with busybox and links for its commands."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for directory in ("bin", "tmp", "etc", "proc", "sys", "dev", "var/run", "root"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        program = tarfile.TarInfo("bin/busybox")
        data = busybox.read_bytes()
        program.size, program.mode = len(data), 0o755
        tar.addfile(program, io.BytesIO(data))
        for command in (
            "sh",
            "sleep",
            "echo",
            "cat",
            "ls",
            "env",
            "stat",
            "stty",
            "touch",
            "true",
            "id",
            "test",
            "tar",
            "head",
        ):
            link = tarfile.TarInfo(f"bin/{command}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    content = layer.getvalue()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": entrypoint, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
        }
    ).encode()
    digest = hashlib.sha256(config).hexdigest()
    manifest = json.dumps(
        [{"Config": f"{digest}.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    ).encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for file, blob in ((f"{digest}.json", config), ("layer.tar", content), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(file)
            entry.size = len(blob)
            tar.addfile(entry, io.BytesIO(blob))
    return archive.getvalue()

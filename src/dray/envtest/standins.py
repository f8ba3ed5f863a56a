"""Writes the stand-ins into a directory: small shell scripts that start dray with the Python that runs now."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from dray import atomicfile


def write(directory: Path) -> list[Path]:
    """kube-apiserver, etcd and kubectl; what is there under these names is replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    found = shutil.which("kubectl")
    real = None if found is None or Path(found).resolve().parent == directory.resolve() else found
    scripts = {
        "kube-apiserver": _start("kube-apiserver"),
        "etcd": _start("etcd"),
        "kubectl": f'exec {shlex.quote(real)} "$@"' if real else _NO_KUBECTL,
    }
    written = []
    for name, line in scripts.items():
        path = directory / name
        atomicfile.write(path, f"#!/bin/sh\n{line}\n".encode(), mode=0o755)
        written.append(path)
    return written


def _start(role: str) -> str:
    return f'exec {shlex.quote(sys.executable)} -m dray.envtest {role} "$@"'


_NO_KUBECTL = (
    'echo "there was no kubectl on the PATH when dray envtest wrote this; install one and run dray envtest again" >&2\n'
    "exit 1"
)

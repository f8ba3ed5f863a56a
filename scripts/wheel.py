"""Builds the wheel and tries it on every Python that can be had: it installs without a compiler, starts, and stops.

Prints the size of the wheel and of what it brings along, and how long ``dray --version`` and ``dray up`` take. The wheel is
left in ``dist``; nothing is uploaded.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def build() -> Path:
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", "dist")
    [wheel] = (ROOT / "dist").glob("*.whl")
    return wheel


def interpreters() -> dict[str, Path]:
    """The Pythons of this machine by version: on the PATH, of pyenv, or of uv."""
    found: dict[str, Path] = {}
    for version in VERSIONS:
        candidates = [
            *(Path(folder) / f"python{version}" for folder in os.environ.get("PATH", "").split(os.pathsep)),
            *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
            *sorted(Path.home().glob(f".local/share/uv/python/cpython-{version}*/bin/python{version}")),
        ]
        for candidate in candidates:
            if candidate.exists() and _version(candidate) == version:
                found[version] = candidate
                break
    return found


def _version(python: Path) -> str:
    """The version, or nothing where it cannot be used to make virtual environments."""
    code = "import sys, venv, ensurepip; print(f'{sys.version_info[0]}.{sys.version_info[1]}')"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def try_wheel(version: str, python: Path, wheel: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="dray-wheel-") as scratch:
        environment = Path(scratch) / "venv"
        run(python, "-m", "venv", environment)
        # Nothing may be compiled: a user has no compiler.
        run(
            environment / "bin/python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary",
            ":all:",
            f"{wheel}[testing]",
        )
        dray = environment / "bin/dray"
        clean = {"HOME": scratch, "PATH": "/usr/bin:/bin", "DRAY_DATA": str(Path(scratch) / "data")}
        run(dray, "--version", env=clean)
        began = time.monotonic()
        run(dray, "--version", env=clean)
        starts = time.monotonic() - began
        began = time.monotonic()
        run(dray, "up", "--detach", env=clean)
        up = time.monotonic() - began
        try:
            devices = run(dray, "devices", env=clean)
        finally:
            run(dray, "down", env=clean)
        if "gpu.example.com" not in devices:
            raise SystemExit(f"Python {version}: dray devices shows none: {devices}")
        size = sum(
            file.stat().st_size
            for file in environment.rglob("*")
            if file.is_file() and "pip" not in file.parts
        )
        print(
            f"Python {version}: dray --version {starts:.2f} s, dray up {up:.2f} s, {size / 1e6:.0f} MB installed",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--python", choices=VERSIONS, action="append", help="these only; default: all that are here"
    )
    args = parser.parse_args()
    wheel = build()
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    found = interpreters()
    for version in args.python or VERSIONS:
        if version in found:
            try_wheel(version, found[version], wheel)
        else:
            print(f"Python {version}: not on this machine, not tried", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""CDI specs: one file a claim, whose devices carry the edits for the containers that use them.

Names are unique to the claim, because runtimes may cache specs: ``k8s.<driver>/<class>=<claim uid>-<device>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dray import atomicfile
from dray.driver.model import Edits

if TYPE_CHECKING:
    from dray.kubelet_api.cdi import ContainerEdits, Device, Spec

#: The device whose edits every container with a device of this driver gets.
COMMON = "common"


class Kind(NamedTuple):
    """The ``vendor/class`` that a driver's CDI devices live under."""

    vendor: str
    cls: str

    @classmethod
    def of(cls, driver: str) -> Kind:
        return cls(f"k8s.{driver}", re.sub(r"[^a-zA-Z0-9_-]", "-", driver.partition(".")[0]))

    def __str__(self) -> str:
        return f"{self.vendor}/{self.cls}"

    def device(self, name: str) -> str:
        return f"{self}={name}"


class Specs:
    """The specs of one driver in one directory."""

    def __init__(self, directory: Path, kind: Kind) -> None:
        self.directory = directory
        self.kind = kind

    def write(self, name: str, devices: Mapping[str, Edits]) -> None:
        """Writes the spec ``name`` with these devices; a spec without devices would be invalid and is removed."""
        with_edits = {d: e.document() for d, e in devices.items()}
        if not with_edits:
            self.remove(name)
            return
        self.write_document(name, spec(self.kind, with_edits))

    def write_document(self, name: str, document: Spec) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._remove_foreign(name)
        atomicfile.write(self.path(name), json.dumps(document, indent=2).encode())

    def remove(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)
        self._remove_foreign(name)

    def _remove_foreign(self, name: str) -> None:
        """Drivers written in Go write the same spec as YAML. A device that two files define is none for any runtime."""
        for suffix in (".yaml", ".yml"):
            self.path(name).with_suffix(suffix).unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def names(self) -> set[str]:
        """The claims (and the common part) that have a spec here."""
        stem = f"{self.kind.vendor}-{self.kind.cls}_"
        return {p.stem.removeprefix(stem) for p in self.directory.glob(f"{stem}*.json")}

    def path(self, name: str) -> Path:
        return self.directory / f"{self.kind.vendor}-{self.kind.cls}_{name}.json"


def spec(kind: Kind, devices: Mapping[str, ContainerEdits]) -> Spec:
    """A spec with the oldest version that can say what it says: runtimes refuse versions they do not know."""
    listed: list[Device] = [{"name": name, "containerEdits": edits} for name, edits in devices.items()]
    return {"cdiVersion": minimum_version(kind, listed), "kind": str(kind), "devices": listed}


def minimum_version(kind: Kind, devices: Sequence[Device]) -> str:
    needed = {(0, 3)}
    if "." in kind.cls:
        needed.add((0, 6))
    for device in devices:
        edits = device["containerEdits"]
        if device["name"][0].isdigit() or any("hostPath" in n for n in edits.get("deviceNodes", ())):
            needed.add((0, 5))
        if any("type" in m for m in edits.get("mounts", ())):
            needed.add((0, 4))
        if edits.get("additionalGids"):
            needed.add((0, 7))
    major, minor = max(needed)
    return f"{major}.{minor}.0"

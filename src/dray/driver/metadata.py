"""Files in which a container can read about its devices, bind-mounted by a CDI device per request.

Layout and content are upstream's: consumers find them under ``/var/run/kubernetes.io/dra-device-attributes``. A file has
one JSON document for each version of ``metadata.resource.k8s.io`` that the driver supports, one after the other; a consumer
reads the first whose version it knows. The versions have the same fields.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Required, TypedDict

from dray import atomicfile
from dray.api.claims import base_request
from dray.driver import cdi
from dray.driver.model import Claim, ClaimRef, Metadata, Prepared, attribute

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import DeviceAttribute, NetworkDeviceData
    from dray.kubelet_api.cdi import Mount

GROUP = "metadata.resource.k8s.io"
VERSIONS = ("v1beta1", "v1alpha1")
CONTAINER_ROOT = "/var/run/kubernetes.io/dra-device-attributes"


class DeviceMetadataDevice(TypedDict, total=False):
    driver: Required[str]
    pool: Required[str]
    name: Required[str]
    attributes: Mapping[str, DeviceAttribute]
    networkData: NetworkDeviceData


class DeviceMetadataRequest(TypedDict):
    name: str
    devices: Sequence[DeviceMetadataDevice]


class DeviceMetadata(TypedDict, total=False):
    """The content of a metadata file."""

    kind: str
    apiVersion: str
    metadata: ObjectMeta
    podClaimName: str
    requests: Sequence[DeviceMetadataRequest]


class Writer:
    """Metadata of one driver's claims: files below the plugin's data directory, specs in the CDI directory."""

    def __init__(
        self, *, driver: str, data_dir: Path, cdi_dir: Path, versions: Sequence[str] = VERSIONS
    ) -> None:
        if not versions or (unknown := sorted(set(versions) - set(VERSIONS))):
            named = ", ".join(unknown) if versions else "none"
            raise ValueError(
                f"versions of {GROUP}: there are {', '.join(VERSIONS)}, and the driver names {named}"
            )
        self.driver = driver
        self._versions = versions
        self.root = data_dir / "dra-device-metadata"
        self.cdi_dir = cdi_dir
        self.kind = cdi.Kind(driver, "metadata")

    def write(self, claim: Claim, prepared: Sequence[Prepared]) -> dict[str, str]:
        """Writes one file and one spec per request; returns the CDI device that mounts it, by request."""
        by_request: dict[str, list[Prepared]] = {}
        for p in prepared:
            by_request.setdefault(p.device.request, []).append(p)
        mounts = {}
        for request, devices in by_request.items():
            base = base_request(request)
            path = self._file(claim.ref, base)
            path.parent.mkdir(parents=True, exist_ok=True)
            atomicfile.write(path, self._encode(self._document(claim, request, devices, generation=1)))
            mounts[base] = self._write_spec(claim, base, path)
        return mounts

    def update(self, claim: Claim, request: str, prepared: Sequence[Prepared]) -> None:
        """Replaces a request's file with what became known after preparing, for instance by the network set-up.

        The file is rewritten in place: containers have this very file mounted.
        """
        path = self._file(claim.ref, base_request(request))
        generation = read(path.read_text())[0]["metadata"]["generation"]
        path.write_bytes(self._encode(self._document(claim, request, prepared, generation=generation + 1)))

    def remove(self, ref: ClaimRef) -> None:
        for path in self.cdi_dir.glob(f"{self.driver}_metadata_{ref.uid}_*.json"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self._directory(ref), ignore_errors=True)

    def _write_spec(self, claim: Claim, request: str, path: Path) -> str:
        device = f"{claim.ref.uid}_{request}"
        mount: Mount = {
            "hostPath": str(path),
            "containerPath": self.container_path(claim, request),
            "options": ["ro", "bind"],
        }
        self.cdi_dir.mkdir(parents=True, exist_ok=True)
        document = cdi.spec(self.kind, {device: {"mounts": [mount]}})
        name = f"{self.driver}_metadata_{claim.ref.uid}_{request}.json"
        atomicfile.write(self.cdi_dir / name, json.dumps(document, indent=2).encode())
        return self.kind.device(device)

    def container_path(self, claim: Claim, request: str) -> str:
        if claim.pod_claim_name:
            place = f"resourceclaimtemplates/{claim.pod_claim_name}"
        else:
            place = f"resourceclaims/{claim.ref.name}"
        return f"{CONTAINER_ROOT}/{place}/{request}/{self.driver}-metadata.json"

    def _document(
        self, claim: Claim, request: str, prepared: Sequence[Prepared], *, generation: int
    ) -> DeviceMetadata:
        out: DeviceMetadata = {
            "kind": "DeviceMetadata",
            "apiVersion": "",
            "metadata": {
                "name": claim.ref.name,
                "namespace": claim.ref.namespace,
                "uid": claim.ref.uid,
                "generation": generation,
            },
        }
        if claim.pod_claim_name:
            out["podClaimName"] = claim.pod_claim_name
        out["requests"] = [{"name": request, "devices": [self._device(p) for p in prepared]}]
        return out

    def _device(self, prepared: Prepared) -> DeviceMetadataDevice:
        known = prepared.metadata or Metadata()
        out: DeviceMetadataDevice = {
            "driver": self.driver,
            "pool": prepared.device.id.pool,
            "name": prepared.device.name,
        }
        if known.attributes:
            out["attributes"] = {k: attribute(v) for k, v in known.attributes.items()}
        if known.network:
            out["networkData"] = known.network
        return out

    def _encode(self, document: DeviceMetadata) -> bytes:
        documents: list[DeviceMetadata] = [
            {**document, "apiVersion": f"{GROUP}/{version}"} for version in self._versions
        ]
        return "".join(json.dumps(one, indent=2) + "\n" for one in documents).encode()

    def _directory(self, ref: ClaimRef) -> Path:
        return self.root / f"{ref.namespace}_{ref.name}"

    def _file(self, ref: ClaimRef, request: str) -> Path:
        return self._directory(ref) / request / "metadata.json"


def read(text: str) -> list[DeviceMetadata]:
    """The documents of a metadata file, one for each version that its driver supports."""
    found: list[DeviceMetadata] = []
    at = 0
    decoder = json.JSONDecoder()
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
        while at < len(text) and text[at].isspace():
            at += 1
    return found

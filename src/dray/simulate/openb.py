"""The reader of openb traces: lists of nodes and pods of a production GPU cluster, in CSV (``.gz`` too).

A GPU is a device with a consumable capacity of 1000, a share of it is a request for capacity, several GPUs are a count,
and ``gpu_spec`` is a CEL selector. What comes out are Nodes, ResourceSlices, a DeviceClass, Pods and ResourceClaims
that could be applied to a cluster.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api.pods import controller_reference
from dray.simulate.go_random import GoRandom
from dray.simulate.model import UNITS_PER_DEVICE, Arrival, Cluster, SimulationError

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod, PodSpec
    from dray.api.types.resource import Device, DeviceClass, DeviceRequest, ResourceClaim, ResourceSlice

DRIVER = "gpu.openb.example.com"
DEVICE_CLASS = "openb-gpu"
#: the capacity of a GPU that shares are taken from
CAPACITY = "milli"
NAMESPACE = "default"

#: each watch of the scheduler inside the published simulator draws a number before the nodes are put in order
_WATCHES = 10

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_TIME_COLUMNS = ("creation_time", "scheduled_time", "deletion_time")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")

CLASS: DeviceClass = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DEVICE_CLASS},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}


class PodRow(NamedTuple):
    """One line of a list of pods."""

    name: str
    cpu: int  # thousandths of a core
    memory: int  # MiB
    gpus: int
    share: int  # thousandths of each GPU
    models: str  # allowed models, separated by |

    @property
    def units(self) -> int:
        return self.gpus * self.share


@dataclass(frozen=True)
class NodeList:
    """A list of nodes, as a cluster."""

    path: Path

    def cluster(self) -> Cluster:
        nodes: list[Node] = []
        slices: list[ResourceSlice] = []
        for number, row in read_rows(self.path, _NODE_COLUMNS):
            name = row["sn"]
            cpu, memory, gpus = (
                _number(self.path, number, row, column) for column in ("cpu_milli", "memory_mib", "gpu")
            )
            node, of_node = node_documents(name, cpu, memory, gpus, row["model"])
            nodes.append(node)
            slices += of_node
        if not nodes:
            raise SimulationError(f"{self.path}: there is no node in it")
        return Cluster(nodes=nodes, slices=slices, classes=(CLASS,))


@dataclass(frozen=True)
class PodList:
    """A list of pods, in order of name."""

    path: Path

    @cached_property
    def rows(self) -> Sequence[PodRow]:
        rows = [_pod_row(self.path, number, row) for number, row in read_rows(self.path, _POD_COLUMNS)]
        if not rows:
            raise SimulationError(f"{self.path}: there is no pod in it")
        return sorted(rows)

    def tuned(self, draw: GoRandom, units: float) -> list[PodRow]:
        """All pods, shuffled, with so many random clones that they ask for this many thousandths of GPUs.

        Where they ask for more, random pods are left out.
        """
        rows = list(self.rows)
        draw.shuffle(rows)
        requested = sum(row.units for row in rows)
        if not requested:
            return rows
        while requested > units:
            requested -= rows.pop(draw.intn(len(rows))).units
        if len(rows) < len(self.rows):
            return rows
        for number in itertools.count():
            clone = self.rows[draw.intn(len(self.rows))]
            if requested + clone.share > units:  # of one GPU, also of pods that want several
                break
            rows.append(clone._replace(name=f"{clone.name}-clone-{number}"))
            requested += clone.units
        return rows


@dataclass(frozen=True)
class PodTrace:
    """A list of pods, as a workload: pods come when they were created, and run as long as they ran."""

    path: Path

    def events(self, seed: int = 0) -> Iterator[Arrival]:
        documents = Documents()
        lines = sorted(self._lines(), key=lambda line: (line[0], line[1].name))
        for created, row, duration in lines:
            yield Arrival(float(created - lines[0][0]), *documents.of(row), duration)

    def _lines(self) -> Iterator[tuple[int, PodRow, float | None]]:
        """When each pod was created, what it asks for, and how long it ran; None: it had not ended."""
        for number, fields in read_rows(self.path, (*_POD_COLUMNS, "creation_time")):
            row = _pod_row(self.path, number, fields)
            created, scheduled, deleted = (
                _number(self.path, number, fields, column) if fields.get(column) else None
                for column in _TIME_COLUMNS
            )
            if created is None:
                raise SimulationError(f"{self.path}, line {number}: creation_time is empty")
            began = scheduled if scheduled is not None else created
            if deleted is not None and deleted < began:
                raise SimulationError(
                    f"{self.path}, line {number}: the pod is deleted at {deleted}, before {began}"
                )
            yield created, row, float(deleted - began) if deleted is not None else None


#: What reading a file raises that is no CSV, or whose compression is damaged.
_NOT_CSV: Final = (gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError, csv.Error)


def is_pod_list(path: Path) -> bool:
    """Whether a file has the columns of a list of pods."""
    if path.suffix == ".parquet":
        return False
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            columns = next(csv.reader(file), [])
    except _NOT_CSV:
        return False  # whoever reads it says what is wrong
    return {"num_gpu", "gpu_milli"} <= set(columns)


class PublishedOrder(NamedTuple):
    """What a seed decides in the published experiment: which pods come and when, and which of equal nodes is taken."""

    pods: Sequence[PodRow]
    nodes: Mapping[str, int]  # the one with the least number is taken

    @classmethod
    def of(cls, seed: int, pods: PodList, units: float, nodes: Iterable[str]) -> PublishedOrder:
        """``units``: the thousandths of GPUs that all pods ask for."""
        draw = GoRandom(seed)
        draw.int63()  # goes to the published simulator's log
        rows = pods.tuned(draw, units)
        for _ in range(_WATCHES):
            draw.int63()
        names = sorted(nodes)
        return cls(rows, dict(zip(names, draw.permutation(len(names)), strict=True)))


def arrivals(rows: Iterable[PodRow]) -> Iterator[Arrival]:
    documents = Documents()
    for second, row in enumerate(rows):
        pod, claims = documents.of(row)
        yield Arrival(float(second), pod, claims)


class Documents:
    """Pods and claims of rows. Rows that ask for the same share one spec."""

    def __init__(self) -> None:
        self._pod_specs: dict[tuple[int, int, bool], PodSpec] = {}
        self._requests: dict[tuple[int, int, str], DeviceRequest] = {}

    def of(self, row: PodRow) -> tuple[Pod, tuple[ResourceClaim, ...]]:
        uid = f"uid-{row.name}"
        pod: Pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": row.name, "namespace": NAMESPACE, "uid": uid},
            "spec": self._pod_spec(row),
        }
        if not row.gpus:
            return pod, ()
        claim: ResourceClaim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": f"{row.name}-gpu",
                "namespace": NAMESPACE,
                "uid": f"uid-{row.name}-gpu",
                "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
                "ownerReferences": [controller_reference(row.name, uid, block_owner_deletion=True)],
            },
            "spec": {"devices": {"requests": [self._request(row)]}},
        }
        pod["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{row.name}-gpu"}]}
        return pod, (claim,)

    def _pod_spec(self, row: PodRow) -> PodSpec:
        key = (row.cpu, row.memory, bool(row.gpus))
        spec = self._pod_specs.get(key)
        if spec is None:
            requests = {"cpu": f"{row.cpu}m", "memory": f"{row.memory}Mi"}
            spec = {
                "containers": [{"name": "main", "image": "openb", "resources": {"requests": requests}}],
                "schedulerName": "default-scheduler",
            }
            if row.gpus:
                spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
                spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
            self._pod_specs[key] = spec
        return spec

    def _request(self, row: PodRow) -> DeviceRequest:
        key = (row.gpus, row.share, row.models)
        request = self._requests.get(key)
        if request is None:
            request = {
                "name": "gpu",
                "exactly": {
                    "deviceClassName": DEVICE_CLASS,
                    "allocationMode": "ExactCount",
                    "count": row.gpus,
                    "capacity": {"requests": {CAPACITY: str(row.share)}},
                },
            }
            models = [model for model in row.models.split("|") if model]
            if models:
                listed = ", ".join(f'"{model}"' for model in models)
                request["exactly"]["selectors"] = [
                    {"cel": {"expression": f'device.attributes["{DRIVER}"].model in [{listed}]'}}
                ]
            self._requests[key] = request
        return request


def node_documents(
    name: str, cpu: int, memory: int, gpus: int, model: str
) -> tuple[Node, Sequence[ResourceSlice]]:
    """A node and its slice, as the list has them: thousandths of cores, MiB, GPUs of one model."""
    return _node(name, cpu, memory), [_slice(name, gpus, model)] if gpus else []


def _node(name: str, cpu: int, memory: int) -> Node:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": "1000"}},
    }


def _slice(node: str, gpus: int, model: str) -> ResourceSlice:
    devices: list[Device] = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": model}},
            "allowMultipleAllocations": True,
            "capacity": {
                CAPACITY: {
                    "value": str(UNITS_PER_DEVICE),
                    "requestPolicy": {
                        "default": str(UNITS_PER_DEVICE),
                        "validRange": {"min": "1", "max": str(UNITS_PER_DEVICE)},
                    },
                }
            },
        }
        for number in range(gpus)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _pod_row(path: Path, number: int, row: dict[str, str]) -> PodRow:
    cpu, memory, gpus, share = (
        _number(path, number, row, column) for column in ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    )
    if share > UNITS_PER_DEVICE or (gpus > 1 and share != UNITS_PER_DEVICE) or (gpus and not share):
        raise SimulationError(
            f"{path}, line {number}: num_gpu {gpus} with gpu_milli {share}: a share is 1 to 999 of one GPU, "
            "and several GPUs have gpu_milli 1000"
        )
    for column in _TIME_COLUMNS:
        if row.get(column):
            _number(path, number, row, column)
    return PodRow(row["name"], cpu, memory, gpus, share if gpus else 0, row.get("gpu_spec") or "")


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines of a CSV file with their numbers. Raises SimulationError if a column is missing."""
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise SimulationError(
                    f"{path}: column {', '.join(missing)} is missing; it needs {', '.join(columns)}"
                )
            for row in reader:
                if None in row or None in row.values():
                    raise SimulationError(f"{path}, line {reader.line_num}: not as many fields as columns")
                yield reader.line_num, row
    except _NOT_CSV as problem:
        raise SimulationError(f"{path}: not a CSV file: {problem}") from None


def _number(path: Path, line: int, row: dict[str, str], column: str) -> int:
    text = row[column]
    try:
        number = int(float(text)) if "." in text else int(text)
    except (ValueError, OverflowError):  # 1.5e999 is infinite
        raise SimulationError(f"{path}, line {line}: {column} {text[:40]!r} is not a number") from None
    if number < 0:
        raise SimulationError(f"{path}, line {line}: {column} is {number}; it must not be negative")
    return number

"""What the tools print with ``--output json``, as types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class HolderDocument(TypedDict):
    claim: str
    pods: Sequence[str]


class DeviceDocument(TypedDict):
    driver: str
    pool: str
    device: str
    node: str
    state: str
    claims: Sequence[HolderDocument]
    note: str
    attributes: Mapping[str, object]
    capacity: Mapping[str, str]
    taints: Sequence[str]


class StateCounts(TypedDict, total=False):
    """How many devices are in each state; states without any are left out."""

    unhealthy: int
    allocated: int
    shared: int
    tainted: int
    blocked: int
    withheld: int
    free: int


class SummaryDocument(StateCounts):
    name: str
    total: int


class ValueCount(TypedDict):
    value: str
    devices: int


class SelectorAttributeDocument(TypedDict):
    name: str
    table: str
    values: Sequence[ValueCount]
    otherDevices: int
    missing: int
    suggestion: str


class SelectorConditionDocument(TypedDict):
    source: str
    true: int
    false: int
    error: str


class ErrorCount(TypedDict):
    message: str
    devices: int
    example: str


class CostDocument(TypedDict):
    estimate: int
    actual: int
    limit: int


class EvaluationDocument(TypedDict):
    expression: str
    matching: Sequence[str]
    notMatching: int
    errors: Sequence[ErrorCount]
    cost: CostDocument
    seconds: float
    asked: Sequence[SelectorAttributeDocument]


class RemovedDevicesDocument(TypedDict):
    cause: str
    detail: str
    text: str
    devices: int
    examples: Sequence[str]
    source: str
    asked: Sequence[SelectorAttributeDocument]
    conditions: Sequence[SelectorConditionDocument]
    holders: Sequence[str]


class BestNodeDocument(TypedDict):
    name: str
    usable: int
    ifFreed: int


class RequestExplanationDocument(TypedDict):
    claim: str
    request: str
    deviceClass: str
    wanted: int | str
    considered: int
    usable: int
    bestNode: BestNodeDocument
    removed: Sequence[RemovedDevicesDocument]
    nearest: str


class NodeGroupDocument(TypedDict):
    nodes: int
    closest: str
    examples: Sequence[str]
    fits: bool
    causes: Sequence[str]
    devices: Sequence[str]


class ExplanationDocument(TypedDict):
    subject: str
    outcome: str
    headline: str
    scheduler: str
    facts: Sequence[str]
    requests: Sequence[RequestExplanationDocument]
    nodes: Sequence[NodeGroupDocument]
    advice: Sequence[str]


class DeviceGrantDocument(TypedDict):
    claim: str
    request: str
    device: str


class PodPlacementDocument(TypedDict):
    pod: str
    node: str
    devices: Sequence[DeviceGrantDocument]
    problem: str
    undecided: Sequence[str]


class FindingDocument(TypedDict):
    rule: str
    level: str
    message: str
    file: str
    line: int
    object: str

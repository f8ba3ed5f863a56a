"""CDI specs as types: what a driver writes and what a runtime, or the node agent in its place, reads.

The field names are those of the Container Device Interface. As with the documents of the API, the types exist for the
type checker alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Required, TypedDict


class DeviceNode(TypedDict, total=False):
    path: Required[str]
    hostPath: str
    type: str
    major: int
    minor: int
    fileMode: int
    permissions: str
    uid: int
    gid: int


class Mount(TypedDict, total=False):
    hostPath: Required[str]
    containerPath: Required[str]
    type: str
    options: Sequence[str]


class Hook(TypedDict, total=False):
    hookName: Required[str]
    path: Required[str]
    args: Sequence[str]
    env: Sequence[str]
    timeout: int


class ContainerEdits(TypedDict, total=False):
    env: Sequence[str]
    deviceNodes: Sequence[DeviceNode]
    mounts: Sequence[Mount]
    hooks: Sequence[Hook]
    additionalGids: Sequence[int]


class Device(TypedDict, total=False):
    name: Required[str]
    containerEdits: Required[ContainerEdits]


class Spec(TypedDict, total=False):
    cdiVersion: str
    kind: str
    devices: Sequence[Device]
    containerEdits: ContainerEdits

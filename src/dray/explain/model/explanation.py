"""An explanation as data, which is rendered as text or written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from dray.allocation import DeviceID
from dray.explain.devices.selectors import SelectorAttribute, SelectorCondition

if TYPE_CHECKING:
    from dray.explain.model.documents import (
        BestNodeDocument,
        ExplanationDocument,
        NodeGroupDocument,
        RemovedDevicesDocument,
        RequestExplanationDocument,
    )


class Outcome(Enum):
    """How things stand."""

    FITS = "fits"  # it would be scheduled
    PENDING = "pending"
    REFUSED = "refused"  # the API server would not even take it
    ALLOCATED = "allocated"
    RUNNING = "running"
    STUCK = "stuck"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class RemovedDevices:
    """Devices that one cause removes from the candidates of a request."""

    cause: str
    detail: str
    text: str  # the two in words
    count: int
    examples: tuple[DeviceID, ...]
    source: str = ""  # the selector
    asked: tuple[SelectorAttribute, ...] = ()
    conditions: tuple[SelectorCondition, ...] = ()
    holders: tuple[str, ...] = ()  # who has them

    def as_document(self) -> RemovedDevicesDocument:
        return {
            "cause": self.cause,
            "detail": self.detail,
            "text": self.text,
            "devices": self.count,
            "examples": [str(one) for one in self.examples],
            "source": self.source,
            "asked": [one.as_document() for one in self.asked],
            "conditions": [one.as_document() for one in self.conditions],
            "holders": list(self.holders),
        }


@dataclass(frozen=True, slots=True)
class BestNode:
    """The node with most usable devices for a request."""

    name: str
    usable: int
    if_freed: int  # on any one node, if nobody had devices and none were tainted

    def as_document(self) -> BestNodeDocument:
        return {"name": self.name, "usable": self.usable, "ifFreed": self.if_freed}


@dataclass(frozen=True, slots=True)
class RequestExplanation:
    """How many devices of the cluster could serve one request, and what removed the others."""

    claim: str
    request: str
    device_class: str
    wanted: int | None  # None: all there are
    considered: int
    usable: int
    best: BestNode
    removed: tuple[RemovedDevices, ...]
    nearest: str = ""  # the device that came closest, and what kept it

    @property
    def named(self) -> str:
        return f"request {self.request} of claim {self.claim}"

    def as_document(self) -> RequestExplanationDocument:
        return {
            "claim": self.claim,
            "request": self.request,
            "deviceClass": self.device_class,
            "wanted": "All" if self.wanted is None else self.wanted,
            "considered": self.considered,
            "usable": self.usable,
            "bestNode": self.best.as_document(),
            "removed": [one.as_document() for one in self.removed],
            "nearest": self.nearest,
        }


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same outcome; the details are those of the node that comes closest."""

    count: int
    closest: str
    examples: tuple[str, ...]
    fits: bool
    causes: tuple[str, ...]  # node causes, devices aside
    devices: tuple[str, ...]  # what allocation finds there

    def as_document(self) -> NodeGroupDocument:
        return {
            "nodes": self.count,
            "closest": self.closest,
            "examples": list(self.examples),
            "fits": self.fits,
            "causes": list(self.causes),
            "devices": list(self.devices),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    subject: str
    outcome: Outcome
    headline: str
    scheduler: str = ""  # what the scheduler has said
    facts: tuple[str, ...] = ()
    requests: tuple[RequestExplanation, ...] = ()
    nodes: tuple[NodeGroup, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def well(self) -> bool:
        return self.outcome not in (Outcome.PENDING, Outcome.REFUSED, Outcome.STUCK)

    def as_document(self) -> ExplanationDocument:
        return {
            "subject": self.subject,
            "outcome": self.outcome.value,
            "headline": self.headline,
            "scheduler": self.scheduler,
            "facts": list(self.facts),
            "requests": [one.as_document() for one in self.requests],
            "nodes": [one.as_document() for one in self.nodes],
            "advice": list(self.advice),
        }

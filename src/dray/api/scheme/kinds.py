"""What a kind is: its names, its versions with their codecs, its strategy for writes, and its columns.

A kind is described once, by a ``Kind``; the server, discovery, OpenAPI and the printers read everything from it.
Strategies work on the *hub*: the newest shape of the object, as a plain dict. A served version is a codec to and from
the hub; versions never know one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from dray.api.release import Gates
from dray.api.scheme.strategy import Strategy, UpdateStrategy

Object = dict[str, Any]


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """One served version of a kind.

    ``type`` names its schema (``dray.api.schema``). ``default`` fills upstream's defaults into a decoded object of
    this version, in place. ``to_hub`` and ``from_hub`` may return their argument; they never change a shared object
    and keep what the version cannot express.
    """

    name: str
    type: str
    default: Callable[[Any], None] | None = None
    to_hub: Callable[[Any], Any] | None = None
    from_hub: Callable[[Any], Any] | None = None
    #: An update needs a resourceVersion and a deletion is answered with a Status, whatever the strategy says.
    strict: bool = False
    deprecated: str = ""  # the Warning text, with upstream's wording
    served: Callable[[Gates], bool] | None = None  # beyond the release table, e.g. behind a gate
    #: custom resources bring their own shape: called after parsing with the object (changed in place: unknown fields
    #: are pruned) and returns the problems found, in document order. ``type`` is then empty.
    prune: Callable[[Any], Sequence[str]] | None = None
    schema: Mapping[str, Any] | None = None  # a custom resource's own, for OpenAPI and for who owns what


class Column(NamedTuple):
    """One column of a Table. Priority 0 is always shown, 1 with ``-o wide``."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Printer:
    """Columns and the cells of one row. ``cells`` gets the hub object and the current time (epoch seconds)."""

    columns: tuple[Column, ...]
    cells: Callable[[Any, float], Sequence[Any]]
    conditions: Callable[[Any], Sequence[Any]] | None = None  # of the row, e.g. a pod that has completed


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Where the ``scale`` subresource finds the replicas; ``selector`` gives the pods' selector as a string."""

    spec_replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: Callable[[Any], str] | None = None


class Converter(Protocol):
    """Converts objects of a kind from one version to another."""

    def convert(self, obj: Mapping[str, Any], target: str) -> dict[str, Any]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Everything the server needs to know about a kind."""

    group: str
    kind: str
    plural: str
    versions: tuple[Version, ...]  # most preferred first
    storage: str  # name of the version objects are stored in
    hub: str = ""  # name of the version the hub's shape equals; default: storage
    namespaced: bool = True
    singular: str = ""  # default: kind in lower case
    list_kind: str = ""  # default: kind + "List"
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    prefix: str = (
        ""  # storage prefix below /registry/; default: plural (or group/plural where upstream does so)
    )
    strategy: Strategy[Any] = field(default_factory=Strategy)
    subresources: Mapping[str, UpdateStrategy[Any]] = field(
        default_factory=dict
    )  # "status", "ephemeralcontainers", "approval", ...
    printer: Printer | None = None  # default: NAME and AGE
    fields: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)  # selectable beyond metadata.*
    verbs: tuple[str, ...] = (
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    )
    ttl: float | None = None  # seconds an object lives (events)
    scale: Scale | None = None  # serves the scale subresource
    #: other subresources, which are neither written by a strategy nor scale, each with its verbs: ``binding``, ``eviction``, ``log``, ...
    actions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: the kind whose storage and hub this one shares (events.k8s.io events are stored as core events)
    stored_as: Kind | None = None
    #: A list that lacks an object which cannot be read does harm: its reader would give devices out twice.
    must_list_all: bool = False
    conversion: Converter | None = None  # of custom resources whose versions a webhook converts
    custom: bool = False  # made from a CustomResourceDefinition: no strategic merge patch, no protobuf

    @property
    def virtual(self) -> bool:
        """Never stored: the answer to a POST is all there is (access and token reviews, bindings)."""
        return self.verbs == ("create",)

    @property
    def error_group(self) -> str:
        """The group that errors name: that of the kind whose storage is shared."""
        return self.group if self.stored_as is None else self.stored_as.group

    def version(self, name: str) -> Version:
        for v in self.versions:
            if v.name == name:
                return v
        raise KeyError(name)

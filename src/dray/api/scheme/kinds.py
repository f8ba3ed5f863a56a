"""What a kind is: its names, its versions with their codecs, its rules for writing, and its columns.

A kind is described once, by a ``Kind``; the server, discovery, OpenAPI and the printers read everything from it.
Rules work on the *hub*: the newest shape of the object, as a plain dict. A served version is a codec to and from
the hub; versions never know one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from dray.api.release import Gates
from dray.api.validation.cache import ValidationCache
from dray.api.validation.expressions import (
    Compiler,
    PolicyCompiler,
    RuleCompiler,
    accept_any_policy,
    accept_any_rule,
    accept_anything,
)
from dray.api.validation.field import FieldError

Object = dict[str, Any]
_T = TypeVar("_T")


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class UserInfo(NamedTuple):
    """Who is asking, as authentication found out."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    def document(self) -> Object:
        """As reviews and the audit log show a user."""
        found: Object = {"username": self.name}
        if self.uid:
            found["uid"] = self.uid
        if self.groups:
            found["groups"] = list(self.groups)
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra.items()}
        return found


ANONYMOUS = UserInfo("system:anonymous")


def _no_namespace(name: str) -> Mapping[str, str] | None:
    return None


def _allow(verb: str, group: str, resource: str, subresource: str, namespace: str, name: str) -> bool:
    return True


class Context(NamedTuple):
    """What a rule may know beside the object: gates, the clock's reading, the caller, and some look-ups."""

    gates: Gates
    now: str = ""  # RFC 3339, seconds
    user: UserInfo = ANONYMOUS
    namespace_labels: Callable[[str], Mapping[str, str] | None] = _no_namespace
    allows: Callable[[str, str, str, str, str, str], bool] = _allow  # may the caller do this other thing?
    verb: str = "update"  # what the caller is doing: create, update, patch, ...
    expressions: Compiler = accept_anything
    policies: PolicyCompiler = accept_any_policy
    rules: RuleCompiler = accept_any_rule  # those of custom resources' schemas
    memory: ValidationCache | None = None  # of what the rules found good

    def once(self, what: str, check: Callable[[], Sequence[_T]], *parts: Any) -> Sequence[_T]:
        """What a pure check finds in these parts, all that it looks at beside the gates and the compilers."""
        return check() if self.memory is None else self.memory.once(what, check, *parts)


class UpdateStrategy:
    """Rules for changing an object through one door: the main resource or a subresource such as ``status``.

    Objects are hub dicts. ``prepare_*`` may change ``new`` in place, never ``old``.
    """

    #: Paths that this door never changes, such as ``(("metadata",), ("spec",))``, so that nobody comes to own them
    #: through it. None: ``status`` for a resource that has a status view, and ``spec`` for a view.
    reset: tuple[tuple[str, ...], ...] | None = None

    def prepare_update(self, new: Object, old: Object, ctx: Context) -> None:
        """Reset what this door must not change; drop gated fields that ``old`` does not use."""

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        return ()

    def warn_update(self, new: Object, old: Object, ctx: Context) -> Sequence[str]:
        return ()


class Strategy(UpdateStrategy):
    """Rules of a kind's main resource."""

    #: PUT without a resourceVersion overwrites whatever is there.
    unconditional_update = True
    #: PUT of a name that does not exist creates it.
    create_on_update = False
    #: DELETE answers with the deleted object; otherwise with a Status.
    delete_returns_object = False
    #: objects are removed at once on DELETE unless finalizers hold them; see ``grace``.
    #: how metadata.name is checked: called with (name, is_prefix) and returns messages.
    check_name: Callable[[str, bool], Sequence[str]] | None = None

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        """Clear status, set generation, drop gated fields."""

    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        return ()

    def warn(self, obj: Object, ctx: Context) -> Sequence[str]:
        return ()

    def canonicalize(self, obj: Object) -> None:
        """Last touches before storing, after validation and once a generated name is known."""

    def grace(self, obj: Object, requested: int | None) -> int | None:
        """Seconds to wait before the object is really removed; None: this kind knows no graceful deletion."""
        return None

    def begin_deletion(self, obj: Object, ctx: Context) -> None:
        """Mark an object whose deletion has just begun and that stays for now (its deletionTimestamp is set)."""

    def held(self, obj: Object) -> bool:
        """Whether something beside metadata.finalizers and grace keeps a deleted object (a namespace's finalizers)."""
        return False


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """One served version of a kind.

    ``type`` names its schema (``dray.api.schema``). ``default`` fills upstream's defaults into a decoded object of
    this version, in place. ``to_hub`` and ``from_hub`` may return their argument; they never change a shared object
    and keep what the version cannot express.
    """

    name: str
    type: str
    default: Callable[[Object], None] | None = None
    to_hub: Callable[[Object], Object] | None = None
    from_hub: Callable[[Object], Object] | None = None
    deprecated: str = ""  # the Warning text, with upstream's wording
    served: Callable[[Gates], bool] | None = None  # beyond the release table, e.g. behind a gate
    #: custom resources bring their own shape: called after parsing with the object (changed in place: unknown fields
    #: are pruned) and returns the problems found, in document order. ``type`` is then empty.
    prune: Callable[[Object], Sequence[str]] | None = None
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
    cells: Callable[[Object, float], Sequence[Any]]
    conditions: Callable[[Object], Sequence[Object]] | None = (
        None  # of the row, e.g. a pod that has completed
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Where the ``scale`` subresource finds the replicas; ``selector`` gives the pods' selector as a string."""

    spec_replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: Callable[[Object], str] | None = None


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
    strategy: Strategy = field(default_factory=Strategy)
    subresources: Mapping[str, UpdateStrategy] = field(
        default_factory=dict
    )  # "status", "ephemeralcontainers", "approval", ...
    printer: Printer | None = None  # default: NAME and AGE
    fields: Mapping[str, Callable[[Object], str]] = field(
        default_factory=dict
    )  # selectable beyond metadata.*
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
    #: subresources that are neither views nor scale, each with its verbs: ``binding``, ``eviction``, ``log``, ...
    actions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: the kind whose storage and hub this one shares (events.k8s.io events are stored as core events)
    stored_as: Kind | None = None
    custom: bool = False  # made from a CustomResourceDefinition: no strategic merge patch, no protobuf

    @property
    def virtual(self) -> bool:
        """Never stored: the answer to a POST is all there is (access and token reviews, bindings)."""
        return self.verbs == ("create",)

    def version(self, name: str) -> Version:
        for v in self.versions:
            if v.name == name:
                return v
        raise KeyError(name)

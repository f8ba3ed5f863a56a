"""Admission: mutating plugins change the object of a write, then validating plugins accept or refuse it.

This module has the interfaces of plugins and the chain that runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

import msgspec

from dray.api import errors
from dray.api.errors import InternalError, StatusError
from dray.api.scheme.kinds import Object
from dray.api.user import UserInfo
from dray.server.admission.names import DEFAULT_ON, ORDER, UnknownPlugin, enabled, rank
from dray.server.storage.codec import Codec

if TYPE_CHECKING:
    from dray.api.types import Object as AnyObject

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
CONNECT: Final = "CONNECT"


@dataclass(slots=True, eq=False)
class ReinvocationContext:
    """Whether the mutating plugins have to run once more over an object that later ones have changed."""

    should_reinvoke: bool = False
    is_reinvoke: bool = False  # this is the second round
    contexts: dict[str, Any] = field(default_factory=dict)  # of each plugin, by its name


class RequestScope(NamedTuple):
    """Operation, resource and kind of a request: what decides which plugins handle it."""

    operation: str
    group: str
    version: str
    resource: str
    subresource: str
    kind: str

    def is_for(self, group: str, resource: str, subresource: str = "") -> bool:
        return self.resource == resource and self.group == group and self.subresource == subresource


class AuditAnnotation(NamedTuple):
    """An annotation of the audit log; one with ``contents`` of objects only shows where these are logged."""

    value: str
    contents: bool = False


class Attributes(msgspec.Struct, eq=False):
    """One request in admission. ``object`` and ``old`` are hub objects; a mutating plugin changes ``object`` in place."""

    operation: str
    user: UserInfo
    group: str
    version: str
    resource: str
    subresource: str
    kind: str
    namespace: str
    name: str
    codec: Codec  # of the version the request was made in
    object: Any = (
        None  # a plugin knows the kind by the scope that it handles: ``pod: Pod = attributes.object``
    )
    old: Any = None
    options: Object = msgspec.field(default_factory=dict)
    dry_run: bool = False
    warn: Callable[[str], None] = lambda text: None
    notes: dict[str, AuditAnnotation] | None = None  # for the audit log, where there is one
    reinvocation: ReinvocationContext | None = None
    #: how a changed body becomes part of ``object``, where it shows only an aspect of it
    restore: Callable[[Object, Object], Object] | None = None
    replaced: bool = False  # a policy or webhook has put another object in the place of the request's

    @property
    def versioned(self) -> Object | None:
        """The new object as the request's version has it."""
        return None if self.object is None else self.codec.object(self.object)

    def replace(self, obj: Object) -> None:
        """Put another hub object in the place of ``object``, keeping its identity for those who hold it."""
        self.object.clear()
        self.object.update(obj)
        self.replaced = True

    def reinvocation_context(self) -> ReinvocationContext:
        """What the plugins share that can ask for a second round."""
        if self.reinvocation is None:
            self.reinvocation = ReinvocationContext()
        return self.reinvocation

    def annotate(self, key: str, value: str, *, contents: bool = False) -> None:
        """Leave a note for the audit log. The first one under a key stays."""
        if self.notes is not None:
            self.notes.setdefault(key, AuditAnnotation(value, contents))

    def forbidden(self, problem: str) -> StatusError:
        """The refusal of this write, named by what its object is called or going to be called."""
        obj: AnyObject | None = self.object
        meta = None if obj is None else obj.get("metadata")
        named = "" if meta is None else meta.get("name") or meta.get("generateName")
        name = self.name or named or "Unknown"
        return errors.forbidden(self.resource, self.group, name, problem)


def internal_error(problem: str) -> InternalError:
    """A failure that is not the caller's fault, with the problem as its cause."""
    return InternalError(f"Internal error occurred: {problem}", details={"causes": [{"message": problem}]})


class AdmissionPlugin(Protocol):
    """A named plugin, and the scopes of requests that it handles: most requests are handled by few plugins.

    The chain calls ``handles`` once for each scope and keeps the answer. ``admit`` and ``validate`` check what differs
    from request to request, such as the user.
    """

    @property
    def name(self) -> str: ...
    def handles(self, scope: RequestScope) -> bool: ...


@runtime_checkable
class MutatingPlugin(AdmissionPlugin, Protocol):
    async def admit(self, attributes: Attributes) -> None: ...


@runtime_checkable
class ValidatingPlugin(AdmissionPlugin, Protocol):
    async def validate(self, attributes: Attributes) -> None: ...


@runtime_checkable
class ConfigurablePlugin(AdmissionPlugin, Protocol):
    """A plugin that handles what stored objects say. It calls ``forget`` when the scopes it handles may have changed."""

    def on_change(self, forget: Callable[[], None]) -> None: ...


class _Plan(NamedTuple):
    """The plugins that handle a scope."""

    mutating: tuple[MutatingPlugin, ...]
    validating: tuple[ValidatingPlugin, ...]


class AdmissionChain:
    """Plugins in upstream's order. A plugin refuses by raising a ``StatusError``."""

    def __init__(self, plugins: Iterable[AdmissionPlugin] = ()) -> None:
        self.plugins: Sequence[AdmissionPlugin] = tuple(sorted(plugins, key=lambda p: rank(p.name)))
        self._plans: dict[tuple[str, ...], _Plan] = {}
        for plugin in self.plugins:
            if isinstance(plugin, ConfigurablePlugin):
                plugin.on_change(self._plans.clear)

    async def admit(self, attributes: Attributes) -> None:
        """The mutating round, and a second one if a plugin asks for it."""
        plugins = self._plan(attributes).mutating
        # A write is computed and admitted again when somebody else has written its object meanwhile.
        attributes.reinvocation = None
        for plugin in plugins:
            await plugin.admit(attributes)
        context: ReinvocationContext | None = attributes.reinvocation
        if context is not None and context.should_reinvoke:
            context.is_reinvoke = True
            for plugin in plugins:
                await plugin.admit(attributes)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._plan(attributes).validating:
            await plugin.validate(attributes)

    def _plan(self, a: Attributes) -> _Plan:
        scope = (a.operation, a.group, a.version, a.resource, a.subresource, a.kind)
        plan = self._plans.get(scope)
        if plan is None:
            handling = [p for p in self.plugins if p.handles(RequestScope(*scope))]
            plan = self._plans[scope] = _Plan(
                tuple(p for p in handling if isinstance(p, MutatingPlugin)),
                tuple(p for p in handling if isinstance(p, ValidatingPlugin)),
            )
        return plan


__all__ = [
    "CONNECT",
    "CREATE",
    "DEFAULT_ON",
    "DELETE",
    "ORDER",
    "UPDATE",
    "AdmissionChain",
    "AdmissionPlugin",
    "Attributes",
    "AuditAnnotation",
    "ConfigurablePlugin",
    "MutatingPlugin",
    "ReinvocationContext",
    "RequestScope",
    "UnknownPlugin",
    "ValidatingPlugin",
    "enabled",
    "internal_error",
]  # fmt: skip

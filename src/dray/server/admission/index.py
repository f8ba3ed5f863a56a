"""An index of policies and webhooks by resource, so that a request is compared with few of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from dray.server.admission import Attributes, RequestScope
from dray.server.admission.matcher import MatchCriteria, Matcher
from dray.server.registry.resources import Resources


class Matchable(Protocol):
    @property
    def match(self) -> MatchCriteria: ...


T = TypeVar("T", bound=Matchable)


class Index(Generic[T]):
    """Items in a fixed order; those that may be about a resource are worked out once."""

    def __init__(self, resources: Resources, matcher: Matcher) -> None:
        self._resources = resources
        self._matcher = matcher
        self._items: tuple[T, ...] = ()
        self._found: dict[tuple[str, str, str, str], tuple[T, ...]] = {}
        self._generation = -1

    def fill(self, items: Iterable[T]) -> None:
        self._items = tuple(items)
        self._found.clear()

    def find(self, attributes: Attributes | RequestScope) -> tuple[T, ...]:
        if not self._items:
            return ()
        if self._generation != self._resources.generation:
            # What is served has changed, and with it what is equivalent.
            self._generation = self._resources.generation
            self._found.clear()
        key = (attributes.group, attributes.version, attributes.resource, attributes.subresource)
        found = self._found.get(key)
        if found is None:
            places = self._matcher.equivalents(attributes)
            found = tuple(i for i in self._items if i.match.may_concern(places, attributes.subresource))
            self._found[key] = found
        return found

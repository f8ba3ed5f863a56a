"""Attributes: a variable or value with a chain of field and index accesses behind it, resolved in one go.

Each access costs 1 and the attribute as a whole 1 more; an attribute that merely chooses a branch or serves as
another's index is resolved without that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from dray.cel.common.go_format import go_string
from dray.cel.common.values import NONE, SET_TYPES, Map, Optional, Value, find, go_type_of, index_of, is_list
from dray.cel.errors import EvaluationError, no_such_overload

ABSENT: Final = object()


class Frame:
    """The state of one evaluation."""

    __slots__ = ("copied", "cost", "limit", "locals", "variables")

    def __init__(self, variables: Mapping[str, Value], locals: list[Value], limit: int) -> None:
        self.variables = variables
        self.locals = locals
        self.limit = limit
        self.cost = 0
        self.copied = 0


Interpretable = Callable[[Frame], Value]


def lookup(container: Value, key: Value) -> Value:
    """The entry, ABSENT if there is none, or an error if the container cannot be asked."""
    if isinstance(container, dict | Map):
        try:
            return find(container, key)
        except KeyError:
            return ABSENT
    if is_list(container):
        try:
            position = index_of(key)
        except EvaluationError as failed:
            return failed
        return container[position] if 0 <= position < len(container) else ABSENT
    fields = getattr(container, "cel_fields", None)
    return fields.get(key, ABSENT) if fields is not None else ABSENT


def _indexable(value: Value) -> bool:
    return isinstance(value, dict | Map) or is_list(value) or hasattr(value, "cel_fields")


def missing(container: Value, key: Value) -> EvaluationError:
    if is_list(container):
        return EvaluationError(f"index out of bounds: {go_string(key)}")
    return EvaluationError(f"no such key: {go_string(key)}")


class Qualifier:
    """One access: by a constant, by a computed key, or a test whether a field is there.

    Asking for what a value that has no fields or entries at all may have is an error only if ``strict``.
    """

    __slots__ = ("key", "optional", "source", "strict", "test")

    def __init__(
        self,
        key: Value,
        source: Interpretable | None,
        *,
        optional: bool = False,
        test: bool = False,
        strict: bool = False,
    ) -> None:
        self.key = key
        self.source = source
        self.optional = optional
        self.test = test
        self.strict = strict

    def get(self, frame: Frame, container: Value) -> Value:
        """The entry or an error; it costs 1 in either case."""
        key = self.key if self.source is None else self._computed(frame)
        frame.cost += 1
        if key.__class__ is EvaluationError:
            return key
        found = lookup(container, key)
        if self.test:
            found = self._presence(container, key, found)
            return found if found.__class__ is EvaluationError else found is not ABSENT
        return missing(container, key) if found is ABSENT else found

    def find(self, frame: Frame, container: Value) -> Value:
        """The entry, ABSENT or an error; only an entry that is there costs 1."""
        key = self.key if self.source is None else self._computed(frame)
        if key.__class__ is EvaluationError:
            return key
        found = self._presence(container, key, lookup(container, key))
        if self.test:
            frame.cost += 1
            return found
        if found is not ABSENT and found.__class__ is not EvaluationError:
            frame.cost += 1
        return found

    def _presence(self, container: Value, key: Value, found: Value) -> Value:
        if found is ABSENT and self.strict and not _indexable(container):
            return missing(container, key)
        return found

    def _computed(self, frame: Frame) -> Value:
        assert self.source is not None
        key = self.source(frame)
        if type(key) in SET_TYPES or key.__class__ is EvaluationError:
            return key
        return EvaluationError(f"invalid qualifier type: {go_type_of(key)}")


class Attribute:
    """A root and its qualifiers, or a condition that chooses between two attributes."""

    __slots__ = ("branches", "condition", "qualifiers", "root", "test")

    def __init__(self, root: Interpretable | None) -> None:
        self.root = root
        self.qualifiers: list[Qualifier] = []
        self.condition: Interpretable | None = None
        self.branches: tuple[Attribute, Attribute] | None = None
        self.test = False

    @staticmethod
    def conditional(condition: Interpretable, then: Attribute, otherwise: Attribute) -> Attribute:
        attribute = Attribute(None)
        attribute.condition = condition
        attribute.branches = (then, otherwise)
        return attribute

    def add(self, qualifier: Qualifier) -> None:
        if self.branches is None:
            self.qualifiers.append(qualifier)
        else:
            for branch in self.branches:
                branch.add(qualifier)

    def tested(self, field: str, *, strict: bool) -> Attribute:
        """This attribute with a presence test at its end."""
        self.add(Qualifier(field, None, test=True, strict=strict))
        self.test = True
        return self

    def step(self) -> Interpretable:
        """Resolve, and count the attribute itself."""
        resolve = self.resolver()
        cost = 0 if self.branches is not None else 1
        if self.test:
            cost -= 1

            def tested(frame: Frame) -> Value:
                value = resolve(frame)
                frame.cost += cost
                return value.present if type(value) is Optional else value

            return tested

        def evaluate(frame: Frame) -> Value:
            value = resolve(frame)
            frame.cost += cost
            return value

        return evaluate

    def resolver(self) -> Interpretable:
        if self.branches is not None:
            return self._choosing()
        root = self.root
        assert root is not None
        if not self.qualifiers:
            return root
        if any(qualifier.optional for qualifier in self.qualifiers):
            return self._optional(root)
        chain = [qualifier.get for qualifier in self.qualifiers]
        optionally = self._optional_value

        def resolve(frame: Frame) -> Value:
            value = root(frame)
            if type(value) is Optional:
                return optionally(frame, value)
            if value.__class__ is EvaluationError:
                return value
            for access in chain:
                value = access(frame, value)
                if value.__class__ is EvaluationError:
                    return value
            return value

        return resolve

    def _optional(self, root: Interpretable) -> Interpretable:
        optionally = self._optional_value

        def resolve(frame: Frame) -> Value:
            value = root(frame)
            return value if value.__class__ is EvaluationError else optionally(frame, value)

        return resolve

    def _optional_value(self, frame: Frame, value: Value) -> Value:
        """The accesses on a value where, from the first optional one on, absence yields an empty optional."""
        optional = type(value) is Optional
        if optional:
            if not value.present:
                return value
            value = value.value
        for qualifier in self.qualifiers:
            optional = optional or qualifier.optional
            value = qualifier.find(frame, value) if optional else qualifier.get(frame, value)
            if value is ABSENT:
                return NONE
            if value.__class__ is EvaluationError:
                return value
        return Optional(value) if optional else value

    def _choosing(self) -> Interpretable:
        assert self.branches is not None and self.condition is not None
        condition = self.condition
        then, otherwise = (branch.resolver() for branch in self.branches)

        def resolve(frame: Frame) -> Value:
            chosen = condition(frame)
            if chosen is True:
                return then(frame)
            if chosen is False:
                return otherwise(frame)
            return chosen if chosen.__class__ is EvaluationError else no_such_overload()

        return resolve

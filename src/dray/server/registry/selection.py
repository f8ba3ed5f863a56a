"""Selection: the namespace, labels and fields of a list or watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dray.api import selectors
from dray.api.errors import BadRequest
from dray.server.endpoints.options import ListOptions
from dray.server.registry.resources import Resource
from dray.server.storage.codec import Codec
from dray.server.storage.documents import Document

Read = Callable[[Document], str]


@dataclass(frozen=True, slots=True)
class _Term:
    field: str
    read: Read
    value: str
    equal: bool

    def __call__(self, document: Document) -> bool:
        return (self.read(document) == self.value) is self.equal


@dataclass(frozen=True, slots=True)
class Selection:
    """``matches`` is None when everything in the namespace is selected."""

    namespace: str
    name: str = ""  # the one name it is about, where the fields say so
    matches: Callable[[Document], bool] | None = None
    index: tuple[str, str] | None = None  # one field and the value it must have, for the cache's index

    @property
    def everything(self) -> bool:
        return self.matches is None


def select(
    resource: Resource, codec: Codec, namespace: str, options: ListOptions, *, name: str = ""
) -> Selection:
    if not options.labels and not options.fields and not name:
        return Selection(namespace)
    tests: list[Callable[[Document], bool]] = []
    if options.labels:
        labels = _label_selector(options.labels)
        if not labels.empty:
            tests.append(lambda document: labels.matches(document.labels))
    terms = _terms(resource, codec, options.fields)
    if name:
        chosen = next((t.value for t in terms if t.equal and t.field == "metadata.name"), name)
        if terms and chosen != name:
            raise BadRequest("fieldSelector metadata.name doesn't match requested name")
        if not any(t.field == "metadata.name" for t in terms):
            terms.append(_Term("metadata.name", _name, name, True))
    if not resource.kind.namespaced and namespace:
        namespace = ""
    for term in terms:
        if term.equal and term.field == "metadata.namespace" and not namespace and term.value:
            namespace = term.value
        tests.append(term)
    exact = {t.field: t for t in terms if t.equal}
    found_name = exact["metadata.name"].value if "metadata.name" in exact else ""
    if not tests:
        return Selection(namespace)
    matches = tests[0] if len(tests) == 1 else lambda document: all(test(document) for test in tests)
    return Selection(namespace, found_name, matches, _index(resource, exact))


def _index(resource: Resource, exact: dict[str, _Term]) -> tuple[str, str] | None:
    """The field worth an index: a name, or else the first selectable field that must have one value."""
    if resource.kind.virtual:
        return None
    for field in ("metadata.name", *(f for f in exact if not f.startswith("metadata."))):
        if field in exact:
            resource.cache.index_fields.setdefault(field, exact[field].read)
            return field, exact[field].value
    return None


def _label_selector(text: str) -> selectors.LabelSelector:
    try:
        return selectors.parse_label_selector(text)
    except ValueError as e:
        raise BadRequest(str(e)) from None


def _terms(resource: Resource, codec: Codec, text: str) -> list[_Term]:
    if not text:
        return []
    try:
        terms = selectors.parse_field_selector(text).terms
    except ValueError as e:
        raise BadRequest(str(e)) from None
    return [_Term(t.field, _reader(resource, codec, t.field), t.value, t.equal) for t in terms]


def _name(document: Document) -> str:
    return document.name


def _namespace(document: Document) -> str:
    return document.namespace


def _reader(resource: Resource, codec: Codec, field: str) -> Read:
    if field == "metadata.name":
        return _name
    kind = resource.kind
    if field == "metadata.namespace":
        return _namespace
    read = kind.fields.get(field)
    if read is not None:
        return lambda document: read(document.hub)
    if kind.group == "resource.k8s.io" and kind.fields:
        raise BadRequest(f"field label not supported for {codec.api_version}, Kind={kind.kind}: {field}")
    if kind.fields or kind.custom:
        raise BadRequest(f"field label not supported: {field}")
    raise BadRequest(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')

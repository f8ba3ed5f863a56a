"""Parameter objects of drivers: what becomes of them is for the user to say, by rules.

A rule names a kind of parameters and the selectors they stand for. ``{spec.color}`` in a selector is replaced by the
value found there, written as a CEL literal; a selector that names a value which is not set is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Document = Mapping[str, Any]

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.\-]*)\}")


class RuleError(Exception):
    """The rules file does not say what it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRule:
    """What parameters of one kind become."""

    group: str
    kind: str
    selectors: tuple[str, ...] = ()
    config: bool = False  # hand the object to the driver as opaque configuration, too

    def expressions(self, document: Document) -> list[str]:
        found = []
        for selector in self.selectors:
            values = {path: _at(document, path) for path in _PLACEHOLDER.findall(selector)}
            if None not in values.values():
                found.append(_PLACEHOLDER.sub(lambda hole: json.dumps(values[hole[1]]), selector))  # noqa: B023
        return found


def read_rules(document: Any) -> list[ParameterRule]:
    """Rules from a document ``{parameters: [{apiGroup, kind, selectors, config}]}``."""
    entries = document.get("parameters") if isinstance(document, Mapping) else None
    if not isinstance(entries, list):
        raise RuleError("expected a list under the key parameters")
    rules = []
    for number, entry in enumerate(entries):
        where = f"parameters[{number}]"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("kind"), str):
            raise RuleError(f"{where}: expected a mapping with a kind")
        if unknown := sorted(set(entry) - {"apiGroup", "kind", "selectors", "config"}):
            raise RuleError(f"{where}: unknown field {unknown[0]}")
        selectors = entry.get("selectors") or []
        if not isinstance(selectors, list) or not all(isinstance(s, str) for s in selectors):
            raise RuleError(f"{where}.selectors: expected a list of CEL expressions")
        rules.append(
            ParameterRule(
                group=str(entry.get("apiGroup") or ""),
                kind=entry["kind"],
                selectors=tuple(selectors),
                config=bool(entry.get("config", not selectors)),
            )
        )
    return rules


class Reference(NamedTuple):
    """A parametersRef, resolved to what it names."""

    group: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, reference: Document, namespace: str) -> Reference:
        return cls(
            reference.get("apiGroup") or "",
            reference.get("kind") or "",
            reference.get("namespace") or namespace,
            reference.get("name") or "",
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Parameters:
    """The documents of one conversion by what refers to them."""

    def __init__(self, documents: Iterable[Document], rules: Sequence[ParameterRule]) -> None:
        self._objects: dict[Reference, Document] = {}
        self._generated: dict[tuple[str, Reference], Document] = {}
        self._rules = {(rule.group, rule.kind): rule for rule in rules}
        self._classes: dict[str, Document] = {}
        for document in documents:
            metadata = document.get("metadata") or {}
            group = (document.get("apiVersion") or "").rpartition("/")[0]
            kind, namespace = document.get("kind") or "", metadata.get("namespace") or ""
            name = metadata.get("name") or ""
            self._objects[Reference(group, kind, namespace, name)] = document
            if document.get("generatedFrom"):
                self._generated[(kind, Reference.of(document["generatedFrom"], namespace))] = document
            if group == "resource.k8s.io" and kind == "ResourceClass":
                self._classes[name] = document

    def resource_class(self, name: str) -> Document | None:
        return self._classes.get(name)

    def find(self, reference: Reference) -> Document | None:
        return self._objects.get(reference)

    def structured(self, kind: str, reference: Reference) -> Document | None:
        """What the driver made of the parameters for the scheduler, or the parameters if they are such already."""
        if reference.group == "resource.k8s.io" and reference.kind == kind:
            return self.find(reference)
        return self._generated.get((kind, reference))

    def rule(self, reference: Reference) -> ParameterRule | None:
        return self._rules.get((reference.group, reference.kind))


def as_config(document: Document) -> dict[str, Any]:
    """A parameter object as opaque configuration: what it is and says, without its identity."""
    return {key: value for key, value in document.items() if key not in ("metadata", "status")}


def _at(document: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(document, Mapping):
            return None
        document = document.get(part)
    return document

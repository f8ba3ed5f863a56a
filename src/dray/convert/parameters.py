"""Parameter objects of drivers, which only drivers understand: the user says by rules what becomes of them.

A rule names a kind of parameters and the selectors they stand for. ``{spec.color}`` in a selector is replaced by the
value found there, written as a CEL literal; a selector that names a value which is not set is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.resource_v1alpha2 import (
        ResourceClaimParameters,
        ResourceClaimParametersReference,
        ResourceClass,
        ResourceClassParameters,
        ResourceClassParametersReference,
    )

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

    def expressions(self, document: Mapping[str, Any]) -> list[str]:
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


#: The namespace that kubectl puts an object into whose manifest names none.
_DEFAULT: Final = "default"


class Reference(NamedTuple):
    """A parametersRef, resolved to what it names."""

    group: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(
        cls, reference: ResourceClassParametersReference | ResourceClaimParametersReference, namespace: str
    ) -> Reference:
        # The parameters of a claim are in the claim's namespace; those of a class are anywhere.
        anywhere = cast("ResourceClassParametersReference", reference)
        return cls(
            anywhere.get("apiGroup") or "",
            anywhere.get("kind") or "",
            anywhere.get("namespace") or namespace or _DEFAULT,
            anywhere.get("name") or "",
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Parameters:
    """The documents of one conversion by what refers to them."""

    def __init__(self, documents: Iterable[Any], rules: Sequence[ParameterRule]) -> None:
        self._objects: dict[Reference, Any] = {}
        self._generated: dict[tuple[str, Reference], Any] = {}
        self._rules = {(rule.group, rule.kind): rule for rule in rules}
        self._classes: dict[str, ResourceClass] = {}
        for document in documents:
            obj: Object = document
            metadata = obj.get("metadata") or {}
            group = (obj.get("apiVersion") or "").rpartition("/")[0]
            kind, namespace = obj.get("kind") or "", metadata.get("namespace") or _DEFAULT
            name = metadata.get("name") or ""
            self._objects[Reference(group, kind, namespace, name)] = document
            parameters: ResourceClassParameters | ResourceClaimParameters = document
            if origin := parameters.get("generatedFrom"):
                self._generated[(kind, Reference.of(origin, namespace))] = document
            if group == "resource.k8s.io" and kind == "ResourceClass":
                self._classes[name] = document

    def resource_class(self, name: str) -> ResourceClass | None:
        return self._classes.get(name)

    def find(self, reference: Reference) -> Mapping[str, Any] | None:
        """An object of any driver's own kind."""
        return self._objects.get(reference)

    def class_parameters(self, reference: Reference) -> ResourceClassParameters | None:
        return cast("ResourceClassParameters | None", self._find("ResourceClassParameters", reference))

    def claim_parameters(self, reference: Reference) -> ResourceClaimParameters | None:
        return cast("ResourceClaimParameters | None", self._find("ResourceClaimParameters", reference))

    def _find(self, kind: str, reference: Reference) -> Any:
        """What the driver generated from the parameters for the scheduler, or the parameters if they are of that kind."""
        if reference.group == "resource.k8s.io" and reference.kind == kind:
            return self.find(reference)
        return self._generated.get((kind, reference))

    def rule(self, reference: Reference) -> ParameterRule | None:
        return self._rules.get((reference.group, reference.kind))


def as_config(document: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter object as opaque configuration: what it is and says, without its identity."""
    return {key: value for key, value in document.items() if key not in ("metadata", "status")}


def _at(document: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(document, Mapping):
            return None
        document = document.get(part)
    return document

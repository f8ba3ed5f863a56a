"""CustomResourceDefinitions as upstream stores them: apiextensions.k8s.io/v1beta1, which nobody serves any longer.

What all versions of a definition have in common stands above them there, and some fields have other names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dray.api.objects import clone

#: Fields of the spec that hold for every version, and what they are called in a version of v1.
_COMMON: Final = {
    "validation": "schema",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def default(obj: Any) -> None:
    """Fill in the defaults of v1beta1, in place."""
    spec = obj.setdefault("spec", {})
    called = spec.setdefault("names", {})
    spec.setdefault("scope", "Namespaced")
    if called.get("kind"):
        called.setdefault("singular", called["kind"].lower())
        called.setdefault("listKind", called["kind"] + "List")
    if not spec.get("versions") and spec.get("version"):
        spec["versions"] = [{"name": spec["version"], "served": True, "storage": True}]
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    if conversion.get("strategy") == "Webhook" and not conversion.get("conversionReviewVersions"):
        conversion["conversionReviewVersions"] = ["v1beta1"]
    service = (conversion.get("webhookClientConfig") or {}).get("service")
    if service:
        service.setdefault("port", 443)
    spec.setdefault("preserveUnknownFields", True)
    status = obj.setdefault("status", {})
    if not status.get("storedVersions"):
        status["storedVersions"] = [v["name"] for v in spec.get("versions", ()) if v.get("storage")][:1]


def to_hub(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The same definition in v1."""
    found: dict[str, Any] = clone(dict(obj))
    spec = found["spec"]
    spec.pop("version", None)
    common = {name: spec.pop(field) for field, name in _COMMON.items() if spec.get(field) is not None}
    versions: Sequence[dict[str, Any]] = spec.get("versions") or ()
    for version in versions:
        version.update(clone(common))
        if columns := version.get("additionalPrinterColumns"):
            version["additionalPrinterColumns"] = [_column(column) for column in columns]
    if conversion := spec.get("conversion"):
        spec["conversion"] = _conversion(conversion)
    if not spec.get("preserveUnknownFields"):
        spec.pop("preserveUnknownFields", None)
    return found


def _column(column: Mapping[str, Any]) -> dict[str, Any]:
    return {("jsonPath" if name == "JSONPath" else name): value for name, value in column.items()}


def _conversion(conversion: Mapping[str, Any]) -> dict[str, Any]:
    found = {"strategy": conversion.get("strategy", "None")}
    client, understood = conversion.get("webhookClientConfig"), conversion.get("conversionReviewVersions")
    if client is not None or understood is not None:
        webhook: dict[str, Any] = {} if client is None else {"clientConfig": client}
        found["webhook"] = {**webhook, "conversionReviewVersions": understood or []}
    return found

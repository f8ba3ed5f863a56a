"""The parameters of a policy: objects of a kind that the policy names, chosen by each of its bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.scheme.kinds import Object
from dray.api.selectors import label_selector
from dray.server.endpoints.decoder import split_api_version
from dray.server.registry.resources import Resource, Resources
from dray.server.storage.codec import Codec

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import ParamKind, ParamRef

#: A policy without parameters is evaluated once, with none.
NONE: Final[tuple[Object | None, ...]] = (None,)


class ConfigurationError(Exception):
    """A policy or binding asks for something that cannot be had."""


def resource_of(resources: Resources, kind: ParamKind) -> tuple[Resource, Codec]:
    """The served resource of a paramKind."""
    group, version = split_api_version(kind.get("apiVersion", ""))
    name = kind.get("kind", "")
    for resource in resources:
        kept = not resource.kind.virtual and version in resource.served
        if kept and resource.kind.kind == name and resource.kind.group == group:
            return resource, resource.codecs.by_version[version]
    raise ConfigurationError(
        f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={name}'"
    )


def collect(
    found: tuple[Resource, Codec] | None, ref: ParamRef | None, namespace: str
) -> Sequence[Object | None]:
    """The parameters that a binding refers to, for a request in a namespace; none at all: nothing to evaluate.

    ``found`` is what the policy's paramKind stands for; without a kind, or without a reference, there is one
    evaluation, without parameters.
    """
    if found is None or ref is None:
        return NONE
    resource, codec = found
    where = ref.get("namespace", "")
    if resource.kind.namespaced:
        where = where or namespace
        if not where:
            raise ConfigurationError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif where:
        raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    params = _referred(resource, ref, where)
    if not params and ref.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [codec.object(param) for param in params]


def _referred(resource: Resource, ref: ParamRef, namespace: str) -> list[Object]:
    cache = resource.cache
    if ref.get("name"):
        document = cache.get(resource.key(namespace, ref["name"]))
        return [] if document is None else [document.hub]
    if ref.get("selector") is None:
        raise ConfigurationError("one of name or selector must be provided")
    try:
        selector = label_selector(ref["selector"])
    except ValueError as e:
        raise ConfigurationError(str(e)) from None
    documents = (cache.documents[key] for key in cache.range(namespace))
    return [document.hub for document in documents if selector.matches(document.labels)]

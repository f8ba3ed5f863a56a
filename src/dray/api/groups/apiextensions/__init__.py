"""apiextensions.k8s.io: definitions of custom resources, and the kinds they make.

``accept`` gives a definition the status that lets it be served, ``custom_kinds`` what to serve. Deleting one marks it
with the finalizer ``CLEANUP``: whoever serves it removes its objects first, then the finalizer.
"""

from __future__ import annotations

from dray.api.groups.apiextensions import v1beta1
from dray.api.groups.apiextensions.customresource import (
    CustomResourceStatusStrategy,
    CustomResourceStrategy,
    custom_kinds,
)
from dray.api.groups.apiextensions.customresourcedefinition import (
    CLEANUP_FINALIZER,
    CustomResourceDefinitionStatusStrategy,
    CustomResourceDefinitionStrategy,
    default,
    is_true,
)
from dray.api.groups.apiextensions.status import accept_names
from dray.api.scheme.kinds import Kind, Version
from dray.api.scheme.printers import DEFAULT_PRINTER

__all__ = [
    "CLEANUP_FINALIZER",
    "CUSTOM_RESOURCE_DEFINITION",
    "KINDS",
    "CustomResourceStatusStrategy",
    "CustomResourceStrategy",
    "accept_names",
    "custom_kinds",
    "is_true",
]


CUSTOM_RESOURCE_DEFINITION = Kind(
    group="apiextensions.k8s.io",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    namespaced=False,
    versions=(
        Version(name="v1", type="apiextensions/v1.CustomResourceDefinition", default=default),
        # Stored by upstream, served by no release.
        Version(
            name="v1beta1",
            type="apiextensions/v1beta1.CustomResourceDefinition",
            default=v1beta1.default,
            to_hub=v1beta1.to_hub,
        ),
    ),
    storage="v1",
    prefix="apiextensions.k8s.io/customresourcedefinitions",
    strategy=CustomResourceDefinitionStrategy(),
    subresources={"status": CustomResourceDefinitionStatusStrategy()},
    printer=DEFAULT_PRINTER,
)
KINDS = (CUSTOM_RESOURCE_DEFINITION,)

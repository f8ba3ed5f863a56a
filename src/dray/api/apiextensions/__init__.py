"""apiextensions.k8s.io: definitions of custom resources, and the kinds they make.

``accept`` gives a definition the status that lets it be served, ``custom_kinds`` what to serve. Deleting one marks it
with the finalizer ``CLEANUP``: whoever serves it removes its objects first, then the finalizer.
"""

from __future__ import annotations

from dray.api.apiextensions.custom import CustomRules, CustomStatus, custom_kinds
from dray.api.apiextensions.definition import CLEANUP, DefinitionRules, DefinitionStatus, default, is_true
from dray.api.apiextensions.naming import accept
from dray.api.kinds import Kind, Version
from dray.api.printing import PLAIN

__all__ = [
    "CLEANUP",
    "DEFINITION",
    "KINDS",
    "CustomRules",
    "CustomStatus",
    "accept",
    "custom_kinds",
    "is_true",
]


DEFINITION = Kind(
    group="apiextensions.k8s.io",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    namespaced=False,
    versions=(Version(name="v1", type="apiextensions/v1.CustomResourceDefinition", default=default),),
    storage="v1",
    prefix="apiextensions.k8s.io/customresourcedefinitions",
    rules=DefinitionRules(),
    views={"status": DefinitionStatus()},
    printer=PLAIN,
)
KINDS = (DEFINITION,)

"""Small pods and claims for tests of the classic generation."""

from __future__ import annotations

from typing import Any

from dray.api.release import V1_30, EffectiveVersion, Release
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.classic.attempt import ClassicAttempt
from dray.placement.classic.cache import ClassicCache
from dray.placement.classic.plugin import ClassicPlugin
from dray.placement.classic.quirks import ClassicQuirks
from dray.placement.classic.structured_parameters import StructuredClaim

Doc = dict[str, Any]


def wanted(*selectors: str, only: str = "", shareable: bool = False) -> StructuredClaim:
    requests = [{"namedResources": {"selector": s}} for s in selectors]
    filters = [{"driverName": "d", "namedResources": {"selector": only}}] if only else []
    return StructuredClaim(
        "d",
        {"filters": filters},
        {"shareable": shareable, "driverRequests": [{"driverName": "d", "requests": requests}]},
    )


def pod(*entries: str) -> PodInfo:
    claims = [{"name": e, "resourceClaimName": e} for e in entries]
    spec = {"containers": [], "resourceClaims": claims}
    return PodInfo({"metadata": {"name": "p", "namespace": "ns", "uid": "p"}, "spec": spec})


def claim(name: str, **more: Any) -> Doc:
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "resourceVersion": "1",
        **more.pop("metadata", {}),
    }
    return {"metadata": metadata, "spec": {"resourceClassName": "c", **more.pop("spec", {})}, **more}


def node(name: str) -> NodeInfo:
    return NodeInfo(name)


def plugin(
    *claims: Doc,
    structured: bool = False,
    release: Release | None = V1_30,
    context: Doc | None = None,
) -> ClassicPlugin:
    """With these claims, their class c, and the scheduling context of pod p. No release: all generations are served."""
    cache: Any = ClassicCache()
    cache.classes["c"] = {"driverName": "d", "structuredParameters": structured}
    for document in claims:
        cache.set_claim(document)
    if context is not None:
        owner = {"uid": "p", "controller": True}
        cache.contexts["ns", "p"] = {**context, "metadata": {"uid": "x", "ownerReferences": [owner]}}
    return ClassicPlugin(
        cache, ClassicQuirks.of(EffectiveVersion(release)), context_kind="PodSchedulingContext"
    )


def begun(found: ClassicPlugin, subject: PodInfo) -> ClassicAttempt:
    attempt = found.pre_filter(subject)
    assert isinstance(attempt, ClassicAttempt)
    return attempt

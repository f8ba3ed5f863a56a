"""What the API server counts about itself, under upstream's names."""

from __future__ import annotations

from typing import Final

from dray.metrics.registry import Registry
from dray.server.endpoints.requestinfo import RequestInfo

#: Upstream's buckets for request durations, in seconds.
_BUCKETS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip


class Metrics:
    """The counters that the request handlers feed. Gauges are added to the registry by what they are read from."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.requests = self.registry.counter(
            "apiserver_request_total",
            "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, "
            "component, and HTTP response code.",
            *("code", "component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"),
            stability="STABLE",
        )
        self.durations = self.registry.histogram(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds for each verb, dry run value, group, version, resource, "
            "subresource, scope and component.",
            *("component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"),
            bounds=_BUCKETS,
            stability="STABLE",
        )
        self.rejections = self.registry.counter(
            "apiserver_dropped_requests_total",
            "Requests turned away while too many were in flight.",
            "request_kind",
            stability="STABLE",
        )


def request_labels(info: RequestInfo) -> tuple[str, ...]:
    """What a request to a resource is counted as, but for its code and whether it is a dry run."""
    scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
    return (
        "apiserver", "", info.group, info.resource, scope, info.subresource, info.verb.upper(), info.version,
    )  # fmt: skip


def other_labels(verb: str) -> tuple[str, ...]:
    """The same for a request to no resource that is served."""
    return "apiserver", "", "", "", "", "", verb, ""

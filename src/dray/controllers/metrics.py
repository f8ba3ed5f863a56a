"""The metrics that all controllers of a process share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.metrics.registry import Registry
from dray.metrics.workqueue import QueueMetrics

if TYPE_CHECKING:
    pass


class Metrics:
    """What all controllers of a process count."""

    def __init__(self) -> None:
        self.registry = registry = Registry()
        self.queues = QueueMetrics(registry)
        self.claims_created = registry.counter(
            "resourceclaim_controller_creates_total",
            "Number of ResourceClaims creation requests, categorized by creation status and admin access",
            "status", "admin_access",
        )  # fmt: skip
        self.evicted = registry.counter(
            "device_taint_eviction_controller_pod_deletions_total",
            "Total number of Pods deleted by DeviceTaintEvictionController since its start.",
        )
        self.eviction_seconds = registry.histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion "
            "via DeviceTaintEvictionController.",
            bounds=(0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240),
        )
        self.pools_counted = registry.counter(
            "resourcepoolstatusrequest_controller_requests_processed_total",
            "Total number of ResourcePoolStatusRequests processed",
            "driver_name",
        )

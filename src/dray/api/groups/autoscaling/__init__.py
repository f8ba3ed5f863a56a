"""autoscaling: how many replicas a workload should have. No controller here changes them; metrics come from elsewhere."""

from __future__ import annotations

from dray.api.groups.autoscaling import horizontalpodautoscaler

KINDS = (horizontalpodautoscaler.KIND,)

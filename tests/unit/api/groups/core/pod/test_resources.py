"""The quality of service of pods."""

from __future__ import annotations

import pytest

from dray.api.groups.core.pod.resources import qos_class


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}],
            "Guaranteed",
        ),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, {}],
            "Burstable",
        ),
        ([{"limits": {"example.com/a": "1"}}], "BestEffort"),
    ],
)
def test_quality_of_service(resources, quality):
    assert qos_class({"containers": [{"resources": r} for r in resources]}) == quality

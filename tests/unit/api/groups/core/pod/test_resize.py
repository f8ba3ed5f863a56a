"""Resizing pods: cpu and memory may change, claims may not."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.groups.core.pod.options import PodValidationOptions
from dray.api.groups.core.pod.resize import check_resize
from dray.api.release import EffectiveVersion


def pod(cpu: str, *, claim: str = "gpu", **status: Any) -> Any:
    resources = {"requests": {"cpu": cpu}, "claims": [{"name": claim}]}
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
        "status": {"qosClass": "Burstable", **status},
    }


def problems(new: Any, old: Any, *, with_claims: bool = True) -> list[str]:
    options = PodValidationOptions(gates=EffectiveVersion().gates(), resizes_with_claims=with_claims)
    return [str(problem) for problem in check_resize(new, old, options)]


@pytest.mark.parametrize(
    "status", [{}, {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c"}]}]
)
def test_a_pod_with_claims_can_be_resized_since_1_37(status: Any) -> None:
    assert problems(pod("2", **status), pod("1", **status)) == []
    assert len(problems(pod("2", **status), pod("1", **status), with_claims=False)) == 1 + bool(status)


def test_the_claims_themselves_cannot_be_changed() -> None:
    [problem] = problems(pod("2", claim="other"), pod("1"))
    assert "only cpu and memory resources are mutable" in problem

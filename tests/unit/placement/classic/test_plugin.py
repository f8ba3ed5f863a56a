"""Which pods with classic claims are tried, and why others are not."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.release import V1_27
from dray.placement.cache.pods import PodInfo
from dray.placement.classic.attempt import ClassicAttempt
from dray.placement.outcome import Failure, Gated
from dray.placement.status import Rejection
from tests.support.classic import Doc, begun, claim, plugin, pod


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (claim("a", spec={"allocationMode": "Immediate"}), "unallocated immediate resourceclaim"),
        (claim("a", spec={"resourceClassName": "x"}), "resource class x does not exist"),
        (claim("a", status={"allocation": {}, "deallocationRequested": True}), "resourceclaim must be reallocated"),
        (claim("a", status={"allocation": {}, "reservedFor": [{"uid": "q"}]}), "resourceclaim in use"),
    ],
)  # fmt: skip
def test_a_pod_waits_until_its_claim_can_be_used(document: Doc, said: str) -> None:
    rejection = plugin(document).pre_filter(pod("a"))
    assert isinstance(rejection, Rejection)
    assert rejection.reasons == (said,)


def test_a_pod_whose_claim_is_being_deleted_is_not_tried() -> None:
    leaving = claim("a", metadata={"deletionTimestamp": "now"})
    assert plugin(leaving).pre_filter(pod("a")) == Gated('resourceclaim "a" is being deleted')


def test_a_scheduling_context_of_another_pod_is_an_error() -> None:
    found: Any = plugin(claim("a"), context={})
    found.classic_cache.contexts["ns", "p"]["metadata"]["ownerReferences"] = []
    failure = found.pre_filter(pod("a"))
    assert isinstance(failure, Failure)
    assert failure.message == (
        'running PreFilter plugin "DynamicResources": '
        "PodSchedulingContext object with UID x is not owned by Pod ns/p"
    )


def test_until_1_27_a_generated_claim_is_waited_for_by_its_name() -> None:
    subject = PodInfo(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
            "spec": {"containers": [], "resourceClaims": [{"name": "e", "source": {"resourceClaimTemplateName": "t"}}]},
        }  # type: ignore[typeddict-unknown-key]
    )  # fmt: skip
    found: Any = plugin(release=V1_27)
    assert found.pre_enqueue(subject) == ""
    rejection = found.pre_filter(subject)
    assert isinstance(rejection, Rejection)
    assert rejection.reasons == ('waiting for dynamic resource controller to create the resourceclaim "p-e"',)
    owner = {"uid": "p", "controller": True}
    found.classic_cache.set_claim(claim("p-e", metadata={"ownerReferences": [owner]}))
    assert begun(found, subject).claims[0]["metadata"]["name"] == "p-e"
    found.classic_cache.set_claim(claim("p-e", metadata={"ownerReferences": [], "resourceVersion": "2"}))
    rejection = found.pre_filter(subject)
    assert isinstance(rejection, Rejection)
    assert rejection.reasons == ("ResourceClaim ns/p-e was not created for pod ns/p (pod is not owner)",)


def test_a_claim_with_32_consumers_is_in_use_and_tried_only_as_in_1_30() -> None:
    status = {"allocation": {"shareable": True}, "reservedFor": [{"uid": str(n)} for n in range(32)]}
    rejection = plugin(claim("a", status=status), release=None).pre_filter(pod("a"))
    assert isinstance(rejection, Rejection)
    assert rejection.reasons == ("resourceclaim in use",)
    assert isinstance(plugin(claim("a", status=status)).pre_filter(pod("a")), ClassicAttempt)

"""Claims of the classic generation: what the scheduler would allocate, ask and say."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.classic.attempt import ClaimInformation, ClassicAttempt, ClassicPlan
from dray.placement.classic.cache import FINALIZER, ClassicCache
from dray.placement.classic.mixed import MixedAttempt
from dray.placement.classic.structured_parameters import (
    NamedResources,
    NodeDriver,
    StructuredClaim,
    SuitabilityError,
    allocate,
    allocated_instances,
)
from dray.placement.decision import Bind, Failure, Unschedulable
from dray.placement.plugins.dynamic_resources import NodePlan
from dray.placement.status import Gated, Rejection
from dray.scheduler.classic.plugin import ClassicPlugin
from dray.scheduler.classic.writer import ClassicWriter

Doc = dict[str, Any]


def offer(*colors: str, node: str = "n") -> NamedResources:
    instances = [
        {"name": f"i-{i}", "attributes": [{"name": "color", "string": color}]}
        for i, color in enumerate(colors)
    ]
    return NamedResources({"nodeName": node, "driverName": "d", "namedResources": {"instances": instances}})


def wanted(*selectors: str, only: str = "", shareable: bool = False) -> StructuredClaim:
    requests = [{"namedResources": {"selector": s}} for s in selectors]
    filters = [{"driverName": "d", "namedResources": {"selector": only}}] if only else []
    return StructuredClaim(
        "d",
        {"filters": filters},
        {"shareable": shareable, "driverRequests": [{"driverName": "d", "requests": requests}]},
    )


def nothing_more(others: Container[str]) -> None:
    """The pod has no claims of today's."""


def names(result: Any) -> list[str]:
    return [name for _, name in allocated_instances(result)]


def test_requests_take_the_first_instances_that_are_free_and_selected() -> None:
    offers = {NodeDriver("n", "d"): [offer("white", "black", "black", "black")]}
    black = 'attributes.string["color"] == "black"'
    assert names(allocate(wanted(black, black), "n", offers, {NodeDriver("n", "d"): {"i-1"}})) == [
        "i-2",
        "i-3",
    ]
    assert allocate(wanted(black, black, black, black), "n", offers, {}) is None
    assert allocate(wanted(black), "elsewhere", offers, {}) is None


def test_the_filter_of_the_class_holds_for_every_request() -> None:
    offers = {NodeDriver("n", "d"): [offer("white", "black")]}
    chosen = allocate(wanted("true", only='attributes.string["color"] == "black"'), "n", offers, {})
    assert names(chosen) == ["i-1"]


def test_a_selector_that_fails_is_told_with_node_and_driver() -> None:
    offers = {NodeDriver("n", "d"): [offer("white")]}
    with pytest.raises(
        SuitabilityError, match='checking node "n" and resources of driver "d": evaluate request'
    ):
        allocate(wanted('attributes.string["size"] == "x"'), "n", offers, {})


def test_a_selector_that_fails_is_told_even_if_another_request_cannot_be_met() -> None:
    offers = {NodeDriver("n", "d"): [offer("white")]}
    with pytest.raises(SuitabilityError):
        allocate(wanted("false", 'attributes.string["size"] == "x"'), "n", offers, {})


@given(
    st.lists(st.sampled_from(["black", "white"]), max_size=6), st.lists(st.booleans(), min_size=1, max_size=4)
)
def test_no_instance_is_given_twice(colors: list[str], asked: list[bool]) -> None:
    selectors = ['attributes.string["color"] == "black"' if black else "true" for black in asked]
    result = allocate(wanted(*selectors), "n", {NodeDriver("n", "d"): [offer(*colors)]}, {})
    if result is not None:
        assert len(set(names(result))) == len(asked)


# -- attempts


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


@pytest.fixture
def classic() -> Callable[..., ClassicPlugin]:
    def make(
        *claims: Doc,
        structured: bool = False,
        alone: bool = True,
        early: bool = False,
        context: Doc | None = None,
    ) -> ClassicPlugin:
        classic_cache = ClassicCache()
        classic_cache.classes["c"] = {"driverName": "d", "structuredParameters": structured}
        for document in claims:
            classic_cache.set_claim(document)
        if context is not None:
            owner = {"uid": "p", "controller": True}
            classic_cache.contexts["ns", "p"] = {
                **context,
                "metadata": {"uid": "x", "ownerReferences": [owner]},
            }
        return ClassicPlugin(classic_cache, ClassicWriter(None), alone=alone, early=early)  # type: ignore[arg-type]

    return make


def begun(found: ClassicPlugin, subject: PodInfo) -> ClassicAttempt:
    attempt = found.begin(subject, nothing_more)
    assert isinstance(attempt, ClassicAttempt)
    return attempt


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (claim("a", spec={"allocationMode": "Immediate"}), "unallocated immediate resourceclaim"),
        (claim("a", spec={"resourceClassName": "x"}), "resource class x does not exist"),
        (claim("a", status={"allocation": {}, "deallocationRequested": True}), "resourceclaim must be reallocated"),
        (claim("a", status={"allocation": {}, "reservedFor": [{"uid": "q"}]}), "resourceclaim in use"),
    ],
)  # fmt: skip
def test_a_pod_waits_for_what_others_have_to_do_first(classic: Any, document: Doc, said: str) -> None:
    rejection = classic(document).begin(pod("a"), nothing_more)
    assert isinstance(rejection, Rejection)
    assert rejection.reasons == (said,)


def test_a_pod_whose_claim_is_about_to_go_is_not_tried(classic: Any) -> None:
    leaving = claim("a", metadata={"deletionTimestamp": "now"})
    assert classic(leaving).begin(pod("a"), nothing_more) == Gated('resourceclaim "a" is being deleted')


def test_one_delayed_claim_gets_its_node_selected_at_once(classic: Any) -> None:
    attempt = begun(classic(claim("a")), pod("a"))
    attempt.on(node("n-1"))
    attempt.on(node("n-0"))
    negotiation = attempt.negotiate("n-1")
    assert (negotiation.selected, negotiation.potential) == ("n-1", ["n-0", "n-1"])


def test_no_more_nodes_are_named_than_a_negotiation_can_hold_and_the_chosen_one_is_among_them(
    classic: Any,
) -> None:
    attempt = begun(classic(claim("a")), pod("a"))
    for number in range(200):
        attempt.on(node(f"n-{number:03}"))
    potential = attempt.negotiate("n-199").potential
    assert potential is not None
    assert len(potential) == 128
    assert potential == sorted(potential)
    assert "n-199" in potential


def test_two_delayed_claims_wait_for_both_answers(classic: Any) -> None:
    spec = {"potentialNodes": ["n"]}
    answers = [{"name": "a"}]
    attempt = begun(classic(claim("a"), claim("b"), context={"spec": spec, "status": {"resourceClaims": answers}}), pod("a", "b"))  # fmt: skip
    attempt.on(node("n"))
    assert not attempt.negotiate("n")
    answers.append({"name": "b"})
    attempt = begun(classic(claim("a"), claim("b"), context={"spec": spec, "status": {"resourceClaims": answers}}), pod("a", "b"))  # fmt: skip
    attempt.on(node("n"))
    assert attempt.negotiate("n").selected == "n"


def test_a_node_that_a_driver_calls_unsuitable_is_passed_over(classic: Any) -> None:
    status = {"resourceClaims": [{"name": "a", "unsuitableNodes": ["n"]}]}
    attempt = begun(classic(claim("a"), context={"status": status}), pod("a"))
    assert isinstance(attempt.on(node("n")), Rejection)
    assert isinstance(attempt.on(node("m")), ClassicPlan)


@pytest.mark.parametrize(("alone", "selected"), [(True, None), (False, "n")])
def test_a_pod_with_both_kinds_of_claims_is_stuck_only_as_in_130(
    classic: Any, alone: bool, selected: str | None
) -> None:
    found = classic(claim("a"), claim("b"), alone=alone)
    subject = pod("a", "b")
    entries = [ClaimInformation("a", claim("a")), ClaimInformation("b", claim("b"), wanted=wanted("true"))]
    attempt = ClassicAttempt(subject, entries, None, found.classic_cache, as_in_130=alone)
    assert attempt.negotiate("n").selected == selected


@pytest.mark.parametrize("alone", [True, False])
def test_reservations_by_drivers_are_taken_back_while_a_pod_waits_only_as_in_130(
    classic: Any, alone: bool
) -> None:
    status = {"allocation": {}, "reservedFor": [{"uid": "p"}]}
    answer = {
        "spec": {"potentialNodes": ["n"], "selectedNode": "n"},
        "status": {"resourceClaims": [{"name": "b"}]},
    }
    found = classic(claim("a", status=status), claim("b"), alone=alone, context=answer)
    attempt = begun(found, pod("a", "b"))
    attempt.on(node("n"))
    decision = found.refine(attempt, Bind("n", ClassicPlan()))
    assert isinstance(decision, Unschedulable)
    assert (decision.first is not None) is alone


def test_a_negotiation_of_another_pod_is_an_error(classic: Any) -> None:
    found = classic(claim("a"), context={})
    found.classic_cache.contexts["ns", "p"]["metadata"]["ownerReferences"] = []
    failure = found.begin(pod("a"), nothing_more)
    assert isinstance(failure, Failure)
    assert failure.message == (
        'running PreFilter plugin "DynamicResources": '
        "PodSchedulingContext object with UID x is not owned by Pod ns/p"
    )


def test_of_several_claims_the_first_that_rules_a_node_out_says_why(classic: Any) -> None:
    found = classic(claim("a"), claim("b"), structured=True)
    attempt = begun(found, pod("a", "b"))
    attempt.entries[1] = ClaimInformation("b", claim("b"), nodes=lambda name, labels: False)
    rejection = attempt.on(node("n"))
    assert isinstance(rejection, Rejection)
    assert "unsuitable" in rejection.reasons[0]
    attempt.entries.reverse()
    rejection = attempt.on(node("n"))
    assert isinstance(rejection, Rejection)
    assert "excluded" in rejection.reasons[0]


def test_a_pod_whose_claims_are_all_there_is_bound(classic: Any) -> None:
    found = classic(claim("a", status={"allocation": {"shareable": True}}))
    decision = found.refine(begun(found, pod("a")), Bind("n", ClassicPlan()))
    assert isinstance(decision, Bind)
    assert decision.carry is not None


def test_a_waiting_pod_publishes_before_it_says_so(classic: Any) -> None:
    found = classic(claim("a"))
    decision = found.refine(begun(found, pod("a")), Bind("n", ClassicPlan()))
    assert isinstance(decision, Unschedulable)
    assert (decision.message, decision.waiting) == ("waiting for resource driver", True)
    assert decision.first is not None


def test_promised_instances_are_taken_until_they_are_given_back(classic: Any) -> None:
    found = classic(claim("a"), claim("b"), structured=True)
    slice_ = {"metadata": {"name": "s"}, "nodeName": "n", "driverName": "d", "namedResources": {"instances": [{"name": "i"}]}}  # fmt: skip
    found.classic_cache.set_slice(slice_)
    given_ = begun(found, pod("a")).on(node("n"))
    assert isinstance(given_, ClassicPlan)
    found.classic_cache.assume(claim("a"), given_.results[0])
    assert isinstance(begun(found, pod("b")).on(node("n")), Rejection)
    assert isinstance(found.begin(pod("a"), nothing_more), Rejection)  # in the process of being allocated
    found.classic_cache.forget(claim("a"))
    assert isinstance(begun(found, pod("b")).on(node("n")), ClassicPlan)


def test_older_news_of_a_claim_is_passed_over() -> None:
    classic_cache = ClassicCache()
    classic_cache.set_claim(claim("a", metadata={"resourceVersion": "5", "finalizers": [FINALIZER]}))
    classic_cache.set_claim(claim("a", metadata={"resourceVersion": "4"}))
    found = classic_cache.claim("ns", "a")
    assert found is not None
    assert found["metadata"]["resourceVersion"] == "5"


# -- as 1.26 and 1.27 have it


def test_a_claim_yet_to_be_made_is_waited_for_by_its_name(classic: Any) -> None:
    subject = PodInfo(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
            "spec": {"containers": [], "resourceClaims": [{"name": "e", "source": {"resourceClaimTemplateName": "t"}}]},
        }
    )  # fmt: skip
    found = classic(early=True)
    assert found.gate(subject, nothing_more) == ""
    rejection = found.begin(subject, nothing_more)
    assert isinstance(rejection, Rejection)
    assert rejection.reasons == ('waiting for dynamic resource controller to create the resourceclaim "p-e"',)
    owner = {"uid": "p", "controller": True}
    found.classic_cache.set_claim(claim("p-e", metadata={"ownerReferences": [owner]}))
    assert begun(found, subject).claims[0]["metadata"]["name"] == "p-e"
    found.classic_cache.set_claim(claim("p-e", metadata={"ownerReferences": [], "resourceVersion": "2"}))
    rejection = found.begin(subject, nothing_more)
    assert isinstance(rejection, Rejection)
    assert rejection.reasons == ("ResourceClaim ns/p-e was not created for pod ns/p (pod is not owner)",)


def test_waiting_for_a_driver_counted_as_an_error(classic: Any) -> None:
    found = classic(claim("a"), early=True)
    decision = found.refine(begun(found, pod("a")), Bind("n", ClassicPlan()))
    assert isinstance(decision, Unschedulable)
    assert (decision.reason, decision.waiting) == ("SchedulerError", True)
    assert decision.message.endswith("waiting for resource driver to allocate resource")


# -- beside today's claims


class Today:
    """The part of an attempt that deals with today's claims."""

    claims: tuple[Doc, ...] = ()
    scores_matter = False
    leftover_claim = None
    failures: ClassVar[Doc] = {}

    def __init__(self, *nodes: str, unavailable: Doc | None = None) -> None:
        self.nodes = nodes
        self.unavailable_claims = unavailable or {}

    def on(self, node: NodeInfo) -> NodePlan | Rejection:
        return NodePlan((), ()) if node.name in self.nodes else Rejection("x", ("no device",))

    def score(self, plan: NodePlan) -> int:
        return 1


def mixed(found: ClassicPlugin, subject: PodInfo, today: Today) -> MixedAttempt:
    seen: list[Any] = []
    attempt = found.begin(subject, lambda others: seen.append(others) or today)
    assert seen == [frozenset({"a"})]
    assert isinstance(attempt, MixedAttempt)
    return attempt


def test_a_node_must_suit_both_generations(classic: Any) -> None:
    status = {"resourceClaims": [{"name": "a", "unsuitableNodes": ["n-0"]}]}
    found = classic(claim("a"), alone=False, context={"status": status})
    attempt = mixed(found, pod("a"), Today("n-0", "n-1"))
    suits = [name for name in ("n-0", "n-1", "n-2") if not isinstance(attempt.on(node(name)), Rejection)]
    assert suits == attempt.classic.feasible == ["n-1"]


def test_a_mixed_pod_is_bound_only_when_drivers_have_done_their_part(classic: Any) -> None:
    found = classic(claim("a"), alone=False)
    attempt = mixed(found, pod("a"), Today("n"))
    plan = attempt.on(node("n"))
    assert isinstance(found.refine(attempt, Bind("n", plan)), Unschedulable)
    found = classic(claim("a", status={"allocation": {}}), alone=False)
    decision = found.refine(mixed(found, pod("a"), Today("n")), Bind("n", plan, ({"its": "own"},)))
    assert isinstance(decision, Bind)
    assert decision.plan == NodePlan((), ())
    assert decision.claims == ({"its": "own"},)
    assert decision.carry is not None


@pytest.mark.parametrize("users", [["p"], ["p", "q"], []])
def test_what_a_driver_allocated_for_a_pod_that_cannot_have_the_rest_is_given_back(
    classic: Any, users: list[str]
) -> None:
    status = {"allocation": {"shareable": True}, "reservedFor": [{"uid": uid} for uid in users]}
    found = classic(claim("a", status=status), alone=False)
    decision = found.refine(
        mixed(found, pod("a"), Today()), Unschedulable("no device", frozenset({"DynamicResources"}))
    )
    assert (decision.first is not None) is (users == ["p"])


def test_a_claim_with_all_the_consumers_it_may_have_is_in_use(classic: Any) -> None:
    status = {"allocation": {"shareable": True}, "reservedFor": [{"uid": str(n)} for n in range(32)]}
    rejection = classic(claim("a", status=status), alone=False).begin(pod("a"), nothing_more)
    assert isinstance(rejection, Rejection)
    assert rejection.reasons == ("resourceclaim in use",)
    assert isinstance(classic(claim("a", status=status)).begin(pod("a"), nothing_more), ClassicAttempt)

"""From a pod or a claim to an explanation: how it stands, why, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from dray.api import claims as pod_claims
from dray.api import pods
from dray.api.claims import ClaimNotCreated
from dray.api.groups.resource.classic import bridge
from dray.api.identity import ObjectKey, object_key
from dray.explain import advice, allocated, pending, scheduled
from dray.explain.model.cluster import Cluster
from dray.explain.model.explanation import Explanation, Outcome, RequestExplanation
from dray.explain.nodes.trial import NodeOutcome, Progress, Trial, evaluate_nodes

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodResourceClaim
    from dray.api.types.resource import (
        DeviceSubRequest,
        ExactDeviceRequest,
        ResourceClaim,
        ResourceClaimTemplate,
    )

_CAUSES_SHOWN = 3
ADMIN_LABEL = "resource.kubernetes.io/admin-access"


class PodClaims(NamedTuple):
    """The claims of a pod, and what keeps it from being scheduled whatever nodes there are."""

    claims: list[ResourceClaim]
    facts: list[str]
    advice: list[str]
    refused: bool = False


def explain_pod(cluster: Cluster, key: ObjectKey, *, progress: Progress | None = None) -> Explanation:
    """Explain a pod. A claim that has not been made from its template yet counts as it will be made."""
    pod = cluster.pods[key]
    subject = f"pod {key}"
    settled = scheduled.explain_scheduled_pod(cluster, key, pod) or scheduled.explain_binding_conditions(
        cluster, key, pod
    )
    if settled is not None:
        return settled
    said = _scheduler_message(pod)
    if blind := _not_allowed_to_read(cluster, subject, said):
        return blind
    gathered = claims_of_pod(cluster, key, pod)
    if gathered.facts:
        headline = gathered.facts[0]
        outcome = Outcome.REFUSED if gathered.refused else Outcome.PENDING
        return Explanation(
            subject=subject,
            outcome=outcome,
            headline=headline,
            scheduler=said,
            facts=tuple(gathered.facts[1:]),
            advice=tuple(gathered.advice),
        )
    modern = [one for one in gathered.claims if not bridge.is_classic(one)]
    found = _explain_on_nodes(cluster, subject, pod, modern, said, progress)
    return replace(found, facts=(*_classic(gathered.claims), *found.facts))


def _classic(claims: Sequence[ResourceClaim]) -> Iterator[str]:
    """Claims of the classic API are allocated by the controllers of drivers, who alone know what they have."""
    for claim in claims:
        if bridge.is_classic(claim) and pod_claims.allocation(claim) is None:
            yield f"claim {object_key(claim)} is a classic one, and for the controller of its driver to allocate"


def explain_claim(cluster: Cluster, key: ObjectKey, *, progress: Progress | None = None) -> Explanation:
    claim = cluster.claims[key]
    settled = scheduled.explain_allocated_claim(cluster, key, claim)
    if settled is not None:
        return settled
    subject = f"claim {key}"
    if blind := _not_allowed_to_read(cluster, subject, ""):
        return blind
    facts, help, refused = [], [], False
    for fact, text, bad in _claim_problems(cluster, claim):
        facts.append(fact)
        help.append(text)
        refused |= bad
    if facts:
        return Explanation(
            subject=subject,
            outcome=Outcome.REFUSED if refused else Outcome.PENDING,
            headline=facts[0],
            facts=tuple(facts[1:]),
            advice=tuple(filter(None, help)),
        )
    users = _users_of(cluster, key)
    if bridge.is_classic(claim):
        headline = "it is a classic one, and for the controller of its driver to allocate"
        return Explanation(subject=subject, outcome=Outcome.PENDING, headline=headline)
    pod = cluster.pods[users[0]] if users else None
    found = _explain_on_nodes(
        cluster, subject, pod, [claim], _scheduler_message(pod) if pod is not None else "", progress
    )
    if users:
        who = f"pod {users[0]} uses it" + (f", and {len(users) - 1} others" if len(users) > 1 else "")
    else:
        who = "no pod uses it; a claim is allocated when a pod that uses it is scheduled"
    return replace(found, facts=(who, *found.facts))


def _not_allowed_to_read(cluster: Cluster, subject: str, said: str) -> Explanation | None:
    """The explanation for a user who may not read nodes or devices, without which there is no other; None if they may."""
    missing = [kind for kind in ("Node", "ResourceSlice", "DeviceClass") if kind in cluster.snapshot.unread]
    if not missing:
        return None
    return Explanation(
        subject=subject,
        outcome=Outcome.PENDING,
        headline=f"why cannot be told, as you may not read {', '.join(missing)}",
        scheduler=said,
        advice=(
            "have somebody allow you to list nodes, deviceclasses and resourceslices, or ask for a snapshot",
        ),
    )


def _users_of(cluster: Cluster, key: ObjectKey) -> list[ObjectKey]:
    return [
        pod_key
        for pod_key, pod in cluster.pods.items()
        if pod_key.namespace == key.namespace
        and not pods.is_done(pod)
        and any(reference.claim == key.name for reference in pod_claims.references(pod))
    ]


def _scheduler_message(pod: Pod) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


# --- whatever nodes there are ---


def claims_of_pod(cluster: Cluster, key: ObjectKey, pod: Pod) -> PodClaims:
    """The claims a pod has or will have."""
    found, facts, help = [], [], []
    refused = False
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    if gates:
        names = ", ".join(gate["name"] for gate in gates)
        facts.append(f"the pod has scheduling gates: {names}")
        help.append("whoever put the gates there must remove them before the pod is scheduled")
    for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
        claim, fact, text = _claim_of(cluster, key, pod, entry)
        if fact:
            facts.append(fact)
            help.append(text)
        if claim is None:
            continue
        for fact, text, bad in _claim_problems(cluster, claim):
            facts.append(fact)
            help.append(text)
            refused |= bad
        found.append(claim)
    return PodClaims(found, facts, [text for text in help if text], refused)


def _claim_of(
    cluster: Cluster, key: ObjectKey, pod: Pod, entry: PodResourceClaim
) -> tuple[ResourceClaim | None, str, str]:
    """The claim that an entry of the pod stands for, or what is wrong with it and what would help."""
    _, template_name = pod_claims.claim_and_template_names(entry)
    try:
        reference = pod_claims.reference(pod, entry)
    except ClaimNotCreated as problem:
        template = cluster.templates.get(ObjectKey(key.namespace, template_name or ""))
        if template is not None:
            return _from_template(key, entry["name"], template), "", ""
        if template_name is None:
            return None, str(problem), "name a resourceClaimName or a resourceClaimTemplateName"
        known = [k.name for k in cluster.templates if k.namespace == key.namespace]
        fact = f"there is no ResourceClaimTemplate {template_name} in namespace {key.namespace}"
        return None, fact, _did_you_mean(template_name, known) or f"create the template {template_name}"
    if reference.claim is None:
        return None, "", ""
    claim = cluster.claims.get(ObjectKey(key.namespace, reference.claim))
    if claim is None:
        known = [k.name for k in cluster.claims if k.namespace == key.namespace]
        fact = f"there is no ResourceClaim {reference.claim} in namespace {key.namespace}"
        help = (
            _did_you_mean(reference.claim, known)
            or f"create the claim {reference.claim}; if it was refused, dray explain -f FILE says why"
        )
        return None, fact, help
    if (claim.get("metadata") or {}).get("deletionTimestamp"):
        fact = f"claim {reference.claim} is being deleted"
        return claim, fact, "; ".join(scheduled.holders_of_claim(cluster, object_key(claim), claim))
    if reference.generated and (foreign := pod_claims.not_for_pod(pod, claim)):
        return claim, foreign, f"delete claim {reference.claim}; one for this pod will then be made"
    return claim, "", ""


def _from_template(key: ObjectKey, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
    """The claim that would be made."""
    inner = (template.get("spec") or {}).get("spec") or {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{key.name}-{entry}", "namespace": key.namespace},
        "spec": inner,
    }


def _claim_problems(cluster: Cluster, claim: ResourceClaim) -> Iterator[tuple[str, str, bool]]:
    """What is wrong with an unallocated claim whatever nodes there are: the fact, what helps, is it refused?"""
    if pod_claims.allocation(claim) is not None:
        return
    key = object_key(claim)
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        exact = request.get("exactly")
        if exact and exact.get("adminAccess"):
            yield from _admin_problem(cluster, key, request["name"])
        wanted: list[tuple[str, ExactDeviceRequest | DeviceSubRequest]] = []
        if exact:
            wanted.append((request["name"], exact))
        wanted += [(f"{request['name']}/{one['name']}", one) for one in request.get("firstAvailable") or ()]
        for name, alternative in wanted:
            class_name = alternative.get("deviceClassName") or ""
            if class_name not in cluster.classes:
                fact = f"request {name} of claim {key} wants device class {class_name}, which does not exist"
                there = ", ".join(sorted(cluster.classes)) or "none"
                help = (
                    _did_you_mean(class_name, cluster.classes)
                    or f"create the class, or use one of those there: {there}"
                )
                yield fact, help, False


def _admin_problem(cluster: Cluster, key: ObjectKey, request: str) -> Iterator[tuple[str, str, bool]]:
    namespace = cluster.namespaces.get(key.namespace) or {}
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    if labels.get(ADMIN_LABEL) == "true":
        return
    yield (
        f"request {request} of claim {key} asks for admin access, which namespace {key.namespace} does not allow: "
        "the API server refuses such a claim",
        f"kubectl label namespace {key.namespace} {ADMIN_LABEL}=true (only for those who administer devices), "
        "or remove adminAccess from the request",
        True,
    )


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else ""


# --- on the nodes ---


def _explain_on_nodes(
    cluster: Cluster,
    subject: str,
    pod: Pod | None,
    claims: Sequence[ResourceClaim],
    said: str,
    progress: Progress | None,
) -> Explanation:
    trial = Trial(cluster, pod, claims)
    rejection = trial.pod_filters.prefilter() if trial.pod_filters is not None else None
    if rejection is not None:
        return Explanation(
            subject=subject,
            outcome=Outcome.PENDING,
            headline=f"no node will do: {rejection.reasons[0]}",
            scheduler=said,
            advice=tuple(advice.advise_prefilter(rejection)),
        )
    outcomes = evaluate_nodes(cluster, trial, progress=progress)
    fitting = [one for one in outcomes if one.fits]
    nodes = tuple(pending.group_nodes(cluster, trial, outcomes))
    if fitting:
        first = trial.evaluate(cluster.nodes[fitting[0].node], cluster.usage)
        return Explanation(
            subject=subject,
            outcome=Outcome.FITS,
            headline=f"on {len(fitting)} of {len(outcomes)} nodes, the first being {first.node}",
            scheduler=said,
            facts=tuple(allocated.planned_devices(trial.demands(first.node).documents, first)),
            nodes=nodes,
            advice=_unscheduled(cluster, pod),
        )
    refused = any(one.device_outcome.reasons is not None for one in outcomes)
    requests = pending.explain_requests(cluster, trial, outcomes) if refused else []
    return Explanation(
        subject=subject,
        outcome=Outcome.PENDING,
        headline=_headline(trial, outcomes, requests),
        scheduler=said,
        requests=tuple(requests),
        nodes=nodes,
        advice=tuple(advice.advise(cluster, trial, requests, outcomes)),
    )


def _unscheduled(cluster: Cluster, pod: Pod | None) -> tuple[str, ...]:
    """Advice for a pod that exists and fits, but is not scheduled."""
    if pod is None or not (pod.get("metadata") or {}).get("creationTimestamp"):
        return ()
    scheduler = (pod.get("spec") or {}).get("schedulerName") or "default-scheduler"
    return (f"it should be scheduled any moment; if it is not, is {scheduler} running?",)


def _headline(trial: Trial, outcomes: Sequence[NodeOutcome], requests: Sequence[RequestExplanation]) -> str:
    total = len(outcomes)
    if not total:
        return "there are no nodes"
    errors = [one.device_outcome.error for one in outcomes if one.device_outcome.error]
    if errors:
        return f"allocation ends with an error: {errors[0]}"
    with_devices = [one for one in outcomes if one.devices_fit]
    if with_devices:
        kinds = dict.fromkeys(cause.kind for one in with_devices for cause in one.causes)
        if not trial.all_demands.claims:
            return f"no node takes the pod: {', '.join(kinds)}"
        where = f"{len(with_devices)} of {total} nodes have" if total > 1 else "the node has"
        return f"{where} the devices, but the pod cannot go there: {', '.join(kinds)}"
    elsewhere = [one.allocated_elsewhere for one in outcomes if one.allocated_elsewhere]
    if elsewhere and len(elsewhere) == total:
        return f"claim {elsewhere[0]} is allocated for nodes that are not there"
    for request in requests:
        if not request.considered:
            return "no node has any device"
        wanted = 1 if request.wanted is None else request.wanted
        if not request.usable:
            why = ", ".join(f"{one.count} {one.text}" for one in request.removed[:_CAUSES_SHOWN])
            return f"none of {request.considered} devices can serve request {request.request}: {why}"
        if request.best.usable < wanted:
            return (
                f"request {request.request} wants {wanted} devices on one node; "
                f"the best node, {request.best.name}, has {request.best.usable} usable"
            )
    found = {id(one.device_outcome): one.device_outcome.reasons for one in outcomes}.values()
    together = dict.fromkeys(text for reasons in found if reasons for text in reasons.together)
    return f"there are enough devices one by one, but not together: {'; '.join(list(together)[:3])}"

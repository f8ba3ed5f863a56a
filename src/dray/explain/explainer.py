"""From a pod or a claim to an explanation: how it stands, why, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api import claims as pod_claims
from dray.api import pods
from dray.api.identity import ObjectKey, object_key
from dray.explain import advice, allocated, classic, pending, scheduled
from dray.explain.model.cluster import Cluster
from dray.explain.model.explanation import Explanation, Outcome, RequestExplanation
from dray.explain.nodes.trial import NodeOutcome, Progress, Trial, evaluate_nodes
from dray.placement.gangs import WAITING_IN_LINE

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodResourceClaim
    from dray.api.types.resource import (
        DeviceSubRequest,
        ExactDeviceRequest,
        ResourceClaim,
        ResourceClaimTemplate,
    )
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim

_CAUSES_SHOWN = 3
ADMIN_LABEL = "resource.kubernetes.io/admin-access"


class PodClaims(NamedTuple):
    """The claims of a pod, and what keeps it from being scheduled whatever nodes there are."""

    claims: list[ResourceClaim]
    classic: list[ClassicClaim]
    facts: list[str]
    advice: list[str]
    refused: bool = False


#: Kinds without which it cannot be told why a pod waits.
NEEDED: Final = ("Node", "ResourceSlice", "DeviceClass")


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
    trial = Trial(cluster, pod, gathered.claims, classic=gathered.classic)
    found = _with_gang(cluster, pod, _explain_on_nodes(cluster, subject, pod, trial, said, progress))
    described = [classic.describe_claim(cluster, one) for one in gathered.classic if not _is_allocated(one)]
    return replace(found, facts=(*described, *found.facts))


def _with_gang(cluster: Cluster, pod: Pod, found: Explanation) -> Explanation:
    """What is said about a pod that is scheduled together with others: how its group stands comes first."""
    if "schedulingGroup" not in (pod.get("spec") or {}):
        return found
    from dray.explain.gangs import explain_gang

    gang = explain_gang(cluster, pod)
    if gang is None:
        return found
    if gang.fits:
        return replace(found, outcome=Outcome.FITS, facts=(gang.headline, *found.facts))
    alone = () if found.outcome is Outcome.FITS else (f"by itself: {found.headline}",)
    helpful = () if found.outcome is Outcome.FITS else found.advice
    return replace(
        found,
        outcome=Outcome.PENDING,
        headline=gang.headline,
        facts=(*gang.facts, *alone, *(() if found.outcome is Outcome.FITS else found.facts)),
        advice=(*gang.advice, *helpful),
    )


def _is_allocated(claim: ClassicClaim) -> bool:
    return (claim.get("status") or {}).get("allocation") is not None


def explain_claim(cluster: Cluster, key: ObjectKey, *, progress: Progress | None = None) -> Explanation:
    claim = cluster.claims[key]
    settled = scheduled.explain_allocated_claim(cluster, key, claim)
    if settled is not None:
        return settled
    subject = f"claim {key}"
    if blind := _not_allowed_to_read(cluster, subject, ""):
        return blind
    facts, help, refused = [], [], False
    classic_claim = cluster.classic_claims.get(key)
    problems = _claim_problems(cluster, claim)
    if classic_claim is not None:
        problems = _classic_problems(cluster, classic_claim)
    for fact, text, bad in problems:
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
    for user in users:
        if (bound := scheduled.explain_claim_of_bound_pod(cluster, key, user)) is not None:
            return bound
    if classic_claim is not None and not users:
        return Explanation(
            subject=subject,
            outcome=Outcome.PENDING,
            headline="no pod uses it; a claim is allocated when a pod that uses it is scheduled",
            facts=(classic.describe_claim(cluster, classic_claim),),
        )
    pod = cluster.pods[users[0]] if users else None
    if classic_claim is not None:
        trial = Trial(cluster, pod, (), classic=[classic_claim])
    else:
        trial = Trial(cluster, pod, [claim])
    said = _scheduler_message(pod) if pod is not None else ""
    found = _explain_on_nodes(cluster, subject, pod, trial, said, progress)
    if classic_claim is not None:
        found = replace(found, facts=(classic.describe_claim(cluster, classic_claim), *found.facts))
    if users:
        who = f"pod {users[0]} uses it" + (f", and {len(users) - 1} others" if len(users) > 1 else "")
    else:
        who = "no pod uses it; a claim is allocated when a pod that uses it is scheduled"
    return replace(found, facts=(who, *found.facts))


def _not_allowed_to_read(cluster: Cluster, subject: str, said: str) -> Explanation | None:
    """The explanation for a user who may not read nodes or devices, without which there is no other; None if they may."""
    missing = [kind for kind in NEEDED if kind in cluster.snapshot.unread]
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
        and any(reference.claim == key.name for reference in _references(cluster, pod))
    ]


def _references(cluster: Cluster, pod: Pod) -> Sequence[pod_claims.ClaimReference]:
    return pod_claims.references(pod, fixed_names=cluster.fixed_names)


def _scheduler_message(pod: Pod) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


# --- whatever nodes there are ---


def claims_of_pod(cluster: Cluster, key: ObjectKey, pod: Pod) -> PodClaims:
    """The claims a pod has or will have."""
    found: list[ResourceClaim] = []
    classic_claims: list[ClassicClaim] = []
    facts: list[str] = []
    help: list[str] = []
    refused = False
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    if gates:
        names = ", ".join(gate["name"] for gate in gates)
        facts.append(f"the pod has scheduling gates: {names}")
        help.append("whoever put the gates there must remove them before the pod is scheduled")
    for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
        claim, fact, text = _claim_of(cluster, key, pod, entry)
        problems: Iterable[tuple[str, str, bool]] = ()
        if isinstance(claim, ClassicFound):
            problems = _classic_problems(cluster, claim.claim)
            classic_claims.append(claim.claim)
        elif claim is not None:
            problems = _claim_problems(cluster, claim)
            found.append(claim)
        if fact:
            facts.append(fact)
            help.append(text)
        for fact, text, bad in problems:
            facts.append(fact)
            help.append(text)
            refused |= bad
    return PodClaims(found, classic_claims, _once(facts), _once(filter(None, help)), refused)


def _once(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


class ClassicFound(NamedTuple):
    """A claim of the classic API."""

    claim: ClassicClaim


def _claim_of(
    cluster: Cluster, key: ObjectKey, pod: Pod, entry: PodResourceClaim
) -> tuple[ResourceClaim | ClassicFound | None, str, str]:
    """The claim that an entry of the pod stands for, or what is wrong with it and what would help."""
    _, template_name = pod_claims.claim_and_template_names(entry)
    reference = pod_claims.known_reference(pod, entry, fixed_names=cluster.fixed_names)
    made = None if reference is None else cluster.claims.get(ObjectKey(key.namespace, reference.claim or ""))
    if reference is None or (reference.generated and reference.claim is not None and made is None):
        template_key = ObjectKey(key.namespace, template_name or "")
        template, classic_template = (
            cluster.templates.get(template_key),
            cluster.classic_templates.get(template_key),
        )
        if template is not None:
            return _from_template(key, entry["name"], template), "", ""
        if classic_template is not None:
            return ClassicFound(classic.from_template(key, entry["name"], classic_template)), "", ""
        if template_name is None:
            fact = f"entry {entry['name']} of the pod's resourceClaims names no claim and no template"
            return None, fact, "name a resourceClaimName or a resourceClaimTemplateName"
        templates = (*cluster.templates, *cluster.classic_templates)
        known = [k.name for k in templates if k.namespace == key.namespace]
        if not known and "ResourceClaimTemplate" in cluster.snapshot.unread:
            fact = f"whether there is a ResourceClaimTemplate {template_name} cannot be told, as you may not read them"
            return None, fact, "have somebody allow you to list resourceclaimtemplates"
        fact = f"there is no ResourceClaimTemplate {template_name} in namespace {key.namespace}"
        return None, fact, _did_you_mean(template_name, known) or f"create the template {template_name}"
    if reference.claim is None:
        return None, "", ""
    claim = made
    if claim is None:
        known = [k.name for k in cluster.claims if k.namespace == key.namespace]
        fact = f"there is no ResourceClaim {reference.claim} in namespace {key.namespace}"
        help = (
            _did_you_mean(reference.claim, known)
            or f"create the claim {reference.claim}; if it was refused, dray explain -f FILE says why"
        )
        return None, fact, help
    classic_claim = cluster.classic_claims.get(object_key(claim))
    found = claim if classic_claim is None else ClassicFound(classic_claim)
    if (claim.get("metadata") or {}).get("deletionTimestamp"):
        fact = f"claim {reference.claim} is being deleted"
        return found, fact, "; ".join(scheduled.holders_of_claim(cluster, object_key(claim), claim))
    if reference.generated and (foreign := pod_claims.not_for_pod(pod, claim)):
        return found, foreign, f"delete claim {reference.claim}; one for this pod will then be made"
    return found, "", ""


def _from_template(key: ObjectKey, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
    """The claim that would be made."""
    inner = (template.get("spec") or {}).get("spec") or {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{key.name}-{entry}", "namespace": key.namespace},
        "spec": inner,
    }


def _classic_problems(cluster: Cluster, claim: ClassicClaim) -> Iterator[tuple[str, str, bool]]:
    """The same for a claim of the classic API."""
    name = claim["spec"].get("resourceClassName") or ""
    unknown = "ResourceClass" in cluster.snapshot.unread
    if unknown or _is_allocated(claim) or name in cluster.resource_classes:
        return
    there = ", ".join(sorted(cluster.resource_classes)) or "none"
    help = _did_you_mean(name, cluster.resource_classes)
    yield (
        f"claim {object_key(claim)} wants resource class {name}, which does not exist",
        help or f"create the class, or use one of those there: {there}",
        False,
    )


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
            if class_name not in cluster.classes and "DeviceClass" not in cluster.snapshot.unread:
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
    if labels.get(ADMIN_LABEL) == "true" or (not namespace and "Namespace" in cluster.snapshot.unread):
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
    trial: Trial,
    said: str,
    progress: Progress | None,
) -> Explanation:
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
    attempt = trial.pod_filters.classic if trial.pod_filters is not None else None
    if fitting and attempt is not None and attempt.pending and pod is not None and _exists(pod):
        waiting = classic.explain_waiting(cluster, subject, pod, attempt)
        return replace(waiting, scheduler=said, nodes=nodes)
    if fitting and said.startswith(WAITING_IN_LINE):
        return Explanation(
            subject=subject,
            outcome=Outcome.PENDING,
            headline=f"it would fit on {len(fitting)} of {len(outcomes)} nodes, but a gang before it waits for the same",
            scheduler=said,
            nodes=nodes,
            advice=(
                "free what the gang lacks (dray explain pod, of one of its members, says what that is)",
                "give this pod a higher priority than the gang",
            ),
        )
    if fitting:
        first = trial.evaluate(cluster.nodes[fitting[0].node], cluster.usage)
        return Explanation(
            subject=subject,
            outcome=Outcome.FITS,
            headline=f"on {len(fitting)} of {len(outcomes)} nodes, the first being {first.node}"
            + ("; only the driver of its claims knows what is free" if attempt and attempt.pending else ""),
            scheduler=said,
            facts=(
                *allocated.planned_devices(trial.demands(first.node).documents, first),
                *_planned_instances(trial, first.node),
            ),
            nodes=nodes,
            advice=_unscheduled(cluster, pod),
        )
    refused = any(one.device_outcome.reasons is not None for one in outcomes)
    requests = pending.explain_requests(cluster, trial, outcomes) if refused else []
    help = advice.advise(cluster, trial, requests, outcomes)
    facts: list[str] = []
    if attempt is not None:
        if pod is not None and _exists(pod):
            facts += classic.negotiation_facts(cluster, object_key(pod), attempt)
        help += classic.advise_unsuitable(cluster, attempt, list(cluster.nodes))
    return Explanation(
        subject=subject,
        outcome=Outcome.PENDING,
        headline=_headline(trial, outcomes, requests),
        scheduler=said,
        facts=tuple(facts),
        requests=tuple(requests),
        nodes=nodes,
        advice=tuple(help),
    )


def _exists(pod: Pod) -> bool:
    """Whether the pod is in the cluster already, rather than in a manifest alone."""
    return bool((pod.get("metadata") or {}).get("creationTimestamp"))


def _planned_instances(trial: Trial, node: str) -> Iterator[str]:
    """What the scheduler would allocate to classic claims on a node."""
    plan = trial.pod_filters.classic_plan(node) if trial.pod_filters is not None else None
    if plan is not None:
        for one in classic.planned_instances(plan):
            yield f"claim {one.claim}: {one.driver}/{one.node}/{one.name}"


def _unscheduled(cluster: Cluster, pod: Pod | None) -> tuple[str, ...]:
    """Advice for a pod that exists and fits, but is not scheduled."""
    if pod is None or not _exists(pod):
        return ()
    scheduler = (pod.get("spec") or {}).get("schedulerName") or scheduled.DEFAULT_SCHEDULER
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
            return f"none of {request.considered} devices can serve {request.named}: {why}"
        if request.best.usable < wanted:
            return (
                f"{request.named} wants {wanted} devices on one node; "
                f"the best node, {request.best.name}, has {request.best.usable} usable"
            )
    found = {id(one.device_outcome): one.device_outcome.reasons for one in outcomes}.values()
    together = dict.fromkeys(text for reasons in found if reasons for text in reasons.together)
    return f"there are enough devices one by one, but not together: {'; '.join(list(together)[:3])}"

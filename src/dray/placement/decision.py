"""One attempt to schedule one pod: filters, scores, reservation, and preemption when no node fits. Pure: the outcome is
a value, and the scheduler writes what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from dray.allocation import AllocationError, Reasons
from dray.placement import preemption, reason_summary
from dray.placement.group_preemption import whole_groups
from dray.placement.outcome import Bind, Failure, Gated, Outcome, Unschedulable
from dray.placement.plugins import dynamic_resources
from dray.placement.status import Diagnosis, Rejection, ScheduleResult, fit_error_message

if TYPE_CHECKING:
    from dray.placement.cache.nodes import ClusterCache, NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import ClaimAttempt
    from dray.placement.nominator import DeviceNomination
    from dray.placement.plugins.dynamic_resources import DeviceAttempt
    from dray.placement.plugins.pod_topology_spread import SpreadConstraint
    from dray.placement.plugins.volume_binding import VolumeBinding
    from dray.placement.profiles import Framework

_CONFLICTING_AFFINITY = Rejection("NodeAffinity", ("pod affinity terms conflict",), resolvable=False)


def decide(
    pod: PodInfo,
    framework: Framework,
    *,
    spread: Sequence[SpreadConstraint] = (),
    budgets: Callable[[], Sequence[preemption.DisruptionBudget]] = tuple,
    storage: VolumeBinding | None = None,
    nodes: Sequence[NodeInfo] | None = None,
    in_group: bool = False,
    explains: bool = True,
) -> Outcome:
    """``nodes``: only these may have the pod. ``in_group``: nothing is preempted for this pod alone.

    ``explains``: an unschedulable pod gets a message and reasons; without them no node is looked at once more.
    """
    placement, profile = framework.placement, framework.profile
    cluster = placement.cluster
    if not len(cluster):
        return Unschedulable("no nodes available to schedule pods", frozenset({"NodeName"}))
    attempt: ClaimAttempt | None = None
    before: Rejection | None = None
    if pod.pinned is not None and not pod.pinned and profile.enabled("NodeAffinity"):
        before = _CONFLICTING_AFFINITY
    elif storage is not None and pod.volume_claims:
        before = storage.reject(pod)
    if before is None and profile.enabled(dynamic_resources.PLUGIN):
        match framework.claims.pre_filter(pod):
            case Rejection() as rejection:
                before = rejection
            case (Failure() | Gated()) as outcome:
                return outcome
            case started:
                attempt = started
    if before is not None:
        if in_group:
            message = fit_error_message(len(cluster), (), before_filtering=before.reasons[0])
            return Unschedulable(message, frozenset({before.plugin}))
        return _rejected_before_filtering(pod, before, framework, budgets)
    reachable = None if storage is None or not pod.volume_claims else partial(storage.on, pod)
    try:
        found = placement.find(pod, attempt, spread=spread, volumes=reachable, nodes=nodes)
    except (AllocationError, dynamic_resources.FilterTimeout) as problem:
        return Failure(f'running "{dynamic_resources.PLUGIN}" filter plugin: {problem}')
    if isinstance(found, ScheduleResult):
        if attempt is None:
            return Bind(found.node)
        assert found.plan is not None
        return attempt.reserve(found.node, found.plan)
    if in_group:
        message = fit_error_message(found.nodes, found.rejections.values())
        return Unschedulable(message, found.plugins, reasons=_reasons(found, attempt, cluster))
    run_filters = placement.filters_without_victims(pod, spread=spread, volumes=reachable)
    post_filter = _PostFilter(pod, framework, budgets, run_filters, explains)
    return _unschedulable(found, attempt, post_filter, explains=explains)


def _rejected_before_filtering(
    pod: PodInfo,
    rejection: Rejection,
    framework: Framework,
    budgets: Callable[[], Sequence[preemption.DisruptionBudget]],
) -> Unschedulable:
    """Every node is rejected by the PreFilter of one plugin."""
    profile = framework.profile
    if (
        framework.quirks.postfilter_needs_cycle_state
        and rejection.plugin != dynamic_resources.PLUGIN
        and profile.enabled(dynamic_resources.PLUGIN)
    ):
        result = _NO_CYCLE_STATE
    else:
        post_filter = _PostFilter(pod, framework, budgets, lambda node: None)
        result = post_filter.run({}, None, about_claims=_nothing_to_free(framework))
    message = fit_error_message(
        len(framework.placement.cluster), (), before_filtering=rejection.reasons[0], after=result.message
    )
    return Unschedulable(message, frozenset({rejection.plugin}), keeps_nomination=result.keeps_nomination)


def _nothing_to_free(framework: Framework) -> str:
    """What the PostFilter of DynamicResources says of a pod that has no claims to free."""
    return "no new claims to deallocate" if framework.quirks.says_still_not_schedulable else ""


def _unschedulable(
    outcome: Diagnosis, attempt: ClaimAttempt | None, post_filter: _PostFilter, *, explains: bool
) -> Unschedulable:
    framework = post_filter.framework
    about_claims, writes = (
        attempt.post_filter(outcome.plugins) if attempt is not None else (_nothing_to_free(framework), ())
    )
    result = post_filter.run(
        outcome.rejections,
        attempt,
        about_claims=about_claims,
        devices=attempt.device_preemption
        if attempt is not None and framework.profile.device_preemption and not writes
        else None,
    )
    if not explains:
        return Unschedulable(
            "",
            outcome.plugins,
            candidate=result.candidate,
            device_nomination=result.device_nomination,
            keeps_nomination=result.keeps_nomination,
            writes=writes,
        )
    message = fit_error_message(outcome.nodes, outcome.rejections.values(), after=result.message)
    reasons = _reasons(outcome, attempt, framework.placement.cluster)
    if (
        framework.quirks.adds_reason_summary
        and result.candidate is None
        and (hint := reason_summary.summary(reasons, nodes=outcome.nodes))
    ):
        message = f"{message} {hint}"
    return Unschedulable(
        message,
        outcome.plugins,
        candidate=result.candidate,
        device_nomination=result.device_nomination,
        keeps_nomination=result.keeps_nomination,
        writes=writes,
        reasons=reasons,
    )


def _reasons(
    outcome: Diagnosis, attempt: ClaimAttempt | None, cluster: ClusterCache
) -> Mapping[str, Reasons]:
    """Why some of the nodes that were rejected for their devices cannot have the pod."""
    if attempt is None:
        return {}
    refused = (
        name for name, rejection in outcome.rejections.items() if rejection.plugin == dynamic_resources.PLUGIN
    )
    sample = islice(refused, reason_summary.SAMPLE)
    return attempt.reasons([node for name in sample if (node := cluster.get(name)) is not None])


@dataclass(frozen=True, slots=True)
class _PostFilterResult:
    """The message of upstream's PostFilter plugins, and the candidate for preemption if there is one."""

    message: str
    candidate: preemption.Candidate | None = None
    device_nomination: DeviceNomination | None = None
    keeps_nomination: bool = False


#: Upstream's result when a plugin whose PreFilter runs before DynamicResources rejects the pod: the PostFilter of
#: DynamicResources does not find its cycle state and fails, and DefaultPreemption does not run.
_NO_CYCLE_STATE = _PostFilterResult("not found", keeps_nomination=True)


@dataclass(frozen=True, slots=True)
class _PostFilter:
    """Looks for pods to preempt when no node fits."""

    pod: PodInfo
    framework: Framework
    budgets: Callable[[], Sequence[preemption.DisruptionBudget]]
    #: every filter but the one for devices, on a node as it would be without some pods
    run_filters: Callable[[NodeInfo], Rejection | None]
    explains: bool = True

    def run(
        self,
        rejections: Mapping[str, Rejection],
        attempt: ClaimAttempt | None,
        *,
        about_claims: str,
        devices: DeviceAttempt | None = None,
    ) -> _PostFilterResult:
        """``devices``: the attempt, if preemption may also free devices."""
        about_claims = about_claims if self.framework.profile.enabled(dynamic_resources.PLUGIN) else ""
        messages = [about_claims] if about_claims else []
        if not self.framework.profile.enabled("DefaultPreemption"):
            return _PostFilterResult(", ".join(messages))
        if not self.explains and not self.framework.placement.cluster.has_pods_below(self.pod.priority):
            return _PostFilterResult("")  # there is nobody to preempt, and nobody wants to know
        match self._preempt(rejections, attempt, devices):
            case preemption.Candidate() as candidate:
                candidate = self._with_whole_groups(candidate)
                nomination = None
                if devices is not None:
                    node = self.framework.placement.cluster.get(candidate.node)
                    assert node is not None
                    nomination = devices.nomination(node, candidate.victims)
                # Upstream's summary ends with the message of the last plugin, and on success that is empty.
                return _PostFilterResult("", candidate, nomination)
            case preemption.NoCandidate(message, eligible):
                messages.append(f"preemption: {message}")
                return _PostFilterResult(", ".join(messages), keeps_nomination=not eligible)

    def _with_whole_groups(self, candidate: preemption.Candidate) -> preemption.Candidate:
        """Of a group that may only be disrupted as a whole, all pods go."""
        groups = self.framework.groups
        if not len(groups):
            return candidate
        victims = whole_groups(candidate.victims, self.framework.placement.cluster, groups)
        return replace(candidate, victims=tuple(preemption.more_important_first(victims)))

    def _preempt(
        self,
        rejections: Mapping[str, Rejection],
        attempt: ClaimAttempt | None,
        devices: DeviceAttempt | None,
    ) -> preemption.Candidate | preemption.NoCandidate:
        pod, cluster = self.pod, self.framework.placement.cluster

        def fits(node: NodeInfo) -> Rejection | None:
            rejection = self.run_filters(node)
            if rejection is not None or attempt is None:
                return rejection
            try:
                plan = (
                    attempt.filter(node)
                    if devices is None
                    else devices.filter(node, gone=cluster.missing_pods(node))
                )
            except (AllocationError, dynamic_resources.FilterTimeout) as problem:
                return Rejection(dynamic_resources.PLUGIN, (str(problem),), resolvable=False)
            return plan if isinstance(plan, Rejection) else None

        if devices is None:
            return preemption.preempt(pod, cluster, rejections, fits=fits, budgets=self.budgets())
        nomination = self.framework.placement.nominator.device_nomination_of(pod.uid)
        return preemption.preempt(
            pod,
            cluster,
            rejections,
            fits=fits,
            budgets=self.budgets(),
            resolvable=lambda r: r.resolvable or dynamic_resources.resolvable_by_freeing_devices(r),
            awaited=nomination is not None and nomination.awaited(),
            worth=devices.devices_freed_by,
        )

"""In what the controllers of one release differ from those of another. Nothing else in this package asks for a release."""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.claims import has_fixed_names
from dray.api.release import V1_31, V1_33, V1_35, V1_36, V1_37, EffectiveVersion, Gates, Release


@dataclass(frozen=True, kw_only=True, slots=True)
class Quirks:
    """One boolean for each difference. ``Quirks.of`` is the place that knows releases and feature gates."""

    # -- claims
    #: Claims from templates are named POD-ENTRY; later releases append a random suffix.
    names_claims_after_pod_and_entry: bool
    #: A claim that something other than a pod has reserved is left alone altogether.
    skips_claims_with_other_consumers: bool
    #: A pod's claim that cannot be used holds up the claims behind it.
    stops_at_first_unusable_claim: bool
    #: A missing claim is created under the name that the pod's status has; otherwise it gets a new name.
    recreates_claims_under_recorded_name: bool
    #: A claim that the controller created counts as existing for a while, even if somebody has deleted it.
    trusts_created_claims: bool
    #: Claims may ask for administrative access.
    allows_admin_access: bool
    #: Requests of claims may list alternatives.
    allows_prioritized_list: bool

    #: Claims of groups of pods are made from templates, and released with the group.
    creates_claims_of_groups: bool
    #: Every new Job gets a group for its pods. Otherwise only a Job that asks for one.
    groups_every_job: bool
    #: Jobs that ask for it get a group for their pods.
    groups_jobs: bool

    # -- devices
    #: DeviceTaintRules evict pods.
    evicts_by_taint_rules: bool
    #: In the status of a pool a shared device counts once, and administrative access does not count.
    counts_shared_devices_once: bool
    #: In the status of a pool devices with a NoSchedule or NoExecute taint are unavailable.
    counts_tainted_devices_as_unavailable: bool
    #: In the status of a pool taints of DeviceTaintRules make devices unavailable, too.
    counts_taint_rules_as_unavailable: bool
    #: The status of a pool sums up its partitions by type, and devices that claims share.
    sums_up_partitions: bool
    #: A request for the status of an incomplete pool is answered after a few seconds; otherwise it stays unanswered.
    answers_for_incomplete_pools: bool

    # -- namespaces, quotas, certificates
    #: A namespace's pods are gone before its other content is deleted.
    deletes_pods_first: bool
    #: Quotas are calculated anew when a pod gets a deadline or is resized, not only when a pod ends.
    recalculates_quota_on_pod_updates: bool
    #: Quota for an extended resource is charged for claims on the device class that serves the resource.
    charges_extended_resources_to_claims: bool
    #: An approved certificate signing request that nobody signs is deleted after a day.
    cleans_up_unsigned_requests: bool

    # -- workloads
    #: The release whose PodTemplateSpec is hashed for the names of ReplicaSets and revisions.
    pod_template_schema: Release
    #: The status of Deployments and ReplicaSets counts pods that are terminating.
    counts_terminating_replicas: bool
    #: Scaling events of Deployments say "from A to B"; older ones "to B from A", or "to B" for a new ReplicaSet.
    scaling_events_name_old_size_first: bool
    #: A StatefulSet honours maxUnavailable of its rolling update.
    honours_max_unavailable: bool
    #: Events of StatefulSets begin with a capital letter.
    capitalizes_statefulset_events: bool
    #: A Job is finished when its terminating pods are gone.
    finishes_jobs_after_last_pod: bool
    #: FailureTarget or SuccessCriteriaMet is set before a Job is finished; older releases do so for policies only.
    adds_interim_job_conditions: bool
    #: A Job's condition Complete has the reason CompletionsReached and a message.
    gives_reason_for_completion: bool
    #: A Job that is suspended loses its start time.
    clears_start_time_on_suspend: bool

    @classmethod
    def of(cls, version: EffectiveVersion, gates: Gates) -> Quirks:
        release = version.release
        fixed_names = has_fixed_names(release)
        return cls(
            names_claims_after_pod_and_entry=fixed_names,
            skips_claims_with_other_consumers=release < V1_36,
            stops_at_first_unusable_claim=release < V1_36 and not fixed_names,
            recreates_claims_under_recorded_name=release >= V1_37,
            trusts_created_claims=release < V1_37 and not fixed_names,
            allows_admin_access="DRAAdminAccess" in gates,
            allows_prioritized_list="DRAPrioritizedList" in gates,
            creates_claims_of_groups="DRAWorkloadResourceClaims" in gates and release >= V1_37,
            groups_every_job=version.emulated and "WorkloadWithJob" in gates and release >= V1_37,
            groups_jobs="WorkloadWithJob" in gates and release >= V1_37,
            evicts_by_taint_rules="DRADeviceTaintRules" in gates,
            counts_shared_devices_once=release >= V1_37,
            counts_tainted_devices_as_unavailable=release >= V1_37,
            counts_taint_rules_as_unavailable=release >= V1_37 and "DRADeviceTaintRules" in gates,
            sums_up_partitions=release >= V1_37,
            answers_for_incomplete_pools=not version.emulated,
            # From 1.33 on pods go first whatever the gate says.
            deletes_pods_first=release >= V1_33 or "OrderedNamespaceDeletion" in gates,
            recalculates_quota_on_pod_updates=release >= V1_33,
            charges_extended_resources_to_claims="DRAExtendedResource" in gates,
            cleans_up_unsigned_requests=release >= V1_35,
            pod_template_schema=release,
            counts_terminating_replicas="DeploymentReplicaSetTerminatingReplicas" in gates,
            scaling_events_name_old_size_first=release >= V1_31,
            honours_max_unavailable="MaxUnavailableStatefulSet" in gates,
            capitalizes_statefulset_events=release >= V1_35,
            finishes_jobs_after_last_pod=release >= V1_31,
            adds_interim_job_conditions=release >= V1_31,
            gives_reason_for_completion=release >= V1_31,
            clears_start_time_on_suspend="MutableSchedulingDirectivesForSuspendedJobs" in gates,
        )

"""How the scheduling of classic claims differs from release to release."""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.claims import has_fixed_names
from dray.api.release import V1_30, EffectiveVersion


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassicQuirks:
    """One boolean for each difference; the defaults are for an API server that serves all generations at once."""

    #: No other generation is served: every claim is classic, even before the cache knows it.
    owns_every_claim: bool = False
    #: Claims that the scheduler allocates count as drivers' answers, so a pod with both kinds waits for ever.
    counts_own_allocations_as_answers: bool = False
    #: The scheduler takes back drivers' reservations after every attempt that has to wait.
    releases_reservations_while_waiting: bool = False
    #: A claim with 32 consumers is tried all the same, and the API server refuses the reservation.
    tries_full_claims: bool = False
    #: A claim that is allocated for this pod alone stays allocated when the pod's other claims fit nowhere.
    keeps_claims_of_waiting_pods: bool = False
    #: deallocationRequested is set even on claims that the scheduler has allocated itself.
    asks_drivers_to_free_every_claim: bool = False
    #: A new slice does not requeue pods.
    ignores_new_slices: bool = False
    #: The deletion of a claim does not requeue pods.
    ignores_deleted_claims: bool = False
    #: Claims from templates are named POD-ENTRY; later releases name them in the pod's status.
    names_claims_after_pod_and_entry: bool = False
    #: A pod whose claim is missing is tried and rejected; otherwise it is gated.
    tries_pods_without_claims: bool = False
    #: Waiting for a driver is reported as a SchedulerError.
    waiting_is_an_error: bool = False
    #: The deletion of a pod in the foreground waits for the pod's scheduling context.
    context_blocks_owner_deletion: bool = True

    @classmethod
    def of(cls, version: EffectiveVersion) -> ClassicQuirks:
        alone = version.release <= V1_30
        early = has_fixed_names(version.release)
        return cls(
            owns_every_claim=alone,
            counts_own_allocations_as_answers=alone,
            releases_reservations_while_waiting=alone,
            tries_full_claims=alone,
            keeps_claims_of_waiting_pods=alone,
            asks_drivers_to_free_every_claim=alone,
            ignores_new_slices=alone,
            ignores_deleted_claims=alone,
            names_claims_after_pod_and_entry=early,
            tries_pods_without_claims=early,
            waiting_is_an_error=early,
            context_blocks_owner_deletion=not early,
        )

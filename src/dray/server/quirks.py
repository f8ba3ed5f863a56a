"""The differences between releases in the API server. No other module of the server compares releases."""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.claims import has_fixed_names
from dray.api.release import V1_34, V1_35, EffectiveVersion, Gates


@dataclass(frozen=True, slots=True)
class Quirks:
    """One boolean for each difference. ``Quirks.of`` is the place that knows releases and feature gates."""

    #: Beyond upstream: an allocation of a protected claim that takes what other claims have is a conflict.
    books_devices: bool
    #: Beyond upstream: a new pod has the names of its claims from templates in its status.
    names_claims_at_pod_creation: bool
    #: Claims from templates are named POD-ENTRY; later releases append a random suffix.
    names_claims_after_pod_and_entry: bool
    #: exec, attach and portforward that are opened with GET need the right to create.
    authorizes_connect_as_create: bool
    #: A node lists only the pods, nodes and resource slices that it selects as its own.
    authorizes_nodes_by_selector: bool
    #: A node may read the service accounts of its pods.
    lets_nodes_read_service_accounts: bool
    #: A node gets a service account token only for audiences that the pod names or that RBAC allows.
    restricts_token_audiences_of_nodes: bool
    #: A token that is bound to a pod names the pod's node.
    adds_node_to_pod_tokens: bool
    #: Tokens can be bound to a node.
    binds_tokens_to_nodes: bool
    #: Impersonation needs a permission for each mode (``impersonate:user-info`` and the like).
    constrains_impersonation: bool
    #: A binding's labels are copied to its pod.
    copies_labels_of_binding: bool
    #: A binding removes the pod's nominated node.
    clears_nominated_node_on_binding: bool
    #: Quota for an extended resource is charged for claims on the device class that serves the resource.
    charges_extended_resources_to_claims: bool
    #: A group of pods without preemption policy is refused where its priority class says Never.
    defaults_group_preemption_policy: bool

    @classmethod
    def of(cls, version: EffectiveVersion, gates: Gates) -> Quirks:
        release, beyond_upstream = version.release, not version.emulated
        return cls(
            books_devices=beyond_upstream,
            names_claims_at_pod_creation=beyond_upstream,
            names_claims_after_pod_and_entry=has_fixed_names(release),
            authorizes_connect_as_create=release >= V1_35,
            # From 1.34 on the gate cannot be switched off, and later releases do not have it any more.
            authorizes_nodes_by_selector="AuthorizeNodeWithSelectors" in gates or release >= V1_34,
            lets_nodes_read_service_accounts=(
                "KubeletServiceAccountTokenForCredentialProviders" in gates
                or "PodCertificateRequest" in gates
            ),
            restricts_token_audiences_of_nodes="ServiceAccountNodeAudienceRestriction" in gates,
            adds_node_to_pod_tokens="ServiceAccountTokenPodNodeInfo" in gates,
            binds_tokens_to_nodes="ServiceAccountTokenNodeBinding" in gates,
            constrains_impersonation="ConstrainedImpersonation" in gates,
            copies_labels_of_binding="PodTopologyLabelsAdmission" in gates,
            clears_nominated_node_on_binding="ClearingNominatedNodeNameAfterBinding" in gates,
            charges_extended_resources_to_claims="DRAExtendedResource" in gates,
            defaults_group_preemption_policy=version.emulated,
        )

"""What the four seeds say that can be observed, each with the test that shows it."""

from __future__ import annotations

from typing import NamedTuple

CLASSIC = "tests/e2e/seeds/test_classic.py"
STRUCTURED = "tests/e2e/seeds/test_structured.py"
BETA = "tests/e2e/seeds/test_beta.py"
CATS = "tests/e2e/test_cats.py"
MANIFESTS = "tests/e2e/test_seeds.py"
HANDS_ON = "tests/e2e/test_hands_on.py"
UP = "tests/integration/app/test_up.py"
MODES = "tests/integration/classic/test_allocation_modes.py"
DRIVER = "tests/integration/drivers/test_cats.py"

TWO_CATS = f"{CATS}::test_every_container_sees_a_cat_of_its_own"
PLAIN = f"{CATS}::test_plain_claims_are_allocated_at_once_or_with_their_first_consumer"
WORKLOADS = f"{BETA}::test_the_pods_of_a_deployment_share_a_claim_and_with_a_template_each_has_its_own"
CHOSEN = f"{BETA}::test_selectors_look_at_attributes_and_capacity_and_constraints_bind_devices"
QUICK_CHECK = f"{MANIFESTS}::test_a_cluster_that_supports_dra_says_so_and_one_that_does_not_says_so_too"
NEGOTIATION = f"{CLASSIC}::test_driver_and_scheduler_agree_on_a_node_over_the_scheduling_context"
SHARED = f"{CLASSIC}::test_pods_of_a_deployment_share_one_claim_with_what_class_and_claim_say"
WITHOUT_FEATURE = (
    f"{CLASSIC}::test_a_scheduler_without_the_feature_binds_the_pod_and_the_kubelet_holds_it_back"
)
WITHOUT_API = f"{UP}::test_a_cluster_comes_up_without_the_api_of_its_drivers_and_says_that_they_wait"
SLICES = f"{STRUCTURED}::test_the_scheduler_allocates_from_slices_without_asking_the_driver"
BYPASS = f"{STRUCTURED}::test_the_controllers_help_a_pod_that_bypassed_the_scheduler_unless_parameters_are_structured"
NOTES = f"{HANDS_ON}::test_the_notes_play_as_written"
INSTALLED = f"{HANDS_ON}::test_the_driver_is_installed_as_the_notes_do_it"


#: seed → the release that it is about
RELEASES = {"1.27": "1.27", "1.30": "1.30", "1.32": "1.32", "hands-on": "1.32"}


class Statement(NamedTuple):
    seed: str
    says: str
    shown_by: str  # file::test, which runs on the seed's own release, beside others perhaps


STATEMENTS = [
    # Seed 1: the page of Kubernetes 1.27
    Statement("1.27", "the group v1alpha2 has four kinds", f"{CLASSIC}::test_the_four_kinds_of_the_page_are_served"),
    Statement("1.27", "a class names the driver and gives common parameters", SHARED),
    Statement("1.27", "a claim that a user made can be shared between pods", SHARED),
    Statement("1.27", "a claim that is made from a template belongs to one pod and goes with it", TWO_CATS),
    Statement("1.27", "scheduler and driver coordinate in a PodSchedulingContext", NEGOTIATION),
    Statement("1.27", "parameters are in objects of a kind that the driver brings", TWO_CATS),
    Statement("1.27", "all pods of a Deployment that names a claim share it", SHARED),
    Statement("1.27", "with a template every pod has a claim of its own", NEGOTIATION),
    Statement(
        "1.27", "a container has the claims that it names", f"{CLASSIC}::test_each_container_sees_the_claim_that_it_names"
    ),
    Statement("1.27", "the example makes two claims for its pod", TWO_CATS),
    Statement("1.27", "the driver marks a claim as allocated and says where it is", f"{CLASSIC}::test_the_driver_marks_a_claim_as_allocated_and_says_where_it_is"),
    Statement("1.27", "a claim may be allocated at once, whoever will use it", PLAIN),
    Statement("1.27", "by default a claim is allocated with its first consumer", PLAIN),
    Statement("1.27", "the scheduler tells drivers which nodes would suit the pod", NEGOTIATION),
    Statement("1.27", "drivers exclude nodes that have too little", NEGOTIATION),
    Statement("1.27", "the scheduler selects a node, drivers allocate for it, and then the pod is scheduled", NEGOTIATION),
    Statement("1.27", "a claim is reserved for the pod that uses it", NEGOTIATION),
    Statement("1.27", "a claim is used by one pod alone", f"{CLASSIC}::test_a_claim_that_cannot_be_shared_is_used_by_one_pod_alone"),
    Statement("1.27", "or by any number of pods", f"{MODES}::test_a_claim_that_can_be_shared_has_thirty_two_users"),
    Statement("1.27", "a pod has no node before all its claims are allocated and reserved", NEGOTIATION),
    Statement("1.27", "the kubelet offers a gRPC service that shows dynamic resources", f"{CLASSIC}::test_the_node_tells_monitors_who_has_which_claim"),
    Statement("1.27", "a pod that sets nodeName is not started", f"{CLASSIC}::test_a_pod_that_names_its_node_is_held_back_by_the_kubelet"),
    Statement("1.27", "the feature needs its gate and its API group", WITHOUT_API),
    Statement("1.27", "scheduler and kubelet need the gate, too", WITHOUT_FEATURE),
    Statement("1.27", "kubectl get resourceclasses tells whether a cluster has the feature", QUICK_CHECK),
    Statement("1.27", "a configuration of the scheduler can leave the plugin out", WITHOUT_FEATURE),
    Statement("1.27", "without a driver for them claims stay pending", f"{CLASSIC}::test_without_a_driver_for_them_claims_stay_pending"),
    # Seed 2: the page of Kubernetes 1.30, where it says more
    Statement("1.30", "the group v1alpha2 has seven kinds", f"{STRUCTURED}::test_the_seven_kinds_of_the_page_are_served"),
    Statement("1.30", "slices publish which resources there are", SLICES),
    Statement("1.30", "ResourceClaimParameters decide what a claim gets", SLICES),
    Statement("1.30", "ResourceClassParameters decide, too", f"{STRUCTURED}::test_parameters_of_a_class_restrict_its_claims"),
    Statement("1.30", "drivers turn parameters of their own kind into those", f"{STRUCTURED}::test_the_driver_turns_its_own_kind_into_what_the_scheduler_reads"),
    Statement("1.30", "or users write those themselves", f"{STRUCTURED}::test_users_may_write_what_the_scheduler_reads"),
    Statement("1.30", "without structured parameters drivers and scheduler negotiate", f"{DRIVER}::test_a_driver_negotiates_two_cats_for_one_pod"),
    Statement("1.30", "with them the scheduler chooses from what is left", f"{DRIVER}::test_the_scheduler_allocates_two_cats_from_slices"),
    Statement("1.30", "what was chosen is in the claim's status, for the driver on the node", SLICES),
    Statement("1.30", "the scheduler decides without talking to the driver", SLICES),
    Statement("1.30", "the kubelet shows dynamic resources", f"{STRUCTURED}::test_the_node_tells_monitors_who_has_which_claim"),
    Statement("1.30", "a pod that sets nodeName waits, and the kubelet looks again", BYPASS),
    Statement("1.30", "the controllers trigger allocation and reservation for it", BYPASS),
    Statement("1.30", "they do so for claims without structured parameters only", BYPASS),
    Statement("1.30", "a node selector for one host goes through the scheduler", f"{STRUCTURED}::test_a_node_selector_for_one_host_goes_through_the_scheduler"),
    Statement("1.30", "admission may turn nodeName into a node selector", f"{STRUCTURED}::test_admission_turns_a_node_name_into_a_node_selector"),
    Statement("1.30", "kubectl get resourceclasses tells whether a cluster has the feature", QUICK_CHECK),
    # Seed 3: the page of Kubernetes 1.32
    Statement("1.32", "the group v1beta1 has four kinds", f"{BETA}::test_the_four_kinds_of_the_page_are_served"),
    Statement("1.32", "a claim's status says whether it is met and by which devices", f"{BETA}::test_the_pod_of_the_page_has_two_claims_and_each_container_a_cat"),
    Statement("1.32", "claims of a template are made and deleted with their pod", f"{BETA}::test_claims_of_a_template_are_made_and_deleted_with_their_pod"),
    Statement("1.32", "every request names a device class", f"{BETA}::test_every_request_names_a_device_class"),
    Statement("1.32", "configuration is handed to the driver as it is", f"{BETA}::test_configuration_is_handed_to_the_driver_as_it_is"),
    Statement("1.32", "all pods of a Deployment that names a claim share it", WORKLOADS),
    Statement("1.32", "with a template every pod has a claim of its own", WORKLOADS),
    Statement("1.32", "containers share what they both name, and have the rest alone", f"{BETA}::test_containers_share_what_they_both_name_and_have_the_rest_alone"),
    Statement("1.32", "selectors in CEL look at attributes and capacity", CHOSEN),
    Statement("1.32", "constraints bind the devices of a claim together", CHOSEN),
    Statement("1.32", "no device that a claim has is given to another", f"{BETA}::test_no_device_that_a_claim_has_is_given_to_another"),
    Statement("1.32", "the kubelet shows dynamic resources", f"{BETA}::test_the_node_tells_monitors_who_has_which_claim"),
    Statement("1.32", "a pod that sets nodeName runs once its claim is allocated for another pod", f"{BETA}::test_a_pod_that_names_its_node_runs_once_its_claim_was_allocated_for_another"),
    Statement("1.32", "admin access gives devices that are in use", f"{BETA}::test_administrators_get_devices_in_use_where_the_policies_allow_it"),
    Statement("1.32", "admission policies limit it to namespaces with a label", f"{BETA}::test_administrators_get_devices_in_use_where_the_policies_allow_it"),
    Statement("1.32", "adminAccess is dropped where the feature is off", f"{BETA}::test_fields_of_features_that_are_off_are_dropped"),
    Statement("1.32", "drivers report the status of allocated devices", f"{BETA}::test_drivers_report_the_status_of_allocated_devices"),
    Statement("1.32", "status.devices is dropped where the feature is off", f"{BETA}::test_fields_of_features_that_are_off_are_dropped"),
    Statement("1.32", "kubectl get deviceclasses tells whether a cluster has the feature", QUICK_CHECK),
    # Seed 4: the hands-on notes on Kubernetes 1.32
    Statement("hands-on", "kubectl shows the parts of the control plane as pods", INSTALLED),
    Statement("hands-on", "their pods are made anew when their flags have changed", f"{BETA}::test_pods_of_the_control_plane_are_made_anew_when_their_flags_have_changed"),
    Statement("hands-on", "helm installs the driver, and a pod of it runs on every node", INSTALLED),
    Statement("hands-on", "every node has a slice, and there is a device class", NOTES),
    Statement("hands-on", "kubectl describe shows attributes and capacity of devices", f"{MANIFESTS}::test_devices_are_described_as_the_release_has_them"),
    Statement("hands-on", "slices that are left are deleted by the driver's name", INSTALLED),
    Statement("hands-on", "the claim of a pod is pending, then allocated and reserved, and pending when it goes", NOTES),
    Statement("hands-on", "a claim that was made for a pod is deleted with it", NOTES),
]  # fmt: skip

"""The resources that dray's components use, by name, and where they are found on an API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from dray.api.identity import ObjectKey as ObjectKey

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.apiextensions import CustomResourceDefinition
    from dray.api.types.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
    from dray.api.types.authentication import SelfSubjectReview, TokenReview
    from dray.api.types.authorization import SelfSubjectAccessReview, SubjectAccessReview
    from dray.api.types.batch import CronJob, Job
    from dray.api.types.certificates import CertificateSigningRequest
    from dray.api.types.coordination import Lease
    from dray.api.types.core import (
        ConfigMap,
        Endpoints,
        Event,
        LimitRange,
        Namespace,
        Node,
        PersistentVolume,
        PersistentVolumeClaim,
        Pod,
        PodTemplate,
        ReplicationController,
        ResourceQuota,
        Secret,
        Service,
        ServiceAccount,
    )
    from dray.api.types.events import Event as EventV1
    from dray.api.types.node import RuntimeClass
    from dray.api.types.policy import PodDisruptionBudget
    from dray.api.types.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
    from dray.api.types.resource import (
        DeviceClass,
        DeviceTaintRule,
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
    )
    from dray.api.types.resource_v1alpha1 import PodScheduling
    from dray.api.types.resource_v1alpha2 import (
        PodSchedulingContext,
        ResourceClaimParameters,
        ResourceClass,
        ResourceClassParameters,
    )
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaimTemplate as ClassicTemplate
    from dray.api.types.resource_v1alpha2 import ResourceSlice as ClassicSlice
    from dray.api.types.resource_v1alpha3 import ResourcePoolStatusRequest
    from dray.api.types.scheduling import PriorityClass
    from dray.api.types.scheduling_v1alpha3 import CompositePodGroup
    from dray.api.types.scheduling_v1beta1 import PodGroup, Workload
    from dray.api.types.storage import StorageClass
    from dray.api.types.storagemigration import StorageVersionMigration

#: The type of a resource's objects.
T = TypeVar("T", bound="Object")


class Resource(NamedTuple, Generic[T]):
    """One resource of one version. It knows its paths; it does not know whether a server has it.

    To the type checker it also says what its objects look like: ``Resource[Pod]``. Of a resource that is known by name
    only, such as a custom one, it is ``Resource[Any]``.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of the version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, of its subresource, or of the collection (of all namespaces where none is given)."""
        within = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        path = f"{self.root}{within}/{self.plural}"
        if name:
            path = f"{path}/{name}"
        return f"{path}/{subresource}" if subresource else path

    def at(self, version: str) -> Resource[T]:
        """The same resource in another version. The type stays: the caller casts where that version's objects differ."""
        return self._replace(version=version)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def key_of(obj: Object) -> ObjectKey:
    metadata = obj["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource[Any]:
    return Resource("", "v1", plural, kind, namespaced)


def _apps(plural: str, kind: str) -> Resource[Any]:
    return Resource("apps", "v1", plural, kind)


def _dra(version: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource[Any]:
    return Resource("resource.k8s.io", version, plural, kind, namespaced)


def _rbac(plural: str, kind: str, *, namespaced: bool = True) -> Resource[Any]:
    return Resource("rbac.authorization.k8s.io", "v1", plural, kind, namespaced)


PODS: Final[Resource[Pod]] = _core("pods", "Pod")
NODES: Final[Resource[Node]] = _core("nodes", "Node", namespaced=False)
NAMESPACES: Final[Resource[Namespace]] = _core("namespaces", "Namespace", namespaced=False)
EVENTS: Final[Resource[Event]] = _core("events", "Event")
CONFIGMAPS: Final[Resource[ConfigMap]] = _core("configmaps", "ConfigMap")
SECRETS: Final[Resource[Secret]] = _core("secrets", "Secret")
SERVICES: Final[Resource[Service]] = _core("services", "Service")
SERVICE_ACCOUNTS: Final[Resource[ServiceAccount]] = _core("serviceaccounts", "ServiceAccount")
ENDPOINTS: Final[Resource[Endpoints]] = _core("endpoints", "Endpoints")
RESOURCE_QUOTAS: Final[Resource[ResourceQuota]] = _core("resourcequotas", "ResourceQuota")
LIMIT_RANGES: Final[Resource[LimitRange]] = _core("limitranges", "LimitRange")
PERSISTENT_VOLUME_CLAIMS: Final[Resource[PersistentVolumeClaim]] = _core(
    "persistentvolumeclaims", "PersistentVolumeClaim"
)
PERSISTENT_VOLUMES: Final[Resource[PersistentVolume]] = _core(
    "persistentvolumes", "PersistentVolume", namespaced=False
)
POD_TEMPLATES: Final[Resource[PodTemplate]] = _core("podtemplates", "PodTemplate")
REPLICATION_CONTROLLERS: Final[Resource[ReplicationController]] = _core(
    "replicationcontrollers", "ReplicationController"
)

DEPLOYMENTS: Final[Resource[Deployment]] = _apps("deployments", "Deployment")
REPLICASETS: Final[Resource[ReplicaSet]] = _apps("replicasets", "ReplicaSet")
STATEFULSETS: Final[Resource[StatefulSet]] = _apps("statefulsets", "StatefulSet")
DAEMONSETS: Final[Resource[DaemonSet]] = _apps("daemonsets", "DaemonSet")
CONTROLLER_REVISIONS: Final[Resource[ControllerRevision]] = _apps("controllerrevisions", "ControllerRevision")

JOBS: Final[Resource[Job]] = Resource("batch", "v1", "jobs", "Job")
CRONJOBS: Final[Resource[CronJob]] = Resource("batch", "v1", "cronjobs", "CronJob")

LEASES: Final[Resource[Lease]] = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS_V1: Final[Resource[EventV1]] = Resource("events.k8s.io", "v1", "events", "Event")
PRIORITY_CLASSES: Final[Resource[PriorityClass]] = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
WORKLOADS: Final[Resource[Workload]] = Resource("scheduling.k8s.io", "v1beta1", "workloads", "Workload")
POD_GROUPS: Final[Resource[PodGroup]] = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
COMPOSITE_POD_GROUPS: Final[Resource[CompositePodGroup]] = Resource(
    "scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup"
)
POD_DISRUPTION_BUDGETS: Final[Resource[PodDisruptionBudget]] = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"
)
RUNTIME_CLASSES: Final[Resource[RuntimeClass]] = Resource(
    "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False
)
STORAGE_CLASSES: Final[Resource[StorageClass]] = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False
)
ROLES: Final[Resource[Role]] = _rbac("roles", "Role")
ROLE_BINDINGS: Final[Resource[RoleBinding]] = _rbac("rolebindings", "RoleBinding")
CLUSTER_ROLES: Final[Resource[ClusterRole]] = _rbac("clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final[Resource[ClusterRoleBinding]] = _rbac(
    "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS: Final[Resource[CustomResourceDefinition]] = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
STORAGE_VERSION_MIGRATIONS: Final[Resource[StorageVersionMigration]] = Resource(
    "storagemigration.k8s.io", "v1", "storageversionmigrations", "StorageVersionMigration", namespaced=False
)
CERTIFICATE_SIGNING_REQUESTS: Final[Resource[CertificateSigningRequest]] = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
TOKEN_REVIEWS: Final[Resource[TokenReview]] = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
SELF_SUBJECT_REVIEWS: Final[Resource[SelfSubjectReview]] = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS: Final[Resource[SubjectAccessReview]] = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS: Final[Resource[SelfSubjectAccessReview]] = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)

RESOURCE_CLAIMS: Final[Resource[ResourceClaim]] = _dra("v1", "resourceclaims", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES: Final[Resource[ResourceClaimTemplate]] = _dra(
    "v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)
RESOURCE_SLICES: Final[Resource[ResourceSlice]] = _dra(
    "v1", "resourceslices", "ResourceSlice", namespaced=False
)
DEVICE_CLASSES: Final[Resource[DeviceClass]] = _dra("v1", "deviceclasses", "DeviceClass", namespaced=False)
DEVICE_TAINT_RULES: Final[Resource[DeviceTaintRule]] = _dra(
    "v1beta2", "devicetaintrules", "DeviceTaintRule", namespaced=False
)
RESOURCE_POOL_STATUS_REQUESTS: Final[Resource[ResourcePoolStatusRequest]] = _dra(
    "v1alpha3", "resourcepoolstatusrequests", "ResourcePoolStatusRequest", namespaced=False
)

# The classic generation: allocation negotiated with a driver's controller, and 1.30's structured parameters.
CLASSIC_RESOURCE_CLAIMS: Final[Resource[ClassicClaim]] = _dra("v1alpha2", "resourceclaims", "ResourceClaim")
CLASSIC_RESOURCE_CLAIM_TEMPLATES: Final[Resource[ClassicTemplate]] = _dra(
    "v1alpha2", "resourceclaimtemplates", "ResourceClaimTemplate"
)
CLASSIC_RESOURCE_CLASSES: Final[Resource[ResourceClass]] = _dra(
    "v1alpha2", "resourceclasses", "ResourceClass", namespaced=False
)
CLASSIC_RESOURCE_SLICES: Final[Resource[ClassicSlice]] = _dra(
    "v1alpha2", "resourceslices", "ResourceSlice", namespaced=False
)
POD_SCHEDULING_CONTEXTS: Final[Resource[PodSchedulingContext]] = _dra(
    "v1alpha2", "podschedulingcontexts", "PodSchedulingContext"
)
RESOURCE_CLAIM_PARAMETERS: Final[Resource[ResourceClaimParameters]] = _dra(
    "v1alpha2", "resourceclaimparameters", "ResourceClaimParameters"
)
RESOURCE_CLASS_PARAMETERS: Final[Resource[ResourceClassParameters]] = _dra(
    "v1alpha2", "resourceclassparameters", "ResourceClassParameters"
)
POD_SCHEDULINGS: Final[Resource[PodScheduling]] = _dra("v1alpha1", "podschedulings", "PodScheduling")

#: Everything above, by name.
ALL: Final[Mapping[str, Resource[Any]]] = {
    name: value for name, value in dict(globals()).items() if isinstance(value, Resource)
}

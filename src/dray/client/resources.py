"""The resources that dray's components use, by name, and where they are found on an API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from dray.api.kinds import Object


class Resource(NamedTuple):
    """One resource of one version. It knows its paths; it does not know whether a server has it."""

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

    def at(self, version: str) -> Resource:
        """The same resource in another version."""
        return self._replace(version=version)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class ObjectKey(NamedTuple):
    """Which object of a resource. Cluster-scoped objects have an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Object) -> ObjectKey:
    metadata = obj["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, kind, namespaced)


def _apps(plural: str, kind: str) -> Resource:
    return Resource("apps", "v1", plural, kind)


def _dra(version: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("resource.k8s.io", version, plural, kind, namespaced)


def _rbac(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("rbac.authorization.k8s.io", "v1", plural, kind, namespaced)


PODS: Final = _core("pods", "Pod")
NODES: Final = _core("nodes", "Node", namespaced=False)
NAMESPACES: Final = _core("namespaces", "Namespace", namespaced=False)
EVENTS: Final = _core("events", "Event")
CONFIGMAPS: Final = _core("configmaps", "ConfigMap")
SECRETS: Final = _core("secrets", "Secret")
SERVICES: Final = _core("services", "Service")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount")
ENDPOINTS: Final = _core("endpoints", "Endpoints")
RESOURCE_QUOTAS: Final = _core("resourcequotas", "ResourceQuota")
LIMIT_RANGES: Final = _core("limitranges", "LimitRange")
PERSISTENT_VOLUME_CLAIMS: Final = _core("persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES: Final = _core("persistentvolumes", "PersistentVolume", namespaced=False)
POD_TEMPLATES: Final = _core("podtemplates", "PodTemplate")
REPLICATION_CONTROLLERS: Final = _core("replicationcontrollers", "ReplicationController")

DEPLOYMENTS: Final = _apps("deployments", "Deployment")
REPLICASETS: Final = _apps("replicasets", "ReplicaSet")
STATEFULSETS: Final = _apps("statefulsets", "StatefulSet")
DAEMONSETS: Final = _apps("daemonsets", "DaemonSet")
CONTROLLER_REVISIONS: Final = _apps("controllerrevisions", "ControllerRevision")

JOBS: Final = Resource("batch", "v1", "jobs", "Job")
CRONJOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob")

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS_V1: Final = Resource("events.k8s.io", "v1", "events", "Event")
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
POD_DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
RUNTIME_CLASSES: Final = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
ROLES: Final = _rbac("roles", "Role")
ROLE_BINDINGS: Final = _rbac("rolebindings", "RoleBinding")
CLUSTER_ROLES: Final = _rbac("clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = _rbac("clusterrolebindings", "ClusterRoleBinding", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
CERTIFICATE_SIGNING_REQUESTS: Final = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)

RESOURCE_CLAIMS: Final = _dra("v1", "resourceclaims", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES: Final = _dra("v1", "resourceclaimtemplates", "ResourceClaimTemplate")
RESOURCE_SLICES: Final = _dra("v1", "resourceslices", "ResourceSlice", namespaced=False)
DEVICE_CLASSES: Final = _dra("v1", "deviceclasses", "DeviceClass", namespaced=False)
DEVICE_TAINT_RULES: Final = _dra("v1beta2", "devicetaintrules", "DeviceTaintRule", namespaced=False)
RESOURCE_POOL_STATUS_REQUESTS: Final = _dra(
    "v1alpha3", "resourcepoolstatusrequests", "ResourcePoolStatusRequest", namespaced=False
)

# The classic generation: allocation negotiated with a driver's controller, and 1.30's structured parameters.
CLASSIC_RESOURCE_CLAIMS: Final = _dra("v1alpha2", "resourceclaims", "ResourceClaim")
CLASSIC_RESOURCE_CLAIM_TEMPLATES: Final = _dra("v1alpha2", "resourceclaimtemplates", "ResourceClaimTemplate")
CLASSIC_RESOURCE_CLASSES: Final = _dra("v1alpha2", "resourceclasses", "ResourceClass", namespaced=False)
CLASSIC_RESOURCE_SLICES: Final = _dra("v1alpha2", "resourceslices", "ResourceSlice", namespaced=False)
POD_SCHEDULING_CONTEXTS: Final = _dra("v1alpha2", "podschedulingcontexts", "PodSchedulingContext")
RESOURCE_CLAIM_PARAMETERS: Final = _dra("v1alpha2", "resourceclaimparameters", "ResourceClaimParameters")
RESOURCE_CLASS_PARAMETERS: Final = _dra("v1alpha2", "resourceclassparameters", "ResourceClassParameters")
POD_SCHEDULINGS: Final = _dra("v1alpha1", "podschedulings", "PodScheduling")

#: Everything above, by name.
ALL: Final[Mapping[str, Resource]] = {
    name: value for name, value in dict(globals()).items() if isinstance(value, Resource)
}

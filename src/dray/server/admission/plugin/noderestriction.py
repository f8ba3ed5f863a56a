"""NodeRestriction: a kubelet writes only its own objects, and no labels that would attract pods to its node.

The node authorizer decides which objects a node may write; this plugin checks their contents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dray.api import errors
from dray.api.errors import StatusError
from dray.api.pods import MIRROR_ANNOTATION
from dray.api.validation.field import quote
from dray.server.admission import CREATE, DELETE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers
from dray.server.admission.plugin.podreferences import UnknownSource, referred_resource
from dray.server.auth import authorizer
from dray.server.auth.authorizer import AuthorizerFunc
from dray.server.auth.user import NODE_PREFIX, node_name

if TYPE_CHECKING:
    from dray.api.types import Object as AnyObject
    from dray.api.types.authentication import TokenRequest
    from dray.api.types.certificates import CertificateSigningRequest
    from dray.api.types.core import Node, PersistentVolumeClaim, Pod
    from dray.api.types.meta import OwnerReference
    from dray.api.types.resource import ResourceSliceSpec

_LEASES: Final = "kube-node-lease"
_RESTRICTED: Final = "node-restriction.kubernetes.io"
#: Labels of Kubernetes' own domains that an agent may put on its node.
_OWN_LABELS: Final = frozenset(
    (
        *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
        *("beta.kubernetes.io/instance-type", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"),
    )
)
_OWN_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_NODE_SIGNERS: Final = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
_AUDIENCE_VERB: Final = "request-serviceaccounts-token-audience"

Check = Callable[[str, Attributes], None]


class NodeRestriction:
    name = "NodeRestriction"

    def __init__(self, listers: Listers, authorize: AuthorizerFunc, *, audiences: bool = True) -> None:
        self._listers = listers
        self._authorize = authorize
        self._audiences = audiences  # whether tokens are only given for audiences that the pod names
        self._checks: Mapping[tuple[str, str], Check] = {
            ("", "pods"): self._pods,
            ("", "nodes"): _node,
            ("", "persistentvolumeclaims"): _volume_claim,
            ("", "serviceaccounts"): self._token,
            ("coordination.k8s.io", "leases"): _lease,
            ("storage.k8s.io", "csinodes"): _csi_node,
            ("resource.k8s.io", "resourceslices"): _slice,
            ("certificates.k8s.io", "certificatesigningrequests"): _signing_request,
        }

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation in (CREATE, UPDATE, DELETE)

    async def admit(self, attributes: Attributes) -> None:
        node = node_name(attributes.user)
        if node is None:
            return
        if not node:
            raise attributes.forbidden(f"could not determine node from user {quote(attributes.user.name)}")
        check = self._checks.get((attributes.group, attributes.resource))
        if check is not None:
            check(node, attributes)

    # -- pods

    def _pods(self, node: str, attributes: Attributes) -> None:
        match attributes.subresource:
            case "":
                self._pod(node, attributes)
            case "status":
                _pod_status(node, attributes)
            case "eviction":
                self._eviction(node, attributes)
            case other:
                raise attributes.forbidden(
                    f"unexpected pod subresource {quote(other)}, only 'status' and 'eviction' are allowed"
                )

    def _pod(self, node: str, attributes: Attributes) -> None:
        match attributes.operation:
            case "CREATE":
                self._mirror_pod(node, attributes)
            case "DELETE":
                pod = self._existing_pod(attributes.namespace, attributes.name)
                if _node_of(pod) != node:
                    words = f"node {quote(node)} can only delete pods with spec.nodeName set to itself"
                    raise attributes.forbidden(words)
            case other:
                raise attributes.forbidden(
                    f"unexpected operation {quote(other)}, node {quote(node)} can only create and delete mirror pods"
                )

    def _existing_pod(self, namespace: str, name: str) -> Pod:
        found: Pod | None = self._listers.get("", "pods", f"{namespace}/{name}")
        if found is None:
            raise errors.not_found("pods", "", name)
        return found

    def _mirror_pod(self, node: str, attributes: Attributes) -> None:
        who = quote(node)
        pod: Pod = attributes.object
        meta = pod["metadata"]
        if MIRROR_ANNOTATION not in (meta.get("annotations") or {}):
            raise attributes.forbidden(
                f"pod does not have {quote(MIRROR_ANNOTATION)} annotation, node {who} can only create mirror pods"
            )
        if _node_of(pod) != node:
            raise attributes.forbidden(f"node {who} can only create pods with spec.nodeName set to itself")
        self._check_owner(meta.get("ownerReferences") or (), node, attributes)
        try:
            resource = referred_resource(pod.get("spec", {}))
        except UnknownSource as e:
            raise attributes.forbidden(f"error checking mirror pod for API references: {e}") from None
        if resource:
            raise attributes.forbidden(f"node {who} can not create pods that reference {resource}")

    def _check_owner(self, owners: Sequence[OwnerReference], node: str, attributes: Attributes) -> None:
        can_only = f"node {quote(node)} can only create pods with"
        if len(owners) > 1:
            raise attributes.forbidden(f"{can_only} a single owner reference set to itself")
        owner = owners[0] if owners else None
        if owner is None or (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != (
            "v1",
            "Node",
            node,
        ):
            raise attributes.forbidden(f"{can_only} an owner reference set to itself")
        if not owner.get("controller"):
            raise attributes.forbidden(f"{can_only} a controller owner reference set to itself")
        if owner.get("blockOwnerDeletion"):
            raise attributes.forbidden(
                f"node {quote(node)} must not set blockOwnerDeletion on an owner reference"
            )
        found: Node | None = self._listers.get("", "nodes", node)
        if found is None:
            raise errors.not_found("nodes", "", node)
        uid = found["metadata"].get("uid")
        if owner.get("uid") != uid:
            raise attributes.forbidden(f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}")

    def _eviction(self, node: str, attributes: Attributes) -> None:
        if attributes.operation != CREATE:
            raise attributes.forbidden(f"unexpected operation {attributes.operation}")
        pod = self._existing_pod(attributes.namespace, attributes.name)
        if _node_of(pod) != node:
            raise attributes.forbidden(f"node {node} can only evict pods with spec.nodeName set to itself")

    # -- tokens

    def _token(self, node: str, attributes: Attributes) -> None:
        """A node gets tokens only for pods that run on it, and for audiences that these ask for."""
        if attributes.operation != CREATE or attributes.subresource != "token":
            return
        request: TokenRequest = attributes.object
        spec = request.get("spec", {})
        ref = spec.get("boundObjectRef") or {}
        if ref.get("apiVersion") != "v1" or ref.get("kind") != "Pod" or not ref.get("name"):
            raise attributes.forbidden("node requested token not bound to a pod")
        if not ref.get("uid"):
            raise attributes.forbidden("node requested token with a pod binding without a uid")
        pod = self._existing_pod(attributes.namespace, ref["name"])
        if pod["metadata"].get("uid") != ref["uid"]:
            raise attributes.forbidden(
                f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        if _node_of(pod) != node:
            raise attributes.forbidden("node requested token bound to a pod scheduled on a different node")
        if self._audiences:
            self._check_audience(spec.get("audiences") or (), pod, attributes)

    def _check_audience(self, audiences: Sequence[str], pod: Pod, attributes: Attributes) -> None:
        if len(audiences) > 1:
            raise attributes.forbidden("node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        for volume in pod.get("spec", {}).get("volumes") or ():
            for source in (volume.get("projected") or {}).get("sources") or ():
                token = source.get("serviceAccountToken")
                if token is not None and token.get("audience", "") == audience:
                    return
        asked = authorizer.Attributes(
            attributes.user,
            _AUDIENCE_VERB,
            version="v1",
            resource=audience,
            namespace=attributes.namespace,
            name=attributes.name,
        )
        if not self._authorize(asked).allowed:
            raise attributes.forbidden(
                f"audience {quote(audience)} not found in pod spec volume, {attributes.user.name} is not "
                "authorized to request tokens for this audience"
            )


def _node_of(pod: Pod) -> str:
    return pod.get("spec", {}).get("nodeName", "")


def _unexpected(attributes: Attributes) -> StatusError:
    return attributes.forbidden(f"unexpected operation {quote(attributes.operation)}")


def _pod_status(node: str, attributes: Attributes) -> None:
    if attributes.operation != UPDATE:
        raise _unexpected(attributes)
    who = quote(node)
    new: Pod = attributes.object
    old: Pod = attributes.old
    if _node_of(old) != node:
        raise attributes.forbidden(
            f"node {who} can only update pod status for pods with spec.nodeName set to itself"
        )
    if (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        raise attributes.forbidden(f"node {who} cannot update labels through pod status")
    status, before = new.get("status", {}), old.get("status", {})
    if (status.get("resourceClaimStatuses") or []) != (before.get("resourceClaimStatuses") or []):
        raise attributes.forbidden(f"node {who} cannot update resource claim statues")
    if status.get("extendedResourceClaimStatus") != before.get("extendedResourceClaimStatus"):
        raise attributes.forbidden(f"node {who} cannot update extended resource claim status")


# -- nodes


def _node(node: str, attributes: Attributes) -> None:
    if attributes.name != node:
        raise attributes.forbidden(
            f"node {quote(node)} is not allowed to modify node {quote(attributes.name)}"
        )
    if attributes.operation == CREATE:
        new: Node = attributes.object
        if new.get("spec", {}).get("configSource") is not None:
            words = f"node {quote(node)} is not allowed to create pods with a non-nil configSource"
            raise attributes.forbidden(words)
        if labels := _forbidden_labels(new, {}):
            raise attributes.forbidden(
                f"node {quote(node)} is not allowed to set the following labels: {', '.join(labels)}"
            )
    elif attributes.operation == UPDATE:
        _node_update(node, attributes.object, attributes.old, attributes)


def _node_update(node: str, new: Node, old: Node, attributes: Attributes) -> None:
    not_allowed = f"node {quote(node)} is not allowed to"
    spec, before = new.get("spec", {}), old.get("spec", {})
    source = spec.get("configSource")
    if source is not None and source != before.get("configSource"):
        raise attributes.forbidden(f"{not_allowed} update configSource to a new non-nil configSource")
    if (spec.get("taints") or []) != (before.get("taints") or []):
        raise attributes.forbidden(f"{not_allowed} modify taints")
    owners, owned = (o["metadata"].get("ownerReferences") or [] for o in (new, old))
    if owners != owned:
        raise attributes.forbidden(f"{not_allowed} modify ownerReferences")
    if labels := _forbidden_labels(new, old["metadata"].get("labels") or {}):
        raise attributes.forbidden(f"is not allowed to modify labels: {', '.join(labels)}")


def _forbidden_labels(new: Node, old: Mapping[str, str]) -> list[str]:
    """Labels that the agent has changed and must not."""
    labels: Mapping[str, str] = new["metadata"].get("labels") or {}
    changed = {key for key in {*labels, *old} if labels.get(key) != old.get(key)}
    return sorted(key for key in changed if not _may_set(key))


def _may_set(label: str) -> bool:
    domain = label.partition("/")[0] if "/" in label else ""
    if _is_in(domain, _RESTRICTED):
        return False
    if not any(_is_in(domain, own) for own in ("kubernetes.io", "k8s.io")):
        return True
    return label in _OWN_LABELS or any(_is_in(domain, own) for own in _OWN_DOMAINS)


def _is_in(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


# -- other kinds


def _volume_claim(node: str, attributes: Attributes) -> None:
    if attributes.subresource != "status":
        raise attributes.forbidden("may only update PVC status")
    if attributes.operation != UPDATE:
        raise _unexpected(attributes)
    if _unchangeable(attributes.object) != _unchangeable(attributes.old):
        raise attributes.forbidden(
            f"node {quote(node)} is not allowed to update fields other than status.quantity and status.conditions"
        )


def _unchangeable(claim: PersistentVolumeClaim) -> dict[str, object]:
    meta = {k: v for k, v in claim["metadata"].items() if k not in ("resourceVersion", "managedFields")}
    free = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")
    status = {k: v for k, v in claim.get("status", {}).items() if k not in free}
    return {**claim, "metadata": meta, "status": status}


def _named(attributes: Attributes) -> str:
    if attributes.operation == CREATE:
        obj: AnyObject = attributes.object
        return obj.get("metadata", {}).get("name", "")
    return attributes.name


def _lease(node: str, attributes: Attributes) -> None:
    if attributes.namespace != _LEASES:
        raise attributes.forbidden(f"can only access leases in the {quote(_LEASES)} system namespace")
    if _named(attributes) != node:
        raise attributes.forbidden("can only access node lease with the same name as the requesting node")


def _csi_node(node: str, attributes: Attributes) -> None:
    if _named(attributes) != node:
        raise attributes.forbidden("can only access CSINode with the same name as the requesting node")


def _slice(node: str, attributes: Attributes) -> None:
    """The node authorizer decides about updates; it sees no content of a new slice, nor what deletecollection deletes."""
    match attributes.operation:
        case "CREATE":
            doing, found = "create", attributes.object
        case "DELETE":
            doing, found = "delete", attributes.old
        case _:
            return
    spec: ResourceSliceSpec | None = (found or {}).get("spec") or found  # 1.30's slices are flat
    if spec is None or spec.get("nodeName") != node:
        raise attributes.forbidden(
            f"can only {doing} ResourceSlice with the same NodeName as the requesting node"
        )


def _signing_request(node: str, attributes: Attributes) -> None:
    if attributes.operation != CREATE:
        return
    request: CertificateSigningRequest = attributes.object
    spec = request.get("spec", {})
    if spec.get("signerName") not in _NODE_SIGNERS:
        return
    from dray.server.admission.plugin.certificates import common_name

    try:
        name = common_name(spec.get("request", ""))
    except ValueError as e:
        raise attributes.forbidden(f"unable to parse csr: {e}") from None
    if name != NODE_PREFIX + node:
        raise attributes.forbidden(f"can only create a node CSR with CN={NODE_PREFIX}{node}")

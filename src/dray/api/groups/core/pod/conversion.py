"""Between what clients write and the hub: aliases are filled in, and old spellings of claims understood."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core.pod.resourceclaims import flattened, nested

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodSpec

_OLD_ANNOTATIONS: Final = frozenset(
    f"pod.{stage}.kubernetes.io/init-container{what}"
    for stage in ("alpha", "beta")
    for what in ("s", "-statuses")
)


def spec_to_hub(spec: PodSpec) -> PodSpec:
    """The spec with both names of its service account, and with flat claims. Returns its argument if nothing changes."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account and not spec.get("serviceAccountName") == spec.get("serviceAccount") == account:
        spec = {**spec, "serviceAccountName": account, "serviceAccount": account}
    return flattened(spec)


def pod_to_hub(pod: Pod) -> Pod:
    spec = spec_to_hub(pod["spec"])
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec = {**spec, "terminationGracePeriodSeconds": 1}
    if spec is not pod["spec"]:
        pod = {**pod, "spec": spec}
    status = pod.get("status") or {}
    ip, ips = status.get("podIP"), status.get("podIPs") or []
    if ip and (not ips or ips[0].get("ip") != ip):
        pod = {**pod, "status": {**status, "podIPs": [{"ip": ip}]}}
    elif ips and not ip:
        pod = {**pod, "status": {**status, "podIP": ips[0].get("ip", "")}}
    annotations = pod["metadata"].get("annotations") or {}
    if not _OLD_ANNOTATIONS.isdisjoint(annotations):
        kept = {key: value for key, value in annotations.items() if key not in _OLD_ANNOTATIONS}
        pod = {**pod, "metadata": {**pod["metadata"], "annotations": kept}}
    return pod


def pod_to_nested(pod: Pod) -> Pod:
    spec = nested(pod["spec"])
    return pod if spec is pod["spec"] else {**pod, "spec": spec}


def at_template(path: tuple[str, ...], convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A conversion of a whole object out of one of the pod spec that stands at a path inside it."""

    def change(obj: Any) -> Any:
        return _at(obj, (*path, "spec"), convert)

    return change


def _at(holder: Any, path: tuple[str, ...], convert: Any) -> Any:
    if not path:
        return convert(holder)
    inner = holder.get(path[0])
    if inner is None:
        return holder
    changed = _at(inner, path[1:], convert)
    return holder if changed is inner else {**holder, path[0]: changed}

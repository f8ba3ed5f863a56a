"""Defaults of pods and of the specs inside templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api import pods
from dray.api.groups.core import persistentvolumeclaim, resourcenames
from dray.api.groups.core.pod.images import is_latest
from dray.api.groups.core.pod.resources import container_requests, is_pod_level
from dray.api.groups.core.pod.volumes import TYPE_NAMES

if TYPE_CHECKING:
    from dray.api.types.core import (
        Container,
        DownwardAPIVolumeFile,
        EnvVarSource,
        LifecycleHandler,
        Pod,
        PodSpec,
        PodTemplateSpec,
        Probe,
        ProjectedVolumeSource,
        ResourceRequirements,
        Volume,
    )

_FILE_MODE: Final = 0o644
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def default_pod(pod: Pod) -> None:
    spec = pod.setdefault("spec", {})
    default_spec(spec)
    for part in ("containers", "initContainers"):
        for container in spec.get(part) or ():
            if asked := container.get("resources"):
                _requests_from_limits(asked)
    _default_pod_level(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for container in pods.containers(spec):
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    if status := pod.get("status"):
        for statuses in (
            status.get("initContainerStatuses"),
            status.get("containerStatuses"),
            status.get("ephemeralContainerStatuses"),
        ):
            for one in statuses or ():
                _round(one, "allocatedResources")
                _round(one.get("resources") or {}, "limits", "requests")


def default_template(template: PodTemplateSpec) -> None:
    default_spec(template.setdefault("spec", {}))


def default_spec(spec: PodSpec) -> None:
    """What every pod spec gets, wherever it stands."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            _default_container(container)
    _round(spec, "overhead")
    if spec.get("resources") is not None:
        _round(spec["resources"], "limits", "requests")


def _round(holder: Any, *parts: str) -> None:
    for part in parts:
        if holder.get(part):
            holder[part] = resourcenames.rounded(holder[part])


def _default_container(container: Container) -> None:
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        _default_refs([source])
        if source.get("fileKeyRef") is not None:
            source["fileKeyRef"].setdefault("optional", False)
    if asked := container.get("resources"):
        _round(asked, "limits", "requests")
    for part in _PROBES:
        if (probe := container.get(part)) is not None:
            _default_probe(probe)
    if lifecycle := container.get("lifecycle"):
        for handler in (lifecycle.get("postStart"), lifecycle.get("preStop")):
            if handler is not None:
                _default_http(handler)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = "Always" if is_latest(container.get("image", "")) else "IfNotPresent"


def _default_refs(holders: Sequence[DownwardAPIVolumeFile | EnvVarSource]) -> None:
    for holder in holders:
        if (ref := holder.get("fieldRef")) is not None:
            ref.setdefault("apiVersion", "v1")
        if (resource := holder.get("resourceFieldRef")) is not None:
            resource.setdefault("divisor", "0")


def _default_probe(probe: Probe) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _default_http(probe)
    if (call := probe.get("grpc")) is not None and call.get("service") is None:
        call["service"] = ""


def _default_http(handler: Probe | LifecycleHandler) -> None:
    if (request := handler.get("httpGet")) is not None:
        request.setdefault("path", "/")
        request.setdefault("scheme", "HTTP")


def _default_volume(volume: Volume) -> None:
    if not any(volume.get(part) is not None for part in TYPE_NAMES):
        volume["emptyDir"] = {}
    for part in ("secret", "configMap", "downwardAPI", "projected"):
        if (source := volume.get(part)) is not None and source.get("defaultMode") is None:
            source["defaultMode"] = _FILE_MODE
    if (source := volume.get("downwardAPI")) is not None:
        _default_refs(source.get("items") or ())
    if (source := volume.get("projected")) is not None:
        _default_projected(source)
    if (host := volume.get("hostPath")) is not None and host.get("type") is None:
        host["type"] = ""
    if (image := volume.get("image")) is not None:
        latest = is_latest(image.get("reference", ""))
        image.setdefault("pullPolicy", "Always" if latest else "IfNotPresent")
    if (ephemeral := volume.get("ephemeral")) is not None and ephemeral.get(
        "volumeClaimTemplate"
    ) is not None:
        persistentvolumeclaim.default_spec(ephemeral["volumeClaimTemplate"].setdefault("spec", {}))
    if (iscsi := volume.get("iscsi")) is not None:
        iscsi.setdefault("iscsiInterface", "default")
    if (rbd := volume.get("rbd")) is not None:
        _fill(rbd, pool="rbd", user="admin", keyring="/etc/ceph/keyring")
    if (scale_io := volume.get("scaleIO")) is not None:
        _fill(scale_io, storageMode="ThinProvisioned", fsType="xfs")
    if (azure := volume.get("azureDisk")) is not None:
        _fill(azure, cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared")


def _fill(source: Any, **defaults: Any) -> None:
    for part, value in defaults.items():
        source.setdefault(part, value)


def _default_projected(source: ProjectedVolumeSource) -> None:
    for entry in source.get("sources") or ():
        if (downward := entry.get("downwardAPI")) is not None:
            _default_refs(downward.get("items") or ())
        token = entry.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600


def _requests_from_limits(asked: ResourceRequirements) -> None:
    if limits := asked.get("limits"):
        asked["requests"] = {**limits, **(asked.get("requests") or {})}


def _default_pod_level(spec: PodSpec) -> None:
    """A pod that has limits as a whole requests what its containers request, else as much as its limits."""
    asked = spec.get("resources")
    if not asked or not (asked.get("limits") or asked.get("requests")):
        return
    limits = dict(asked.get("limits") or {})
    for name, total in container_requests(spec, "limits").items():
        if resourcenames.is_huge_pages(name):
            limits.setdefault(name, str(total))
    if limits:
        asked["limits"] = limits
        requests = dict(asked.get("requests") or {})
        for name, total in container_requests(spec).items():
            if is_pod_level(name) and resourcenames.may_overcommit(name):
                requests.setdefault(name, str(total))
        for name, limit in limits.items():
            if is_pod_level(name):
                requests.setdefault(name, limit)
        if requests:
            asked["requests"] = requests

"""Defaults of pods and of the specs inside templates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dray.api.groups.core import persistentvolumeclaim, resourcenames
from dray.api.groups.core.pod.images import is_latest
from dray.api.groups.core.pod.resources import container_requests, is_pod_level
from dray.api.groups.core.pod.volumes import TYPE_NAMES
from dray.api.scheme.kinds import Object

_FILE_MODE: Final = 0o644
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def default_pod(pod: Object) -> None:
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
        for part in ("containers", "initContainers"):
            for container in spec.get(part) or ():
                for port in container.get("ports") or ():
                    if not port.get("hostPort"):
                        port["hostPort"] = port.get("containerPort", 0)
    if status := pod.get("status"):
        for part in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
            for container in status.get(part) or ():
                _round(container, "allocatedResources")
                _round(container.get("resources") or {}, "limits", "requests")


def default_template(template: Object) -> None:
    default_spec(template.setdefault("spec", {}))


def default_spec(spec: Object) -> None:
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


def _round(holder: Object, *parts: str) -> None:
    for part in parts:
        if holder.get(part):
            holder[part] = resourcenames.rounded(holder[part])


def _default_container(container: Object) -> None:
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
        for handler in lifecycle.values():
            if isinstance(handler, dict):
                _default_http(handler)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = "Always" if is_latest(container.get("image", "")) else "IfNotPresent"


def _default_refs(holders: Iterable[Object]) -> None:
    for holder in holders:
        if (ref := holder.get("fieldRef")) is not None:
            ref.setdefault("apiVersion", "v1")
        if (ref := holder.get("resourceFieldRef")) is not None:
            ref.setdefault("divisor", "0")


def _default_probe(probe: Object) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _default_http(probe)
    if (call := probe.get("grpc")) is not None and call.get("service") is None:
        call["service"] = ""


def _default_http(handler: Object) -> None:
    if (request := handler.get("httpGet")) is not None:
        request.setdefault("path", "/")
        request.setdefault("scheme", "HTTP")


def _default_volume(volume: Object) -> None:
    if not any(volume.get(part) is not None for part in TYPE_NAMES):
        volume["emptyDir"] = {}
    for part in ("secret", "configMap", "downwardAPI", "projected"):
        if (source := volume.get(part)) is not None and source.get("defaultMode") is None:
            source["defaultMode"] = _FILE_MODE
    if (source := volume.get("downwardAPI")) is not None:
        _default_refs(source.get("items") or ())
    if (source := volume.get("projected")) is not None:
        _default_projected(source)
    if (source := volume.get("hostPath")) is not None and source.get("type") is None:
        source["type"] = ""
    if (source := volume.get("image")) is not None:
        latest = is_latest(source.get("reference", ""))
        source.setdefault("pullPolicy", "Always" if latest else "IfNotPresent")
    if (source := volume.get("ephemeral")) is not None and source.get("volumeClaimTemplate") is not None:
        persistentvolumeclaim.default_spec(source["volumeClaimTemplate"].setdefault("spec", {}))
    if (source := volume.get("iscsi")) is not None:
        source.setdefault("iscsiInterface", "default")
    if (source := volume.get("rbd")) is not None:
        _fill(source, pool="rbd", user="admin", keyring="/etc/ceph/keyring")
    if (source := volume.get("scaleIO")) is not None:
        _fill(source, storageMode="ThinProvisioned", fsType="xfs")
    if (source := volume.get("azureDisk")) is not None:
        _fill(source, cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared")


def _fill(source: Object, **defaults: Any) -> None:
    for part, value in defaults.items():
        source.setdefault(part, value)


def _default_projected(source: Object) -> None:
    for entry in source.get("sources") or ():
        if (downward := entry.get("downwardAPI")) is not None:
            _default_refs(downward.get("items") or ())
        token = entry.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600


def _requests_from_limits(asked: Object) -> None:
    if limits := asked.get("limits"):
        asked["requests"] = {**limits, **(asked.get("requests") or {})}


def _default_pod_level(spec: Object) -> None:
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

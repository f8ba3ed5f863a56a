"""The rules of pods: what creating, changing and deleting one does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api import objects, pods
from dray.api.groups.core.pod.annotations import check_annotations
from dray.api.groups.core.pod.binding import check_binding, set_condition
from dray.api.groups.core.pod.containers import check_image_text
from dray.api.groups.core.pod.disabledfields import drop_spec_fields, drop_status_fields
from dray.api.groups.core.pod.matchlabelkeys import merge_label_keys
from dray.api.groups.core.pod.options import PodValidationOptions
from dray.api.groups.core.pod.resize import check_resize, keep_all_but_resources
from dray.api.groups.core.pod.resources import qos_class
from dray.api.groups.core.pod.spec import check_spec
from dray.api.groups.core.pod.status import check_ephemeral_update, check_status
from dray.api.groups.core.pod.update import check_annotation_changes, check_update
from dray.api.groups.core.pod.warnings import warn_pod
from dray.api.scheme.strategy import (
    NOTHING_FOUND,
    SPEC,
    STATUS,
    Checked,
    Context,
    Strategy,
    UpdateStrategy,
    keep_fields,
    name_is_dns_subdomain,
    update_generation,
)
from dray.api.validation import addresses, field, names
from dray.api.validation.cache import GeneratedName, Interner
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Binding, Pod, PodCondition, PodSpec, PodStatus

_GENERATION = "PodObservedGenerationTracking"


class _Checks:
    """What the main resource and the subresources of a pod have in common."""

    def __init__(self, *, nested_claims: bool = False) -> None:
        self._nested_claims = nested_claims

    def options(self, ctx: Context, old: Pod | None = None) -> PodValidationOptions:
        return PodValidationOptions(
            gates=ctx.gates,
            printed_release=ctx.quirks.release,
            is_pod=True,
            resizes_with_claims=ctx.quirks.resizes_pods_with_claims,
            nested_claims=self._nested_claims,
            old=old,
        )

    def check_pod(self, pod: Pod, opts: PodValidationOptions) -> list[FieldError]:
        meta, spec = pod["metadata"], pod["spec"]
        found = check_annotations(meta, spec) + check_spec(spec, meta, SPEC, opts)
        if not spec.get("serviceAccountName"):
            found += _check_no_tokens(spec)
        for part in ("containers", "initContainers"):
            for i, container in enumerate(spec.get(part) or ()):
                found += check_image_text(container, SPEC.child(part).index(i))
        return found


def _generated_name(spec: PodSpec) -> GeneratedName | None:
    """The name of the volume with the pod's token, and how often its containers mount it."""
    for volume in spec.get("volumes") or ():
        if _TOKEN_VOLUME.fullmatch(name := volume.get("name", "")):
            places = 1
            for container in pods.all_containers(spec):
                for mount in container.get("volumeMounts") or ():
                    places += mount.get("name") == name
            return GeneratedName(name, places)
    return None


_TOKEN_VOLUME: Final = re.compile(f"{pods.TOKEN_VOLUME}[{objects.SUFFIX_LETTERS}]{{{objects.SUFFIX_LENGTH}}}")


#: What the pods of one template have in common, and a mounted token does not tell apart.
_COMMON: Final = (
    "resources",
    "env",
    "ports",
    "securityContext",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
)
_COMMON_TO_PODS: Final = ("resourceClaims", "tolerations", "affinity", "topologySpreadConstraints")
#: It remembers few, because nothing is gained by what only one pod says.
_templates: Final = Interner(256)


def _hold_once(spec: PodSpec) -> None:
    """Let pods of one template share what is larger than a text, which nobody changes in place from now on."""
    parts: Any = spec
    for name in _COMMON_TO_PODS:
        if value := parts.get(name):
            parts[name] = _templates.one(value)
    # A token's volume has a name of its own, and the containers say where it is mounted.
    alike = not parts.get("volumes")
    for part in ("initContainers", "containers"):
        if alike and (containers := parts.get(part)):
            parts[part] = _templates.one(containers)
            continue
        for container in parts.get(part) or ():
            for name in _COMMON:
                if value := container.get(name):
                    container[name] = _templates.one(value)


def _check_no_tokens(spec: PodSpec) -> list[FieldError]:
    words = "must not be specified when serviceAccountName is not set"
    return [
        field.forbidden(
            SPEC.child("volumes")
            .index(i)
            .child("projected", "sources")
            .index(j)
            .child("serviceAccountToken"),
            words,
        )
        for i, volume in enumerate(spec.get("volumes") or ())
        for j, source in enumerate((volume.get("projected") or {}).get("sources") or ())
        if source.get("serviceAccountToken") is not None
    ]


def _bump(new: Pod, old: Pod, ctx: Context) -> None:
    update_generation(new, old, changed=_GENERATION in ctx.gates and new["spec"] != old["spec"])


class PodStrategy(_Checks, Strategy["Pod"]):
    check_name = staticmethod(name_is_dns_subdomain)
    delete_returns_object = True

    def prepare_create(self, obj: Pod, ctx: Context) -> None:
        if _GENERATION in ctx.gates:
            obj["metadata"]["generation"] = 1
        spec = obj["spec"]
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        drop_spec_fields(spec, None, ctx.gates)
        if spec.get("schedulingGates"):
            condition: PodCondition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
            obj["status"]["conditions"] = set_condition([], condition, now=ctx.now)
        merge_label_keys(obj, ctx.gates)
        _hold_once(spec)

    def check(self, obj: Pod, ctx: Context) -> Checked:
        """Most pods are made from a template, and differ in nothing that the rules look at but a generated name."""

        def look() -> Sequence[Checked]:
            if problems := self.validate(obj, ctx):
                return (Checked(problems),)
            warnings = warn_pod(obj)
            return (Checked((), warnings),) if warnings else ()

        meta, spec = obj["metadata"], obj["spec"]
        volumes = spec.get("volumes")
        named_after_pod = meta.get("name") if volumes and any("ephemeral" in v for v in volumes) else ""
        generated = _generated_name(spec) if volumes else None
        found = ctx.once("pod", look, spec, meta.get("annotations"), named_after_pod, generated=generated)
        problems, warnings = found[0] if found else NOTHING_FOUND
        return Checked(problems, [*_warn_name(obj), *warnings])

    def validate(self, obj: Pod, ctx: Context) -> Sequence[FieldError]:
        spec = obj["spec"]
        found = self.check_pod(obj, self.options(ctx))
        if spec.get("ephemeralContainers"):
            found.append(field.forbidden(SPEC.child("ephemeralContainers"), "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            words = "cannot be set until all schedulingGates have been cleared"
            found.append(field.forbidden(SPEC.child("nodeName"), words))
        return found

    def warn(self, obj: Pod, ctx: Context) -> Sequence[str]:
        return [*_warn_name(obj), *warn_pod(obj)]

    def prepare_update(self, new: Pod, old: Pod, ctx: Context) -> None:
        keep_fields(new, old, "status")
        drop_spec_fields(new["spec"], old["spec"], ctx.gates)
        _bump(new, old, ctx)

    def validate_update(self, new: Pod, old: Pod, ctx: Context) -> Sequence[FieldError]:
        opts = self.options(ctx, old)
        return [*self.check_pod(new, opts), *check_update(new, old, opts)]

    def grace(self, obj: Pod, requested: int | None) -> int | None:
        """Pods that run somewhere are given time to end; others go at once."""
        if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Failed", "Succeeded"):
            return 0
        seconds = obj["spec"].get("terminationGracePeriodSeconds", 0) if requested is None else requested
        return 1 if seconds < 0 else seconds


class PodStatusStrategy(_Checks, UpdateStrategy["Pod"]):
    def prepare_update(self, new: Pod, old: Pod, ctx: Context) -> None:
        keep_fields(new, old, "spec")
        # Kubelets of all releases write the status, and some of them would corrupt these fields.
        keep_fields(new["metadata"], old["metadata"], "deletionTimestamp", "ownerReferences")
        update_generation(new, old, changed=False)
        status, before = new.setdefault("status", {}), old.get("status", {})
        if not status.get("qosClass") and before.get("qosClass"):
            status["qosClass"] = before["qosClass"]
        if not status.get("observedGeneration") and before.get("observedGeneration"):
            status["observedGeneration"] = before["observedGeneration"]
        if status.get("conditions") and before.get("conditions"):
            _keep_observed(status, before)
        drop_status_fields(status, before, ctx.gates)

    def validate_update(self, new: Pod, old: Pod, ctx: Context) -> Sequence[FieldError]:
        opts = self.options(ctx, old)
        found = check_annotation_changes(new, old) + check_annotations(new["metadata"], new["spec"])
        return found + check_status(new, old, opts)

    def warn_update(self, new: Pod, old: Pod, ctx: Context) -> Sequence[str]:
        status = new.get("status", {})
        if not (status.get("podIPs") or status.get("hostIPs")):
            return ()
        return [
            words
            for part in ("podIPs", "hostIPs")
            for i, entry in enumerate(status.get(part) or ())
            for words in addresses.warn_ip(entry.get("ip", ""), STATUS.child(part).index(i).child("ip"))
        ]


def _keep_observed(status: PodStatus, before: PodStatus) -> None:
    """A client that does not know a condition's observedGeneration does not remove it."""
    seen: dict[str, list[int]] = {}
    for condition in before.get("conditions") or ():
        seen.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions") or ():
        known = seen.get(condition.get("type", ""))
        generation = known.pop(0) if known else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


class PodEphemeralContainersStrategy(_Checks, UpdateStrategy["Pod"]):
    def prepare_update(self, new: Pod, old: Pod, ctx: Context) -> None:
        added = new["spec"].get("ephemeralContainers")
        keep_fields(new, old, "status")
        new["spec"] = old["spec"].copy()
        new["spec"].pop("ephemeralContainers", None)
        if added:
            new["spec"]["ephemeralContainers"] = added
        _keep_meta(new, old)
        drop_spec_fields(new["spec"], old["spec"], ctx.gates)
        _bump(new, old, ctx)

    def validate_update(self, new: Pod, old: Pod, ctx: Context) -> Sequence[FieldError]:
        if pods.is_mirror(old):
            return [field.forbidden(Path("[]"), "static pods do not support ephemeral containers")]
        found = self.check_pod(new, self.options(ctx, old)) + check_annotation_changes(new, old)
        return found + check_ephemeral_update(new, old)


class PodResizeStrategy(_Checks, UpdateStrategy["Pod"]):
    def prepare_update(self, new: Pod, old: Pod, ctx: Context) -> None:
        keep_fields(new, old, "status")
        keep_all_but_resources(new, old, self.options(ctx, old))
        _keep_meta(new, old)
        _bump(new, old, ctx)

    def validate_update(self, new: Pod, old: Pod, ctx: Context) -> Sequence[FieldError]:
        opts = self.options(ctx, old)
        return [*self.check_pod(new, opts), *check_resize(new, old, opts)]


_KEPT_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp")


def _keep_meta(new: Pod, old: Pod) -> None:
    """Subresources leave labels, annotations and the like as they were."""
    keep_fields(new["metadata"], old["metadata"], *_KEPT_METADATA)


def _warn_name(pod: Pod) -> Sequence[str]:
    messages = names.dns1123_label(pod["metadata"].get("name", ""))
    if not messages:
        return ()
    listed = " ".join(messages)
    return (
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS "
        f"label is recommended: [{listed}]",
    )


class BindingStrategy(Strategy["Binding"]):
    """A binding is an order, not an object: its name is the pod's."""

    check_name = staticmethod(name_is_dns_subdomain)

    def validate(self, obj: Binding, ctx: Context) -> Sequence[FieldError]:
        return check_binding(obj)

"""What may change in a pod that exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api import pods
from dray.api.golang import structs
from dray.api.groups.core.pod.containers import check_image_text
from dray.api.groups.core.pod.options import Part, PodValidationOptions
from dray.api.groups.core.pod.tolerations import check_only_added
from dray.api.scheme.strategy import METADATA, SPEC, keep_fields
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Container, NodeAffinity, Pod, PodSchedulingGate, PodSpec

_LONGEST: Final = (1 << 31) - 1
_UPDATABLE: Final = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ADD_ONLY: Final = "only additions are allowed (no mutations or deletions)"


def check_update(new: Pod, old: Pod, opts: PodValidationOptions) -> list[FieldError]:
    """The checks that compare; the new spec itself is checked elsewhere."""
    found = check_annotation_changes(new, old)
    spec, before = new["spec"], old["spec"]
    for part in ("containers", "initContainers"):
        wrong, stop = _check_containers(spec.get(part) or (), before.get(part) or (), SPEC.child(part))
        found += wrong
        if stop:
            return found
    wrong, stop = _check_deadline(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    found += wrong
    if stop:
        return found
    tolerations = spec.get("tolerations") or (), before.get("tolerations") or ()
    found += check_only_added(*tolerations, SPEC.child("tolerations"), opts)
    found += _check_gates(spec.get("schedulingGates") or (), before.get("schedulingGates") or ())
    if spec == before:
        return found
    undone = _undone(spec, before)
    if before.get("schedulingGates"):
        found += _allow_narrowing(undone, before)
    if undone != before:
        change = structs.diff("core/v1.PodSpec", before, undone, opts.printed_release)
        words = f"pod updates may not change fields other than {_UPDATABLE}\n{change}"
        found.append(field.forbidden(SPEC, words))
    return found


def check_annotation_changes(new: Pod, old: Pod) -> list[FieldError]:
    after, before = new["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    if after == before:
        return []
    path = METADATA.child("annotations")
    found: list[FieldError] = []
    for key in sorted({*after, *before}):
        if after.get(key) == before.get(key):
            continue
        verb = "remove or update" if key in before else "add"
        if key.startswith(_APP_ARMOR):
            found.append(field.forbidden(path.key(key), f"may not {verb} AppArmor annotations"))
        if key == pods.MIRROR_ANNOTATION:
            found.append(field.forbidden(path.key(key), f"may not {verb} mirror pod annotation"))
    return found


def _check_containers(
    new: Sequence[Container], old: Sequence[Container], path: Path
) -> tuple[list[FieldError], bool]:
    if len(new) != len(old):
        return [field.forbidden(path, "pod updates may not add or remove containers")], True
    found: list[FieldError] = []
    for i, container in enumerate(new):
        if not container.get("image"):
            found.append(field.required(path.index(i).child("image")))
        found += check_image_text(container, path.index(i))
    return found, False


def _check_deadline(new: int | None, old: int | None) -> tuple[list[FieldError], bool]:
    path = SPEC.child("activeDeadlineSeconds")
    if new is None:
        words = "must not update from a positive integer to nil value"
        return ([] if old is None else [field.invalid(path, None, words)]), False
    if not 0 <= new <= _LONGEST:
        return [field.invalid(path, new, f"must be between 0 and {_LONGEST}, inclusive")], True
    if old is not None and old < new:
        return [field.invalid(path, new, "must be less than or equal to previous value")], True
    return [], False


def _check_gates(new: Sequence[PodSchedulingGate], old: Sequence[PodSchedulingGate]) -> list[FieldError]:
    known = {gate.get("name", "") for gate in old}
    path = SPEC.child("schedulingGates")
    return [
        field.forbidden(
            path.index(i).child("name"),
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for i, gate in enumerate(new)
        if gate.get("name", "") not in known
    ]


def _with_images(containers: Sequence[Container], before: Sequence[Container]) -> list[Container]:
    return [
        {**container, "image": other.get("image", "")}
        for container, other in zip(containers, before, strict=True)
    ]


def _undone(spec: PodSpec, before: PodSpec) -> PodSpec:
    """The new spec with everything taken back that may change."""
    undone = spec.copy()
    if spec.get("containers"):
        undone["containers"] = _with_images(spec["containers"], before["containers"])
    if spec.get("initContainers"):
        undone["initContainers"] = _with_images(spec["initContainers"], before["initContainers"])
    keep_fields(undone, before, "activeDeadlineSeconds", "schedulingGates", "tolerations")
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get(
        "terminationGracePeriodSeconds"
    ) == 1:
        undone["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    return undone


def _allow_narrowing(undone: PodSpec, before: PodSpec) -> list[FieldError]:
    """A gated pod's choice of nodes may become smaller; such changes are taken back in ``undone``."""
    found: list[FieldError] = []
    selector, old_selector = undone.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if selector != old_selector:
        found += check_selector_narrowed(selector, old_selector, SPEC.child("nodeSelector"))
        _restore(undone, "nodeSelector", old_selector or None)
    affinity, old_affinity = undone.get("affinity"), before.get("affinity")
    nodes, old_nodes = ((a or {}).get("nodeAffinity") for a in (affinity, old_affinity))
    if nodes != old_nodes:
        found += check_affinity_narrowed(nodes, old_nodes, SPEC.child("affinity", "nodeAffinity"))
        others = {part: value for part, value in (affinity or {}).items() if part != "nodeAffinity"}
        if old_nodes is not None:
            others["nodeAffinity"] = old_nodes
        _restore(undone, "affinity", others if others or old_affinity is not None else None)
    return found


def _restore(undone: Any, part: str, value: Any) -> None:
    undone.pop(part, None)
    if value is not None:
        undone[part] = value


def check_selector_narrowed(new: Part, old: Part, path: Path) -> list[FieldError]:
    """Labels may be asked for in addition; none may be let go."""
    if all(new.get(key) == value for key, value in old.items()):
        return []
    words = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [field.invalid(path, dict(new) or None, words)]


def check_affinity_narrowed(
    new: NodeAffinity | None, old: NodeAffinity | None, path: Path
) -> list[FieldError]:
    """Required terms may become stricter; preferences may change freely."""
    terms, old_terms = ((a or {}).get(_REQUIRED, {}).get("nodeSelectorTerms") or () for a in (new, old))
    at = path.child(_REQUIRED, "nodeSelectorTerms")
    if not old_terms:
        return []
    if len(terms) != len(old_terms):
        words = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        shown = [structs.render("core/v1.NodeSelectorTerm", term) for term in terms]
        return [field.invalid(at, shown or None, words)]
    found: list[FieldError] = []
    for i, (term, old_term) in enumerate(zip(terms, old_terms, strict=True)):
        if term == old_term:
            continue
        if not old_term.get("matchExpressions") and not old_term.get("matchFields"):
            if term.get("matchExpressions") or term.get("matchFields"):
                found.append(_not_narrowed(term, at.index(i)))
        elif not (_extends(term, old_term, "matchFields") and _extends(term, old_term, "matchExpressions")):
            found.append(_not_narrowed(term, at.index(i)))
    return found


def _extends(new: Part, old: Part, part: str) -> bool:
    before = old.get(part) or []
    return (new.get(part) or [])[: len(before)] == before


def _not_narrowed(term: Part, path: Path) -> FieldError:
    shown = structs.render("core/v1.NodeSelectorTerm", term)
    return field.invalid(path, shown, _ADD_ONLY)

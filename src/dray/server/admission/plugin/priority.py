"""Priority: a pod's priority follows from its class, and only one class can be the default."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal

from dray.api.groups.scheduling.priorityclass import SYSTEM_CLASSES
from dray.server.admission import CREATE, DELETE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers
from dray.server.storage.watchcache import Change, WatchCache

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodSpec
    from dray.api.types.scheduling import PriorityClass
    from dray.api.types.scheduling_v1beta1 import PodGroup, PodGroupSpec

_GROUP = "scheduling.k8s.io"
_CLASSES = "priorityclasses"
#: Groups of pods have a priority of their own; messages call them by these words.
_GROUPS: Final = {"podgroups": "pod group", "compositepodgroups": "composite pod group"}
_COMPUTED: Final[tuple[Literal["priority", "preemptionPolicy"], ...]] = ("priority", "preemptionPolicy")
_NONE: PriorityClass = {"metadata": {"name": ""}, "preemptionPolicy": "PreemptLowerPriority"}


class Priority:
    name = "Priority"

    def __init__(
        self, listers: Listers, *, group_policies: bool = False, defaults_policy: bool = False
    ) -> None:
        self._listers = listers
        self._group_policies = group_policies
        self._defaults_policy = defaults_policy
        self._classes: WatchCache | None = None
        self._default_class: PriorityClass | None = None
        self._stale = True

    def handles(self, scope: RequestScope) -> bool:
        if scope.is_for("", "pods"):
            return scope.operation in (CREATE, UPDATE)
        if scope.operation == CREATE and any(scope.is_for(_GROUP, plural) for plural in _GROUPS):
            return True
        return scope.is_for(_GROUP, _CLASSES)

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource in _GROUPS:
            group: PodGroup = attributes.object
            self._assign_group(group["spec"], attributes)
            return
        if attributes.resource != "pods":
            if attributes.operation == DELETE and attributes.name in SYSTEM_CLASSES:
                raise attributes.forbidden("this is a system priority class and cannot be deleted")
            return
        pod: Pod = attributes.object
        spec = pod.setdefault("spec", {})
        if attributes.operation == CREATE:
            self._assign(spec, attributes)
        else:
            old: Pod | None = attributes.old
            _keep(spec, (old or {}).get("spec", {}))

    def _assign(self, spec: PodSpec, attributes: Attributes) -> None:
        chosen = self._class_of(spec, attributes)
        name, value, policy = (
            chosen["metadata"]["name"],
            chosen.get("value", 0),
            chosen.get("preemptionPolicy"),
        )
        by_class = "priority admission controller computed {} from the given PriorityClass name"
        stated = spec.get("priority")
        if stated is not None and stated != value:
            raise attributes.forbidden(
                f"the integer value of priority ({stated}) must not be provided in pod spec; {by_class.format(value)}"
            )
        said = spec.get("preemptionPolicy")
        if policy is not None and said is not None and said != policy:
            raise attributes.forbidden(
                f"the string value of PreemptionPolicy ({said}) must not be provided in pod spec; "
                f"{by_class.format(policy)}"
            )
        if name:
            spec["priorityClassName"] = name
        spec["priority"] = value
        if policy is not None:
            spec["preemptionPolicy"] = policy

    def _assign_group(self, spec: PodGroupSpec, attributes: Attributes) -> None:
        words = _GROUPS[attributes.resource]
        chosen = self._class_of(spec, attributes)
        name, value, policy = (
            chosen["metadata"]["name"],
            chosen.get("value", 0),
            chosen.get("preemptionPolicy"),
        )
        stated = spec.get("priority")
        if stated is not None and stated != value:
            raise attributes.forbidden(
                f"priority set in the {words} ({stated}) must match the priority computed ({value}) based on the "
                "priority class set in the spec"
            )
        spec["priority"] = value
        if name:
            spec["priorityClassName"] = name
        if not self._group_policies or policy is None:
            return
        said = spec.get("preemptionPolicy")
        if said is None and self._defaults_policy:
            said = "PreemptLowerPriority"
        if said is not None and said != policy:
            raise attributes.forbidden(
                f"the string value of PreemptionPolicy ({said}) must not be provided in {words} spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
        spec["preemptionPolicy"] = policy

    def _class_of(self, spec: PodSpec | PodGroupSpec, attributes: Attributes) -> PriorityClass:
        name = spec.get("priorityClassName")
        if not name:
            return self._default() or _NONE
        found: PriorityClass | None = self._listers.get(_GROUP, _CLASSES, name)
        if found is None:
            raise attributes.forbidden(f"no PriorityClass with name {name} was found")
        return found

    def _default(self) -> PriorityClass | None:
        """Should two defaults have slipped in at once, the lower one counts."""
        if self._classes is None:
            self._classes = self._listers.cache(_GROUP, _CLASSES)
            if self._classes is None:
                return None
            self._classes.subscribe(self._mark)
        if self._stale:
            self._stale = False
            classes: Iterable[PriorityClass] = self._listers.all(_GROUP, _CLASSES)
            defaults = (c for c in classes if c.get("globalDefault"))
            self._default_class = min(defaults, key=lambda c: c.get("value", 0), default=None)
        return self._default_class

    def _mark(self, change: Change) -> None:
        self._stale = True

    async def validate(self, attributes: Attributes) -> None:
        obj: PriorityClass | None = attributes.object
        if attributes.resource != _CLASSES or obj is None or not obj.get("globalDefault"):
            return
        default = self._default()
        if default is None:
            return
        name = default["metadata"]["name"]
        if attributes.operation == CREATE or name != obj["metadata"]["name"]:
            raise attributes.forbidden(
                f"PriorityClass {name} is already marked as default. Only one default can exist"
            )


def _keep(spec: PodSpec, old: PodSpec) -> None:
    """Clients that write pods need not repeat what was computed for them."""
    for key in _COMPUTED:
        if spec.get(key) is None and old.get(key) is not None:
            spec[key] = old[key]

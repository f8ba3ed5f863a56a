"""PodSecurity: pods must meet the level of their namespace; workloads with a pod template get warnings.

No namespace is exempt, and a namespace without labels allows everything, as in upstream's default configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dray.api import errors
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers
from dray.server.admission.podsecurity.levels import PREFIX, PRIVILEGED, LevelVersion, policy_of
from dray.server.admission.podsecurity.standards import Violation, violations

if TYPE_CHECKING:
    from dray.api.types.core import Container, Namespace, Pod, PodSpec, PodTemplateSpec
    from dray.api.types.meta import ObjectMeta

#: Kinds that have a template of pods, and where.
_TEMPLATES: Final = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
_HARMLESS: Final = frozenset(
    {"attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"}
)
_ENFORCED: Final = f"{PREFIX}enforce-policy"
_ANYTHING: Final = str(LevelVersion())
#: How many pods are looked at when a namespace becomes stricter.
_MOST_PODS: Final = 3000


class PodSecurity:
    name = "PodSecurity"

    def __init__(self, listers: Listers, *, newest: int) -> None:
        """``newest`` is the minor version whose standards are the latest ones here."""
        self._listers = listers
        self._newest = newest

    def handles(self, scope: RequestScope) -> bool:
        if scope.operation not in (CREATE, UPDATE):
            return False
        if scope.resource == "pods" and not scope.group:
            return scope.subresource not in _HARMLESS
        templates = (scope.group, scope.resource) in _TEMPLATES
        return not scope.subresource and (templates or scope.is_for("", "namespaces"))

    async def validate(self, attributes: Attributes) -> None:
        match attributes.resource:
            case "namespaces":
                self._check_namespace(attributes)
            case "pods":
                self._check_pod(attributes)
            case _:
                self._check_template(attributes)

    # Namespaces

    def _check_namespace(self, attributes: Attributes) -> None:
        new: Namespace = attributes.object
        old: Namespace | None = attributes.old
        policy, problems = policy_of(new["metadata"].get("labels"))
        before, known = policy_of(None if old is None else old["metadata"].get("labels"))
        if problems and problems != known:
            raise errors.invalid("Namespace", "", attributes.name, problems)
        wanted, had = policy.enforce, before.enforce
        relaxed = wanted.minor == had.minor and wanted.strictness <= had.strictness
        if old is None or wanted == had or wanted.level == PRIVILEGED or relaxed:
            return
        for warning in self._left_behind(new["metadata"]["name"], wanted):
            attributes.warn(warning)

    def _left_behind(self, namespace: str, demand: LevelVersion) -> Iterator[str]:
        """Which pods could not be made any more."""
        pods = list(_one_of_each(self._listers.all("", "pods", namespace)))
        counts: dict[str, list[str]] = {}
        for pod in pods[:_MOST_PODS]:
            if found := self._violations(demand, pod["metadata"], pod["spec"]):
                counts.setdefault(", ".join(v.reason for v in found), []).append(pod["metadata"]["name"])
        if len(pods) > _MOST_PODS:
            words = f"only checked against the first {_MOST_PODS} of {len(pods)} existing pods"
            yield f"new PodSecurity enforce level {words}"
        if counts:
            words = f'violate the new PodSecurity enforce level "{demand}"'
            yield f'existing pods in namespace "{namespace}" {words}'
        yield from sorted(f"{_group(names)}: {reasons}" for reasons, names in counts.items())

    # Pods, and what makes them

    def _check_pod(self, attributes: Attributes) -> None:
        new: Pod = attributes.object
        old: Pod | None = attributes.old
        if attributes.operation == UPDATE and old is not None and not _changed(new["spec"], old["spec"]):
            return
        self._evaluate(attributes, new["metadata"], new["spec"], enforce=True)

    def _check_template(self, attributes: Attributes) -> None:
        template = attributes.object
        for part in _TEMPLATES[attributes.group, attributes.resource]:
            template = (template or {}).get(part)
        if template is not None:
            found: PodTemplateSpec = template
            self._evaluate(attributes, found.get("metadata") or {}, found.get("spec") or {}, enforce=False)

    def _evaluate(
        self, attributes: Attributes, metadata: ObjectMeta, spec: PodSpec, *, enforce: bool
    ) -> None:
        namespace: Namespace = self._listers.namespace(attributes.namespace) or {}
        policy, problems = policy_of((namespace.get("metadata") or {}).get("labels"))
        idle = policy.idle and not problems
        if enforce:
            attributes.annotate(_ENFORCED, _ANYTHING if idle else str(policy.enforce))
        if idle:
            return
        if problems:
            words = ", ".join(str(problem) for problem in problems)
            listed = f"[{words}]" if len(problems) > 1 else words
            attributes.annotate(f"{PREFIX}error", f"Failed to parse policy: {listed}")
        denied = self._violations(policy.enforce, metadata, spec) if enforce else []
        if found := self._violations(policy.audit, metadata, spec):
            attributes.annotate(f"{PREFIX}audit-violations", _would(policy.audit, found))
        if denied:
            words = f'violates PodSecurity "{policy.enforce}": {_listed(denied)}'
            raise attributes.forbidden(words)
        if found := self._violations(policy.warn, metadata, spec):
            attributes.warn(_would(policy.warn, found))

    def _violations(self, demand: LevelVersion, metadata: ObjectMeta, spec: PodSpec) -> list[Violation]:
        return violations(demand, metadata, spec, newest=self._newest)


def _listed(found: list[Violation]) -> str:
    return ", ".join(map(str, found))


def _would(demand: LevelVersion, found: list[Violation]) -> str:
    return f'would violate PodSecurity "{demand}": {_listed(found)}'


def _group(names: list[str]) -> str:
    others = len(names) - 1
    return min(names) + (f" (and {others} other pod{'s' if others > 1 else ''})" if others else "")


def _one_of_each(pods: Iterable[Pod]) -> Iterator[Pod]:
    """The pods of one controller are alike: the first of each comes before all others."""
    seen: set[str] = set()
    later: list[Pod] = []
    for pod in pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        owner = next((o["uid"] for o in owners if o.get("controller")), "")
        if owner in seen:
            later.append(pod)
            continue
        if owner:
            seen.add(owner)
        yield pod
    yield from later


def _changed(new: PodSpec, old: PodSpec) -> bool:
    """Whether a pod has other containers or images than before."""

    def images(containers: Sequence[Container] | None) -> list[str]:
        return [c.get("image", "") for c in containers or ()]

    known = {c["name"]: c.get("image", "") for c in old.get("ephemeralContainers") or ()}
    added = any(known.get(c["name"]) != c.get("image", "") for c in new.get("ephemeralContainers") or ())
    return (
        added
        or images(new.get("containers")) != images(old.get("containers"))
        or images(new.get("initContainers")) != images(old.get("initContainers"))
    )

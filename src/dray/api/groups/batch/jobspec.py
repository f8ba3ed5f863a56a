"""The spec of a job, in a job or in a cron job's template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.golang import structs
from dray.api.golang.strconv import parse_int64
from dray.api.groups.apps.workload import check_counts
from dray.api.groups.core.pod.warnings import warn_template
from dray.api.groups.core.podtemplate import check_template
from dray.api.scheme.strategy import Context
from dray.api.validation import checks, field
from dray.api.validation.field import OMIT, ErrorType, FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.batch import (
        JobSpec,
        PodFailurePolicyOnExitCodesRequirement,
        PodFailurePolicyOnPodConditionsPattern,
    )

_MODES: Final = ("NonIndexed", "Indexed")
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES: Final = ("False", "True", "Unknown")
_MANY: Final = 100_000
_MANY_AT_ONCE: Final = 10_000
_INDEXED_ONLY: Final = "requires indexed completion mode"

Part = Mapping[str, Any]


def default_spec(spec: JobSpec) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    per_index = spec.get("backoffLimitPerIndex") is not None
    spec.setdefault("backoffLimit", (1 << 31) - 1 if per_index else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    default_failure_policy(spec)


def default_failure_policy(spec: JobSpec) -> None:
    """What a failure policy leaves open, also in a template."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def without_value(path: Path, words: str) -> FieldError:
    return FieldError(ErrorType.INVALID, str(path), OMIT, words)


def check_spec(spec: JobSpec, path: Path, ctx: Context) -> list[FieldError]:
    found = check_counts(
        spec, path, "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
        "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
    )  # fmt: skip
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        found.append(field.required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        found += _check_manager(manager, path.child("managedBy"))
    found += _check_mode(spec, path)
    if spec.get("podFailurePolicy") is not None:
        found += _check_failure_policy(spec, path.child("podFailurePolicy", "rules"))
    if spec.get("successPolicy") is not None:
        at = path.child("successPolicy")
        if spec.get("completionMode") == "Indexed":
            found += _check_success_policy(spec, at.child("rules"))
        else:
            shown = structs.render("batch/v1.SuccessPolicy", spec["successPolicy"])
            found.append(field.invalid(at, shown, _INDEXED_ONLY))
    found += _check_replacement(spec, path.child("podReplacementPolicy"))
    found += check_template(spec.get("template") or {}, path.child("template"), ctx)
    return found + _check_restart(spec, path.child("template", "spec", "restartPolicy"))


def _check_manager(manager: str, path: Path) -> list[FieldError]:
    found = checks.domain_prefixed_path(manager, path)
    if len(manager) > 63:
        found.append(field.too_long(path, 63))
    return found


def _check_mode(spec: JobSpec, path: Path) -> list[FieldError]:
    mode = spec.get("completionMode")
    completions, failed = spec.get("completions"), spec.get("maxFailedIndexes")
    found: list[FieldError] = []
    if mode is not None:
        found += checks.one_of(mode, path.child("completionMode"), _MODES)
    if mode != "Indexed":
        if mode in (None, "NonIndexed"):
            for part in ("backoffLimitPerIndex", "maxFailedIndexes"):
                if spec.get(part) is not None:
                    found.append(field.invalid(path.child(part), spec[part], _INDEXED_ONLY))
        return found
    if completions is None:
        found.append(field.required(path.child("completions"), "when completion mode is Indexed"))
    if (parallel := spec.get("parallelism") or 0) > _MANY:
        words = f"must be less than or equal to {_MANY} when completion mode is Indexed"
        found.append(field.invalid(path.child("parallelism"), parallel, words))
    if completions is not None and failed is not None and failed > completions:
        words = "must be less than or equal to completions"
        found.append(field.invalid(path.child("maxFailedIndexes"), failed, words))
    if failed is not None and failed > _MANY:
        words = f"must be less than or equal to {_MANY}"
        found.append(field.invalid(path.child("maxFailedIndexes"), failed, words))
    if (completions or 0) > _MANY and spec.get("backoffLimitPerIndex") is not None:
        found += _check_many(parallel, failed, path)
    return found


def _check_many(parallel: int, failed: int | None, path: Path) -> list[FieldError]:
    limit = f"must be less than or equal to {_MANY_AT_ONCE} when completions are above {_MANY} and used with "
    limit += "backoff limit per index"
    found: list[FieldError] = []
    if failed is None:
        words = f"must be specified when completions is above {_MANY}"
        found.append(field.required(path.child("maxFailedIndexes"), words))
    if parallel > _MANY_AT_ONCE:
        found.append(field.invalid(path.child("parallelism"), parallel, limit))
    if failed is not None and failed > _MANY_AT_ONCE:
        found.append(field.invalid(path.child("maxFailedIndexes"), failed, limit))
    return found


def _quoted(values: Sequence[str]) -> str:
    return "valid values: [" + " ".join(field.quote(value) for value in values) + "]"


def _check_failure_policy(spec: JobSpec, path: Path) -> list[FieldError]:
    rules = spec["podFailurePolicy"].get("rules") or ()
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {c.get("name") for part in ("containers", "initContainers") for c in pod.get(part) or ()}
    found: list[FieldError] = []
    if len(rules) > 20:
        found.append(field.too_many(path, len(rules), 20))
    for i, rule in enumerate(rules):
        at, action = path.index(i), rule.get("action", "")
        if not action:
            found.append(field.required(at.child("action"), _quoted(_ACTIONS)))
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            words = "requires the backoffLimitPerIndex to be set"
            found.append(field.invalid(at.child("action"), action, words))
        elif action not in _ACTIONS:
            found.append(field.not_supported(at.child("action"), action, _ACTIONS))
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if codes is not None:
            found += _check_exit_codes(codes, containers, at.child("onExitCodes"))
        found += _check_conditions(conditions, at.child("onPodConditions"))
        if codes is not None and conditions:
            words = "specifying both OnExitCodes and OnPodConditions is not supported"
            found.append(without_value(at, words))
        if codes is None and not conditions:
            words = "specifying one of OnExitCodes and OnPodConditions is required"
            found.append(without_value(at, words))
    return found


def _check_conditions(
    patterns: Sequence[PodFailurePolicyOnPodConditionsPattern], path: Path
) -> list[FieldError]:
    found = [field.too_many(path, len(patterns), 20)] if len(patterns) > 20 else []
    for i, pattern in enumerate(patterns):
        at, status = path.index(i), pattern.get("status", "")
        found += checks.qualified_name(pattern.get("type", ""), at.child("type"))
        if not status:
            found.append(field.required(at.child("status"), _quoted(_STATUSES)))
        elif status not in _STATUSES:
            found.append(field.not_supported(at.child("status"), status, _STATUSES))
    return found


def _check_exit_codes(
    codes: PodFailurePolicyOnExitCodesRequirement, containers: set[Any], path: Path
) -> list[FieldError]:
    operator, values, container = (
        codes.get("operator", ""),
        codes.get("values") or [],
        codes.get("containerName"),
    )
    found: list[FieldError] = []
    if not operator:
        found.append(field.required(path.child("operator"), _quoted(("In", "NotIn"))))
    elif operator not in ("In", "NotIn"):
        found.append(field.not_supported(path.child("operator"), operator, ("In", "NotIn")))
    if container is not None and container not in containers:
        words = "must be one of the container or initContainer names in the pod template"
        found.append(field.invalid(path.child("containerName"), container, words))
    at = path.child("values")
    if not values:
        found.append(field.invalid(at, codes.get("values"), "at least one value is required"))
    elif len(values) > 255:
        found.append(field.too_many(at, len(values), 255))
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            found.append(field.invalid(at.index(i), value, "must not be 0 for the In operator"))
        if value in values[:i]:
            found.append(field.duplicate(at.index(i), value))
    if values != sorted(values):
        found.append(field.invalid(at, values, "must be ordered"))
    return found


def _check_success_policy(spec: JobSpec, path: Path) -> list[FieldError]:
    rules = spec["successPolicy"].get("rules") or ()
    completions = spec.get("completions") or 0
    found: list[FieldError] = []
    if not rules:
        words = "at least one rules must be specified when the successPolicy is specified"
        found.append(field.required(path, words))
    if len(rules) > 20:
        found.append(field.too_many(path, len(rules), 20))
    for i, rule in enumerate(rules):
        at, count, indexes = path.index(i), rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            words = "at least one of succeededCount or succeededIndexes must be specified"
            found.append(field.required(at, words))
        total = 0
        if indexes is not None:
            total, problem = count_indexes(indexes, completions)
            if problem:
                words = f"error parsing succeededIndexes: {problem}"
                found.append(field.invalid(at.child("succeededIndexes"), indexes, words))
        if count is not None:
            where = at.child("succeededCount")
            found += checks.not_negative(count, where)
            if count > completions:
                words = f"must be less than or equal to {completions} (the number of specified completions)"
                found.append(field.invalid(where, count, words))
            if indexes is not None and count > total:
                words = (
                    f"must be less than or equal to {total} (the number of indexes in the specified "
                    "succeededIndexes field)"
                )
                found.append(field.invalid(where, count, words))
    return found


def count_indexes(text: str, completions: int) -> tuple[int, str]:
    """How many indexes ``1,3-5`` stands for, and what is wrong with it."""
    total = 0
    last: int | None = None
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            shown = field.quote(part)
            rule = (
                "violates the requirement that an index interval can have at most two parts separated by '-'"
            )
            return 0, f"the fragment {shown} {rule}"
        numbers = []
        for end in ends:
            if (number := parse_int64(end)) is None:
                return 0, f"cannot convert string to integer for index: {field.quote(end)}"
            if number >= completions:
                return 0, f"too large index: {field.quote(end)}"
            numbers.append(number)
        low, high = numbers[0], numbers[-1]
        if len(ends) == 2 and low >= high:
            return 0, f"non-increasing order, previous: {low}, current: {high}"
        if last is not None and last >= low:
            return 0, f"non-increasing order, previous: {last}, current: {low}"
        total, last = total + high - low + 1, high
    return total, ""


def _check_replacement(spec: JobSpec, path: Path) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return []
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    return [] if policy in allowed else [field.not_supported(path, policy, allowed)]


def _check_restart(spec: JobSpec, path: Path) -> list[FieldError]:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "")
    if policy in ("Always", ""):
        return [field.required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [field.not_supported(path, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        words = 'only "Never" is supported when podFailurePolicy is specified'
        return [field.invalid(path, policy, words)]
    return []


def warn_spec(spec: JobSpec, path: Path) -> list[str]:
    found: list[str] = []
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and (spec.get("completions") or 0) > _MANY and (spec.get("parallelism") or 0) > _MANY_AT_ONCE:
        found.append(
            "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
            "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    return found + warn_template(spec.get("template") or {}, path.child("template"))

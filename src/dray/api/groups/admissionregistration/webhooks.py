"""Webhooks: servers that are asked about requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from dray.api.groups.admissionregistration.matchresources import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    check_conditions,
    check_rule,
    default_rules,
)
from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import Context, SubdomainStrategy, update_generation
from dray.api.validation import checks, field, names, objectmeta
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import (
        MutatingWebhook,
        ServiceReference,
        ValidatingWebhook,
        ValidatingWebhookConfiguration,
        WebhookClientConfig,
    )

_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_ALL_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun", "Some", "Unknown")
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_FORM: Final = "; desired format: https://host[/path]"
_WEBHOOKS: Final = Path("webhooks")


def default_validating(obj: Object) -> None:
    for hook in obj.get("webhooks") or ():
        default_rules(hook.get("rules") or ())
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        service = hook.get("clientConfig", {}).get("service")
        if service is not None and service.get("port") is None:
            service["port"] = 443


def default_mutating(obj: Object) -> None:
    default_validating(obj)
    for hook in obj.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


def check_url(url: str, path: Path) -> list[FieldError]:
    try:
        parts = urlsplit(url)
    except ValueError as problem:
        return [field.required(path, f"url must be a valid URL: {problem}{_FORM}")]
    found: list[FieldError] = []
    if parts.scheme != "https":
        words = f"'https' is the only allowed URL scheme{_FORM}"
        found.append(field.invalid(path, parts.scheme, words))
    host = parts.netloc.rpartition("@")[2]
    if not host:
        found.append(field.invalid(path, host, f"host must be specified{_FORM}"))
    if "@" in parts.netloc:
        who = parts.netloc.rpartition("@")[0]
        found.append(field.invalid(path, who, "user information is not permitted in the URL"))
    if parts.fragment:
        found.append(field.invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        found.append(field.invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return found


def check_service(service: ServiceReference, path: Path) -> list[FieldError]:
    found = [field.required(path.child(part)) for part in ("namespace", "name") if not service.get(part)]
    port = service.get("port") or 0
    if not 1 <= port <= 65535:
        words = f"port is not valid: {checks.PORT_RANGE}"
        found.append(field.invalid(path.child("port"), port, words))
    target, at = service.get("path"), path.child("path")
    if target in (None, "", "/"):
        return found
    if target == "//":
        return [*found, field.invalid(at, target, "segment[0] may not be empty")]
    if not target.startswith("/"):
        found.append(field.invalid(at, target, "must start with a '/'"))
    for i, segment in enumerate(target[1:].removesuffix("/").split("/")):
        if not segment:
            found.append(field.invalid(at, target, f"segment[{i}] may not be empty"))
            continue
        found += (
            field.invalid(at, target, f"segment[{i}]: {message}")
            for message in names.dns1123_subdomain(segment)
        )
    return found


def check_client_config(config: WebhookClientConfig, path: Path) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [field.required(path, "exactly one of url or service is required")]
    if url is not None:
        return check_url(url, path.child("url"))
    return check_service(service or {}, path.child("service"))


def check_full_name(name: str, path: Path) -> list[FieldError]:
    if not name:
        return [field.required(path)]
    if messages := names.dns1123_subdomain(name):
        return [field.invalid(path, name, ",".join(messages))]
    if name.count(".") < 2:
        return [
            field.invalid(path, name, "should be a domain with at least three segments separated by dots")
        ]
    return []


def check_review_versions(versions: Sequence[str], path: Path, *, known: bool) -> list[FieldError]:
    listed = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [field.required(path, f"must specify one of {listed}")]
    found: list[FieldError] = []
    for i, version in enumerate(versions):
        if version in versions[:i]:
            found.append(field.invalid(path.index(i), version, "duplicate version"))
        else:
            found += checks.each(version, path.index(i), names.dns1035_label(version))
    if known and not set(versions) & set(_REVIEW_VERSIONS):
        found.append(field.invalid(path, list(versions), f"must include at least one of {listed}"))
    return found


class WebhookConfigurationStrategy(SubdomainStrategy["ValidatingWebhookConfiguration"]):
    """Of validating and, with one field more, of mutating webhooks."""

    unconditional_update = False

    def prepare_create(self, obj: ValidatingWebhookConfiguration, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(
        self, new: ValidatingWebhookConfiguration, old: ValidatingWebhookConfiguration, ctx: Context
    ) -> None:
        update_generation(new, old, changed=new.get("webhooks") != old.get("webhooks"))

    def validate(self, obj: ValidatingWebhookConfiguration, ctx: Context) -> Sequence[FieldError]:
        return _check_all(obj.get("webhooks") or (), (), ctx)

    def validate_update(
        self, new: ValidatingWebhookConfiguration, old: ValidatingWebhookConfiguration, ctx: Context
    ) -> Sequence[FieldError]:
        return _check_all(new.get("webhooks") or (), old.get("webhooks") or (), ctx)


def _check_all(
    hooks: Sequence[ValidatingWebhook], old: Sequence[ValidatingWebhook], ctx: Context
) -> list[FieldError]:
    """Checks all hooks; what old ones already got wrong is tolerated."""
    harmless = all(hook.get("sideEffects") in _SIDE_EFFECTS for hook in old)
    known = all(
        set(hook.get("admissionReviewVersions") or _REVIEW_VERSIONS) & set(_REVIEW_VERSIONS) for hook in old
    )
    old_names = [hook.get("name") for hook in old]
    unique = len(set(old_names)) == len(old_names)
    same = [hook.get("matchConditions") for hook in hooks] == [hook.get("matchConditions") for hook in old]
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, hook in enumerate(hooks):
        path = _WEBHOOKS.index(i)
        found += _check_hook(hook, path, ctx, harmless=harmless, conditions_changed=not same)
        versions = hook.get("admissionReviewVersions") or ()
        found += check_review_versions(versions, path.child("admissionReviewVersions"), known=known)
        name = hook.get("name", "")
        if unique and name and name in seen:
            found.append(field.duplicate(path.child("name"), name))
        seen.add(name)
    return found


def _check_hook(
    part: MutatingWebhook | ValidatingWebhook,
    path: Path,
    ctx: Context,
    *,
    harmless: bool,
    conditions_changed: bool,
) -> list[FieldError]:
    found = check_full_name(part.get("name", ""), path.child("name"))
    for i, rule in enumerate(part.get("rules") or ()):
        found += check_rule(rule, path.child("rules").index(i))
    for name, value, allowed in (
        ("failurePolicy", part.get("failurePolicy"), FAILURE_POLICIES),
        ("matchPolicy", part.get("matchPolicy"), MATCH_POLICIES),
    ):
        if value is not None and value not in allowed:
            found.append(field.not_supported(path.child(name), value, allowed))
    effects: str | None = part.get("sideEffects")
    at = path.child("sideEffects")
    permitted = _SIDE_EFFECTS if harmless else _ALL_SIDE_EFFECTS
    if effects is None:
        found.append(field.required(at, f"must specify one of {', '.join(permitted)}"))
    elif effects not in permitted:
        found.append(field.not_supported(at, effects, permitted))
    seconds = part.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        words = "the timeout value must be between 1 and 30 seconds"
        found.append(field.invalid(path.child("timeoutSeconds"), seconds, words))
    found += objectmeta.validate_label_selector(
        part.get("namespaceSelector"), path.child("namespaceSelector")
    )
    found += objectmeta.validate_label_selector(part.get("objectSelector"), path.child("objectSelector"))
    policy = cast("MutatingWebhook", part).get("reinvocationPolicy")
    if policy is not None and policy not in REINVOCATION_POLICIES:
        found.append(field.not_supported(path.child("reinvocationPolicy"), policy, REINVOCATION_POLICIES))
    found += check_client_config(part.get("clientConfig") or {}, path.child("clientConfig"))
    if conditions_changed:
        conditions = part.get("matchConditions") or ()
        found += check_conditions(conditions, path.child("matchConditions"), ctx, params=False)
    return found

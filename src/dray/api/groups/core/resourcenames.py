"""Resource names such as ``cpu``, ``hugepages-2Mi`` or ``example.com/gpu``, and the amounts given of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api.quantity import Quantity
from dray.api.textcache import cache_texts
from dray.api.validation import field, names
from dray.api.validation.field import FieldError, Path

HUGE_PAGES: Final = "hugepages-"
REQUESTS: Final = "requests."
_NATIVE_DOMAIN: Final = "kubernetes.io/"

ZERO: Final = Quantity()

_COUNTED: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_QUOTA_COMPUTE: Final = frozenset(
    prefix + name for prefix in ("", "requests.", "limits.") for name in _COMPUTE
) | {"requests.storage"}
QUOTA_NAMES: Final = _COUNTED | _QUOTA_COMPUTE
STANDARD_NAMES: Final = QUOTA_NAMES | {"storage"}


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def is_quota_huge_pages(name: str) -> bool:
    return name.startswith((HUGE_PAGES, REQUESTS + HUGE_PAGES))


def is_native(name: str) -> bool:
    """Names without a domain belong to Kubernetes, as those of its own domain do."""
    return "/" not in name or _NATIVE_DOMAIN in name


@cache_texts(4096)
def is_extended(name: str) -> bool:
    """Whether a name is a vendor's; as a quota's name, behind ``requests.``, it must be valid too."""
    if is_native(name) or name.startswith(REQUESTS):
        return False
    return not names.qualified_name(REQUESTS + name)


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


def is_container_resource(name: str) -> bool:
    return name in _COMPUTE or is_huge_pages(name)


def is_standard(name: str) -> bool:
    return name in STANDARD_NAMES or is_quota_huge_pages(name)


def is_standard_quota(name: str) -> bool:
    return name in QUOTA_NAMES or is_quota_huge_pages(name)


def is_whole(name: str) -> bool:
    """Whether the resource can only be had in whole numbers."""
    return name in _COUNTED or is_extended(name)


def rounded(amounts: Mapping[str, str]) -> dict[str, str]:
    """Amounts rounded up to thousandths, which is as fine as the API goes."""
    return {name: str(Quantity.parse(amount).rounded_up(-3)) for name, amount in amounts.items()}


def check_value(name: str, amount: str, path: Path) -> list[FieldError]:
    found = check_nonnegative(amount, path)
    if is_whole(name) and Quantity.parse(amount).milli_value() % 1000:
        found.append(field.invalid(path, amount, "must be an integer"))
    return found


def check_nonnegative(amount: str, path: Path) -> list[FieldError]:
    if Quantity.parse(amount).sign < 0:
        return [field.invalid(path, amount, "must be greater than or equal to 0")]
    return []


def check_positive(amount: str, path: Path) -> list[FieldError]:
    if Quantity.parse(amount).sign <= 0:
        return [field.invalid(path, amount, "must be greater than zero")]
    return []


def check_name(name: str, path: Path) -> list[FieldError]:
    """A name that is Kubernetes' own or has a domain."""
    found = [field.invalid(path, name, message) for message in names.qualified_name(name)]
    if not found and "/" not in name and not is_standard(name):
        found.append(field.invalid(path, name, "must be a standard resource type or fully qualified"))
    return found

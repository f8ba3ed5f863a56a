"""Names of drivers and pools: what is remembered or matched at one glance is what the long way finds good."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from dray.api.groups.resource import limits
from dray.api.groups.resource.validation import checks
from dray.api.validation import names
from dray.api.validation.field import Path

NAMES = st.one_of(st.text("aZ0-./\u212a", max_size=8), st.text("a.", min_size=60, max_size=66))
PATH = Path("x")


@given(NAMES)
@example("a" * limits.DRIVER_NAME)
@example("a" * (limits.DRIVER_NAME + 1))
@example("\u212a" * 21 + "a")  # few characters, many bytes
def test_a_driver_is_named_by_a_short_subdomain_in_any_case(value: str) -> None:
    errs = checks.Errors()
    checks.driver_name(value, PATH, errs)
    good = bool(value) and names.size(value) <= limits.DRIVER_NAME
    assert (not errs) is (good and not names.dns1123_subdomain(value.lower()))


@given(NAMES)
@example("a" * limits.POOL_NAME)
@example("a" * (limits.POOL_NAME + 1))
def test_a_pool_is_named_by_subdomains_between_slashes(value: str) -> None:
    errs = checks.Errors()
    checks.pool_name(value, PATH, errs)
    good = bool(value) and names.size(value) <= limits.POOL_NAME
    assert (not errs) is (good and not any(map(names.dns1123_subdomain, value.split("/"))))

"""The base environment: CEL as a Kubernetes release configures it for everything built on top."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from dray.api.release import NEWEST, V1_27, V1_28, V1_29, V1_30, V1_31, V1_32, V1_33, V1_34, Release, Span
from dray.api.semver import Version
from dray.cel.common.decls import Environment, Library
from dray.cel.library.authz import AUTHZ, AUTHZ_SELECTORS
from dray.cel.library.comprehensions import TWO_VARIABLE_COMPREHENSIONS
from dray.cel.library.formats import FORMATS
from dray.cel.library.lists import KUBERNETES_LISTS, lists
from dray.cel.library.network import CIDR_LIBRARY, IP_LIBRARY
from dray.cel.library.optionals import OPTIONALS
from dray.cel.library.quantities import QUANTITIES
from dray.cel.library.regex import REGEX
from dray.cel.library.semver import semver
from dray.cel.library.sets import SETS
from dray.cel.library.stdlib import STANDARD
from dray.cel.library.strings import strings
from dray.cel.library.urls import URLS

#: A new expression may use only what this release knows, so that a cluster can go back to it. Stored expressions may
#: use whatever was ever introduced.
COMPATIBILITY_RELEASE: Final = NEWEST.previous
#: What one evaluation of an expression may cost.
PER_CALL_LIMIT: Final = 1_000_000
#: Bytes of a message that a messageExpression makes.
MAX_MESSAGE: Final = 5 * 1024
#: Bytes of a request: the size of a value that has no smaller limit.
MAX_REQUEST: Final = 3 * 1024 * 1024
#: The type of the variable ``variables``, which holds those of an admission policy.
VARIABLES_TYPE: Final = "kubernetes.variables"


class VersionedOptions(NamedTuple):
    """Libraries and settings that some releases have (upstream's environment.VersionedOptions)."""

    releases: Span
    libraries: tuple[Library, ...]
    optional_syntax: bool = False  # ``a.?b`` and ``a[?b]``
    cross_type_comparisons: bool = False  # ``<`` and its like between int, uint and double
    validate_literals: bool = False  # literals are validated after the type check
    mixed_literals_in: frozenset[str] = frozenset()  # functions whose list literals may mix types


# In the order of introduction, which is the order in which overloads are tried.
_OPTIONS: Final = (
    VersionedOptions(Span(), (STANDARD, URLS, REGEX, KUBERNETES_LISTS)),
    VersionedOptions(Span(V1_27), (AUTHZ,)),
    VersionedOptions(Span(V1_28), (OPTIONALS, QUANTITIES), optional_syntax=True, cross_type_comparisons=True),
    VersionedOptions(Span(until=V1_28), (strings(0),)),
    VersionedOptions(
        Span(V1_29), (strings(2), SETS), validate_literals=True, mixed_literals_in=frozenset({"format"})
    ),
    VersionedOptions(Span(V1_30), (IP_LIBRARY, CIDR_LIBRARY)),
    VersionedOptions(Span(V1_31), (FORMATS, AUTHZ_SELECTORS)),
    VersionedOptions(Span(V1_32), (TWO_VARIABLE_COMPREHENSIONS,)),
    VersionedOptions(Span(V1_33), (semver(1),)),
    VersionedOptions(Span(V1_34), (lists(3),)),
)


@lru_cache
def base(release: Release = NEWEST) -> Environment:
    """What expressions of a release may use; what later releases introduced is not declared."""
    options = [one for one in _OPTIONS if one.releases.covers(release)]
    environment = Environment(
        optional_syntax=any(one.optional_syntax for one in options),
        homogeneous=True,
        cross_type_comparisons=any(one.cross_type_comparisons for one in options),
        validate_literals=any(one.validate_literals for one in options),
        mixed_literals_in=frozenset[str]().union(*(one.mixed_literals_in for one in options)),
    )
    return environment.with_libraries(*(library for one in options for library in one.libraries))


def parse_version(text: str) -> Version:
    """The value of a version attribute; ValueError in upstream's words."""
    try:
        return Version.parse(text)
    except ValueError as wrong:
        raise ValueError(f"parse semantic version: {wrong}") from None

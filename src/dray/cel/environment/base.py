"""The base environment: CEL as a Kubernetes release configures it for everything built on top."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from dray.cel.common.decls import Environment
from dray.cel.library.authz import AUTHZ, AUTHZ_SELECTORS
from dray.cel.library.formats import FORMATS
from dray.cel.library.lists import KUBERNETES_LISTS, lists
from dray.cel.library.network import CIDR_LIBRARY, IP_LIBRARY
from dray.cel.library.optionals import OPTIONALS
from dray.cel.library.quantities import QUANTITIES
from dray.cel.library.regex import REGEX
from dray.cel.library.semver import semver
from dray.cel.library.sets import SETS
from dray.cel.library.stdlib import STANDARD, TWO_VARIABLE_COMPREHENSIONS
from dray.cel.library.strings import strings
from dray.cel.library.urls import URLS


class Release(NamedTuple):
    major: int
    minor: int


NEWEST: Final = Release(1, 99)
"""Stands for "everything ever introduced", which is what stored expressions may use."""

# In the order of introduction, which is the order in which overloads are tried.
_LIBRARIES: Final = (
    (Release(1, 0), (STANDARD, URLS, REGEX, KUBERNETES_LISTS)),
    (Release(1, 27), (AUTHZ,)),
    (Release(1, 28), (OPTIONALS, QUANTITIES)),
    (Release(1, 29), (strings(2), SETS)),
    (Release(1, 30), (IP_LIBRARY, CIDR_LIBRARY)),
    (Release(1, 31), (FORMATS, AUTHZ_SELECTORS)),
    (Release(1, 32), (TWO_VARIABLE_COMPREHENSIONS,)),
    (Release(1, 33), (semver(1),)),
    (Release(1, 34), (lists(3),)),
)


@lru_cache
def base(release: Release = NEWEST) -> Environment:
    """What expressions of a release may use; features of later releases are not declared."""
    libraries = [library for since, group in _LIBRARIES if release >= since for library in group]
    if release < (1, 29):
        libraries.append(strings(0))
    environment = Environment(
        optional_syntax=release >= (1, 28),
        homogeneous=True,
        cross_type_comparisons=release >= (1, 28),
        validate_literals=release >= (1, 29),
        mixed_literals_in=frozenset({"format"}) if release >= (1, 29) else frozenset(),
    )
    return environment.with_libraries(*libraries)

"""The base environment: CEL as a Kubernetes release configures it for everything built on top."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from dray.cel.decls import Environment
from dray.cel.library.optionals import OPTIONALS
from dray.cel.library.quantities import QUANTITIES
from dray.cel.library.strings import strings
from dray.cel.library.versions import VERSIONS
from dray.cel.stdlib import STANDARD, TWO_VARIABLE_COMPREHENSIONS


class Release(NamedTuple):
    major: int
    minor: int


NEWEST: Final = Release(1, 99)
"""Stands for "everything ever introduced", which is what stored expressions may use."""


@lru_cache
def base(release: Release = NEWEST) -> Environment:
    """What expressions of a release may use; features of later releases are not declared."""
    libraries = [STANDARD]
    libraries.append(strings(2) if release >= (1, 29) else strings(0))
    if release >= (1, 28):
        libraries += [OPTIONALS, QUANTITIES]
    if release >= (1, 32):
        libraries.append(TWO_VARIABLE_COMPREHENSIONS)
    if release >= (1, 33):
        libraries.append(VERSIONS)
    environment = Environment(
        optional_syntax=release >= (1, 28),
        homogeneous=True,
        cross_type_comparisons=release >= (1, 28),
        validate_literals=release >= (1, 29),
        mixed_literals_in=frozenset({"format"}) if release >= (1, 29) else frozenset(),
    )
    return environment.with_libraries(*libraries)

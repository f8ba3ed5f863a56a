"""The pod security labels of a namespace: a level and a version for each of enforce, audit and warn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from dray.api.validation import field
from dray.api.validation.field import FieldError

PREFIX: Final = "pod-security.kubernetes.io/"
PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)  # from lax to strict
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)")
_LABELS: Final = field.Path("metadata").child("labels")
#: The newest version has no number.
LATEST: Final = -1


class LevelVersion(NamedTuple):
    """How careful pods must be."""

    level: str = PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    @property
    def strictness(self) -> int:
        return LEVELS.index(self.level)


class Policy(NamedTuple):
    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()

    @property
    def idle(self) -> bool:
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED


NOTHING: Final = Policy()


def policy_of(labels: Mapping[str, str] | None) -> tuple[Policy, list[FieldError]]:
    """What labels ask for, and what is wrong with them. There is always an answer; a strict one where the enforced
    level cannot be understood."""
    if not labels or not any(label.startswith(PREFIX) for label in labels):
        return NOTHING, []
    reader = _Reader(labels)
    enforce = reader.demand("enforce", otherwise=RESTRICTED)
    audit = reader.demand("audit", otherwise=PRIVILEGED)
    warn = reader.demand("warn", otherwise=PRIVILEGED)
    # Who enforces a level is warned of it too, for the sake of what makes pods only later.
    understood = labels.get(f"{PREFIX}enforce") in LEVELS
    if understood and f"{PREFIX}warn" not in labels and enforce.strictness > warn.strictness:
        minor = warn.minor if f"{PREFIX}warn-version" in labels else enforce.minor
        warn = LevelVersion(enforce.level, minor)
    return Policy(enforce, audit, warn), reader.problems


class _Reader:
    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self.problems: list[FieldError] = []

    def demand(self, mode: str, *, otherwise: str) -> LevelVersion:
        return LevelVersion(self._level(f"{PREFIX}{mode}", otherwise), self._minor(f"{PREFIX}{mode}-version"))

    def _level(self, label: str, otherwise: str) -> str:
        given = self._labels.get(label)
        if given is None:
            return PRIVILEGED
        if given in LEVELS:
            return given
        self._problem(label, given, f"must be one of {', '.join(LEVELS)}")
        return otherwise

    def _minor(self, label: str) -> int:
        given = self._labels.get(label)
        if given is None or given == "latest":
            return LATEST
        if match := _VERSION.fullmatch(given):
            return int(match[1])
        self._problem(label, given, 'must be "latest" or "v1.x"')
        return LATEST

    def _problem(self, label: str, given: str, words: str) -> None:
        self.problems.append(field.invalid(_LABELS.key(label), given, words))

"""One minor release of Kubernetes, and the span of releases that has something."""

from __future__ import annotations

from typing import Final, NamedTuple


class Release(NamedTuple):
    """A minor release such as 1.37. Releases are ordered."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def previous(self) -> Release:
        return Release(self.major, self.minor - 1)

    @property
    def is_newest(self) -> bool:
        """Whether this is the newest release that dray knows, or a later one."""
        return self >= NEWEST

    @classmethod
    def parse(cls, text: str) -> Release:
        """``1.36``, ``v1.36`` or ``v1.36.4``; a ValueError if it is none of them."""
        major, minor = text.removeprefix("v").split(".")[:2]
        return cls(int(major), int(minor))


V1_26: Final = Release(1, 26)
V1_27: Final = Release(1, 27)
V1_28: Final = Release(1, 28)
V1_29: Final = Release(1, 29)
V1_30: Final = Release(1, 30)
V1_31: Final = Release(1, 31)
V1_32: Final = Release(1, 32)
V1_33: Final = Release(1, 33)
V1_34: Final = Release(1, 34)
V1_35: Final = Release(1, 35)
V1_36: Final = Release(1, 36)
V1_37: Final = Release(1, 37)

#: The first release with Dynamic Resource Allocation.
OLDEST: Final = V1_26
#: The release whose behaviour is followed where none is emulated.
NEWEST: Final = V1_37


class Span(NamedTuple):
    """The releases that have something: from ``since`` up to and including ``until`` (None: it is still there)."""

    since: Release = OLDEST
    until: Release | None = None

    @classmethod
    def parse(cls, text: str) -> Span:
        """``1.26-1.33``, or ``1.26-`` without an end."""
        since, _, until = text.partition("-")
        return cls(Release.parse(since), Release.parse(until) if until else None)

    def covers(self, release: Release) -> bool:
        return self.since <= release and (self.until is None or self.until >= release)

"""The report of the checks: each with its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation and what came of it."""

    name: str
    outcome: Outcome
    detail: str = ""


@dataclass(slots=True)
class Report:
    """All checks of one driver."""

    driver: str = ""
    checks: list[Check] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(c.outcome is Outcome.FAILED for c in self.checks)

    def expect(self, name: str, good: bool, detail: str = "") -> bool:
        self.checks.append(Check(name, Outcome.PASSED if good else Outcome.FAILED, "" if good else detail))
        return good

    def skip(self, name: str, why: str) -> None:
        self.checks.append(Check(name, Outcome.SKIPPED, why))

    def note(self, name: str, detail: str) -> None:
        self.checks.append(Check(name, Outcome.NOTE, detail))


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Which driver to check, and where it lives."""

    registry: Path = Path("/var/lib/kubelet/plugins_registry")
    driver: str = ""  # default: the only one in the registry
    node: str = ""
    cdi_dirs: Sequence[Path] = (Path("/etc/cdi"), Path("/var/run/cdi"))
    namespace: str = "default"
    #: A shell command that restarts the driver; without it, restarts are not tried.
    restart: str = ""
    #: Where a path that the driver names is found here.
    locate: Callable[[str], str] = str

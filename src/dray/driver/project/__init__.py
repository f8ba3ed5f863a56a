"""The project that ``dray driver new`` makes: a driver, its tests, a chart and what continuous integration needs.

The files under ``template`` are texts in which ``@name@`` stands for what differs; so do their paths.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from dray import __version__

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST: Final = 63


class ProjectError(ValueError):
    """The project cannot be made as asked for."""


@dataclass(frozen=True)
class Project:
    """What the names in the template stand for."""

    driver: str  # cats.example.com

    def __post_init__(self) -> None:
        if len(self.driver) > _LONGEST or not _NAME.fullmatch(self.driver):
            raise ProjectError(
                f"{self.driver} is no name of a driver: it is a DNS name of at most {_LONGEST} characters "
                f"in lower case, such as cats.example.com"
            )

    @property
    def noun(self) -> str:
        """cats"""
        return self.driver.partition(".")[0]

    @property
    def project(self) -> str:
        """cats-driver"""
        return f"{self.noun}-driver"

    @property
    def package(self) -> str:
        """cats_driver"""
        name = self.project.replace("-", "_")
        return name if not name[0].isdigit() else f"driver_{name}"

    @property
    def cls(self) -> str:
        """CatsDriver"""
        return "".join(part.capitalize() for part in self.package.split("_"))

    def fill(self, text: str) -> str:
        for name in ("driver", "noun", "project", "package", "cls"):
            text = text.replace(f"@{name}@", getattr(self, name))
        return text.replace("@version@", __version__)

    def write(self, directory: Path) -> list[Path]:
        """Make the project in a directory that is not there, or that is empty."""
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise ProjectError(f"{directory} is there already: name another directory with --directory")
        written = []
        for path, content in self._files(resources.files(__package__) / "template", Path()):
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
            written.append(target)
        return sorted(written)

    def _files(self, folder: Traversable, at: Path) -> list[tuple[Path, str]]:
        found: list[tuple[Path, str]] = []
        for entry in folder.iterdir():
            path = at / self.fill(entry.name)
            if entry.is_dir():
                if entry.name != "__pycache__":
                    found += self._files(entry, path)
            else:
                # What a tool could take for a part of this project ends in .txt here.
                shown = path.with_suffix("") if path.suffix == ".txt" else path
                found.append((shown, self.fill(entry.read_text())))
        return found

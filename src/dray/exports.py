"""Public names of a package that are imported when they are first used, so that importing the package costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, exports: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` (PEP 562). ``exports`` says where each name is: ``module``, or ``module:name`` where it
    has another name there."""

    def __getattr__(name: str) -> Any:
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = exports[name].partition(":")
        return getattr(import_module(f"{package}.{module}"), attribute or name)

    return __getattr__

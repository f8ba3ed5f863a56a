"""Paths inside volumes: relative, and never leading out of them."""

from __future__ import annotations

from dray.api.validation import field
from dray.api.validation.field import FieldError, Path


def check_no_backsteps(value: str, path: Path) -> list[FieldError]:
    if ".." in value.split("/"):
        return [field.invalid(path, value, "must not contain '..'")]
    return []


def check_descending(value: str, path: Path) -> list[FieldError]:
    """A relative path that stays below where it starts."""
    found = [field.invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return found + check_no_backsteps(value, path)


def check_not_reserved(value: str, path: Path) -> list[FieldError]:
    """A descending path that does not begin with two dots either, which atomic writers use for themselves."""
    found = check_descending(value, path)
    if value.startswith("..") and not value.startswith("../"):
        found.append(field.invalid(path, value, "must not start with '..'"))
    return found

"""The page of one object as a document: ``pages`` finds it by kind, and each kind has a module."""

from __future__ import annotations

from dray.ui.details.pages import KINDS, involved, page, with_events

__all__ = ["KINDS", "involved", "page", "with_events"]

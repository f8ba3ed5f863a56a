"""The one place where allocation meets CEL: compiling selectors, and asking them about a device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dray.allocation.features import Features
from dray.allocation.identity import Document
from dray.cel import CompileError, EvaluationError
from dray.cel.devices import Device as Visible
from dray.cel.devices import Selector, compile

Verdict = bool | EvaluationError


class Expression:
    """A selector of a class or a claim, compiled when a device is first held against it.

    Upstream finds out late as well: a broken selector is no error as long as no device reaches it.
    """

    __slots__ = ("_selector", "source")

    def __init__(self, source: str, selector: Selector | CompileError) -> None:
        self.source = source
        self._selector = selector

    def ask(self, device: Visible) -> Verdict:
        """Whether the device is selected; raises CompileError if nobody can tell."""
        selector = self._selector
        if isinstance(selector, CompileError):
            raise selector
        try:
            return selector.matches(device)
        except EvaluationError as error:
            return error


def expression(source: str, features: Features) -> Expression:
    return _compiled(source, features.list_attributes, features.consumable_capacity)


def visible(driver: str, document: Document) -> Visible:
    """What CEL sees of a device."""
    return Visible.of(driver, document)


def derived_values(source: str, shape: Any, features: Features) -> Any:
    """The values of a derived attribute on devices of a shape."""
    raise CompileError("derived attributes are not supported")


@lru_cache(maxsize=8192)
def _compiled(source: str, list_attributes: bool, consumable_capacity: bool) -> Expression:
    selector: Any
    try:
        selector = compile(
            source, list_attributes=list_attributes, consumable_capacity=consumable_capacity, stored=True
        )
    except CompileError as error:
        selector = error
    return Expression(source, selector)

"""Manifests of any version of the resource API, converted to a later one.

``convert`` works on documents, ``convert_text`` on YAML files, of which comments and order stay. A field that has no
equivalent is never dropped silently: a note says so.
"""

from dray.convert.converter import TARGETS, Result, convert
from dray.convert.manifests import Converted, InvalidManifest, convert_text
from dray.convert.notes import Note
from dray.convert.parameters import ParameterRule, RuleError, read_rules

__all__ = [
    "TARGETS",
    "Converted",
    "InvalidManifest",
    "Note",
    "ParameterRule",
    "Result",
    "RuleError",
    "convert",
    "convert_text",
    "read_rules",
]

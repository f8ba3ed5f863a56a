"""Manifests of any generation of the resource API, turned into those of a later one.

``convert`` works on documents, ``convert_text`` on YAML as people keep it: comments and order stay. What has no
equivalent is told in notes, never dropped silently.
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

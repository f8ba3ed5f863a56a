"""Findings as SARIF 2.1.0, which code hosting services show beside the lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict
from urllib.parse import quote

from dray.explain.lint.rules import RULES
from dray.explain.lint.validation import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


SarifLog = TypedDict("SarifLog", {"$schema": str, "version": str, "runs": "Sequence[Run]"})


class Text(TypedDict):
    text: str


class Rule(TypedDict):
    id: str
    shortDescription: Text


class Driver(TypedDict):
    name: str
    version: str
    rules: Sequence[Rule]


class Tool(TypedDict):
    driver: Driver


class ArtifactLocation(TypedDict):
    uri: str


class Region(TypedDict):
    startLine: int


class PhysicalLocation(TypedDict):
    artifactLocation: ArtifactLocation
    region: Region


class Location(TypedDict):
    physicalLocation: PhysicalLocation


class Result(TypedDict):
    ruleId: str
    ruleIndex: int
    level: str
    message: Text
    locations: Sequence[Location]


class Run(TypedDict):
    tool: Tool
    results: Sequence[Result]


def sarif(findings: Sequence[Finding], *, version: str) -> SarifLog:
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "dray check",
                        "version": version,
                        "rules": [
                            {"id": rule, "shortDescription": {"text": text}} for rule, text in RULES.items()
                        ],
                    }
                },
                "results": [_result(one) for one in findings],
            }
        ],
    }


def _result(finding: Finding) -> Result:
    return {
        "ruleId": finding.rule,
        "ruleIndex": list(RULES).index(finding.rule),
        "level": finding.level.value,
        "message": {"text": f"{finding.subject}: {finding.message}" if finding.subject else finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(finding.file.removeprefix("./"))},
                    "region": {"startLine": finding.line},
                }
            }
        ],
    }

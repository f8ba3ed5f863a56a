"""Findings as SARIF 2.1.0, which code hosting services show beside the lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from dray.explain.lint.rules import RULES
from dray.explain.lint.validation import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(findings: Sequence[Finding], *, version: str) -> dict[str, Any]:
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


def _result(finding: Finding) -> dict[str, Any]:
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

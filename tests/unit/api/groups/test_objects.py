"""Objects of all kinds that are wrong in one way or another, and what is said about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.api.groups.strategies import CONTEXT, create

CUT = 120
CASES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("objects.yaml").read_text())


@pytest.mark.parametrize("name", CASES)
def test_objects_are_judged_in_upstreams_words(name):
    case = CASES[name]
    kind, obj, errors = create(case["object"])
    assert [error[:CUT] for error in errors] == case.get("errors", [])
    assert [w[:CUT] for w in kind.strategy.warn(obj, CONTEXT)] == case.get("warnings", [])

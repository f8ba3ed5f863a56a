"""Changes to objects: which are let through, which are refused and with what words, and when they count."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from dray.api.scheme.kinds import Object
from tests.unit.api.groups.strategies import CONTEXT, read

CUT = 130


def merge(target: Object, change: Object) -> None:
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = value


def change(
    document: Object, edit: Object, subresource: str, before: Object | None
) -> tuple[Object, list[str]]:
    """The object after an edit through a subresource or the main resource, and what is wrong with that; ``before`` is what it was like first."""
    kind, old = read(document)
    kind.strategy.prepare_create(old, CONTEXT)
    old["metadata"]["resourceVersion"] = "1"
    merge(old, before or {})
    edited = copy.deepcopy(old)
    merge(edited, edit)
    _, new = read(edited)
    strategy = kind.subresources[subresource] if subresource else kind.strategy
    strategy.prepare_update(new, old, CONTEXT)
    return new, [str(error) for error in strategy.validate_update(new, old, CONTEXT)]


DATA = yaml.safe_load(Path(__file__).with_name("changes.yaml").read_text())
POD: Object = DATA["objects"]["POD"]


@pytest.mark.parametrize("name", DATA["changes"])
def test_changes_are_judged_in_upstreams_words(name):
    case = DATA["changes"][name]
    document = DATA["objects"].get(case["object"]) if isinstance(case["object"], str) else case["object"]
    new, found = change(document, case["edit"], case.get("subresource", ""), case.get("before"))
    assert [error[:CUT] for error in found] == case.get("errors", [])
    assert new["metadata"].get("generation") == case.get("generation")


def test_a_refused_change_of_a_pod_is_shown_line_by_line():
    _, (error,) = change(POD, {"spec": {"hostname": "x"}}, "", None)
    assert error.endswith(
        """
@@ -64,7 +64,7 @@
   "SELinuxChangePolicy": null
  },
  "ImagePullSecrets": null,
- "Hostname": "",
+ "Hostname": "x",
  "Subdomain": "",
  "SetHostnameAsFQDN": null,
  "Affinity": null,
"""
    )


def test_status_does_not_touch_the_spec():
    new, _ = change(POD, {"status": {"phase": "Running"}, "spec": {"hostname": "x"}}, "status", None)
    assert "hostname" not in new["spec"]
    assert new["status"]["phase"] == "Running"

"""Which names a definition gets to use, and whether what it defines is served: its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dray.api.groups.apiextensions.customresourcedefinition import set_condition
from dray.api.validation.field import quote

if TYPE_CHECKING:
    from dray.api.types.apiextensions import CustomResourceDefinition, CustomResourceDefinitionCondition

Part = Mapping[str, Any]


def accept_names(
    definition: CustomResourceDefinition, others: Iterable[CustomResourceDefinition], now: str
) -> CustomResourceDefinition:
    """The definition with the status it should have, given the other definitions of its group.

    Names that another one has already are refused; what is accepted once stays so. A definition all of whose names
    were accepted is established: it may be served from now on, even if it asks for other names later.
    """
    changed = definition.copy()
    wanted = definition["spec"]["names"]
    status = (definition.get("status") or {}).copy()
    accepted: dict[str, Any] = {**(status.get("acceptedNames") or {})}
    resources, kinds = _taken(others)
    condition: Any = {
        "type": "NamesAccepted",
        "status": "True",
        "reason": "NoConflicts",
        "message": "no conflicts found",
    }
    for part, taken in (("plural", resources), ("singular", resources), ("kind", kinds), ("listKind", kinds)):
        name = wanted.get(part, "")
        if name != accepted.get(part, "") and name in taken:
            condition |= _refused(part[0].upper() + part[1:], [name])
        elif name:
            accepted[part] = name
        else:
            accepted.pop(part, None)
        if part == "singular":
            condition |= _accept_short_names(wanted, accepted, resources)
    _take_over(accepted, wanted, "categories")
    names: Any = {"plural": "", "kind": "", **accepted}
    status["acceptedNames"] = names
    changed["status"] = status
    set_condition(changed, condition, now)
    set_condition(changed, _established(definition, accepted=condition["status"] == "True"), now)
    return changed


def _accept_short_names(wanted: Part, accepted: dict[str, Any], taken: set[str]) -> dict[str, Any]:
    mine = accepted.get("shortNames") or ()
    refused = [n for n in wanted.get("shortNames") or () if n not in mine and n in taken]
    if refused:
        return _refused("ShortNames", refused)
    _take_over(accepted, wanted, "shortNames")
    return {}


def _take_over(accepted: dict[str, Any], wanted: Part, part: str) -> None:
    if wanted.get(part):
        accepted[part] = wanted[part]
    else:
        accepted.pop(part, None)


def _refused(what: str, names: list[str]) -> dict[str, Any]:
    problems = [f"{quote(name)} is already in use" for name in names]
    message = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return {"status": "False", "reason": f"{what}Conflict", "message": message}


def _taken(others: Iterable[CustomResourceDefinition]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _established(
    definition: CustomResourceDefinition, *, accepted: bool
) -> CustomResourceDefinitionCondition:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    old = next((c for c in conditions if c["type"] == "Established"), None)
    if accepted or (old is not None and old["status"] == "True"):
        return {
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        }
    return {
        "type": "Established",
        "status": "False",
        "reason": "NotAccepted",
        "message": "not all names are accepted",
    }

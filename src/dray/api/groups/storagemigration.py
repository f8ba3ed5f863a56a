"""storagemigration.k8s.io: the wish that all objects of a kind are stored in the version of today."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.release import Gates
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, STATUS, Context, StatusStrategy, SubdomainStrategy, keep_fields
from dray.api.validation import field, names
from dray.api.validation.field import FieldError
from dray.api.validation.objectmeta import validate_conditions

if TYPE_CHECKING:
    from dray.api.types.storagemigration import StorageVersionMigration

RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"


def has_condition(migration: StorageVersionMigration, type: str) -> bool:
    """Whether a condition is there and true."""
    conditions = migration.get("status", {}).get("conditions") or ()
    return any(c.get("type") == type and c.get("status") == "True" for c in conditions)


class StorageVersionMigrationStrategy(SubdomainStrategy["StorageVersionMigration"]):
    unconditional_update = False

    def prepare_create(self, obj: StorageVersionMigration, ctx: Context) -> None:
        obj["status"] = {}

    def prepare_update(
        self, new: StorageVersionMigration, old: StorageVersionMigration, ctx: Context
    ) -> None:
        keep_fields(new, old, "status")

    def validate(self, obj: StorageVersionMigration, ctx: Context) -> Sequence[FieldError]:
        wanted, path = obj.get("spec", {}).get("resource", {}), SPEC.child("resource")
        group, resource = wanted.get("group", ""), wanted.get("resource", "")
        found: list[FieldError] = []
        if not resource:
            found.append(field.required(path.child("resource"), "resource is required to be set"))
        elif problems := names.dns1035_label(resource):
            found.append(field.invalid(path.child("resource"), resource, ",".join(problems)))
        if group and (problems := names.dns1123_subdomain(group)):
            found.append(field.invalid(path.child("group"), group, ",".join(problems)))
        return found

    def validate_update(
        self, new: StorageVersionMigration, old: StorageVersionMigration, ctx: Context
    ) -> Sequence[FieldError]:
        found = [*self.validate(new, ctx)]
        if new.get("spec") != old.get("spec"):
            # As upstream prints its internal type.
            wanted = new.get("spec", {}).get("resource", {})
            found.append(field.invalid(SPEC, {"Resource": wanted}, "field is immutable"))
        return found


class StorageVersionMigrationStatusStrategy(StatusStrategy["StorageVersionMigration"]):
    def validate_update(
        self, new: StorageVersionMigration, old: StorageVersionMigration, ctx: Context
    ) -> Sequence[FieldError]:
        status = new.get("status", {})
        at, conditions = STATUS.child("conditions"), status.get("conditions") or ()
        version, before = status.get("resourceVersion", ""), old.get("status", {}).get("resourceVersion", "")
        found: list[FieldError] = []
        if version and (not version.isdecimal() or version.startswith("0")):
            words = f"resource version is not well formed: {version}"
            found.append(field.invalid(STATUS.child("resourceVersion"), version, words))
        found += validate_conditions(conditions, at)
        if before and version != before:
            found.append(field.invalid(STATUS.child("resourceVersion"), version, "field is immutable"))
        if has_condition(new, SUCCEEDED) and has_condition(new, FAILED):
            words = "Both success and failed conditions cannot be true at the same time"
            found.append(field.invalid(at, conditions, words))
        for type, word in ((SUCCEEDED, "Success"), (FAILED, "Failed")):
            if has_condition(old, type) and not has_condition(new, type):
                words = f"{word} condition cannot be set to false once it is true"
                found.append(field.invalid(at, conditions, words))
        return found


def _cells(obj: StorageVersionMigration, now: float) -> Sequence[object]:
    wanted = obj.get("spec", {}).get("resource", {})
    states = [
        c["type"] for c in obj.get("status", {}).get("conditions") or () if has_condition(obj, c["type"])
    ]
    return (
        printers.name(obj),
        ".".join(filter(None, (wanted.get("resource"), wanted.get("group")))),
        next((state for state in reversed(states) if state in (RUNNING, SUCCEEDED, FAILED)), "Unknown"),
    )


def _served(gates: Gates) -> bool:
    return "StorageVersionMigrator" in gates


KINDS = (
    Kind(
        group="storagemigration.k8s.io",
        kind="StorageVersionMigration",
        plural="storageversionmigrations",
        namespaced=False,
        versions=tuple(
            Version(name=name, type=f"storagemigration/{name}.StorageVersionMigration", served=_served)
            for name in ("v1", "v1beta1")
        ),
        storage="v1",
        strategy=StorageVersionMigrationStrategy(),
        subresources={"status": StorageVersionMigrationStatusStrategy()},
        printer=printers.printer(
            (
                printers.NAME,
                Column("Resource", description="The kind whose objects are to be migrated."),
                Column("Status", description="How far the migration is."),
            ),
            _cells,
        ),
    ),
)

"""StorageVersionMigrations and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import Invalid
from dray.client.resources import STORAGE_VERSION_MIGRATIONS
from tests.integration.app.test_storage_migration import STORED, old_template
from tests.support.controlplane import ControlPlane, control_plane
from tests.support.wait import wait_for

MIGRATOR = "storage-version-migrator-controller"


async def wish(s: ControlPlane, name: str, group: str, resource: str) -> None:
    body: Any = {
        "metadata": {"name": name},
        "spec": {"resource": {"group": group, "resource": resource}},
    }
    await s.client.create(STORAGE_VERSION_MIGRATIONS, "", body)


async def ended(s: ControlPlane, name: str) -> dict[str, Any]:
    """Conditions by type, once the migration no longer runs."""

    async def conditions() -> dict[str, Any] | None:
        status = (await s.get(STORAGE_VERSION_MIGRATIONS, name)).get("status", {})
        found = {condition["type"]: condition for condition in status.get("conditions") or ()}
        return found if found.get("Running", {}).get("status") == "False" else None

    found: dict[str, Any] = await wait_for(f"the end of migration {name}", conditions)
    return found


async def test_a_migration_writes_old_objects_anew_and_the_next_one_of_the_kind_follows():
    async with control_plane(MIGRATOR) as s:
        store = s.api.store
        for name in ("a", "b"):
            await store.create(STORED + name, old_template(name, "v1beta1"))
        await wish(s, "first", "resource.k8s.io", "resourceclaimtemplates")
        await wish(s, "second", "resource.k8s.io", "resourceclaimtemplates")
        for name in ("first", "second"):
            found = await ended(s, name)
            assert found["Succeeded"]["status"] == "True" and "Failed" not in found
        entry = await store.get(STORED + "a")
        assert entry is not None and b'"apiVersion":"resource.k8s.io/v1"' in entry.value
        first = await s.get(STORAGE_VERSION_MIGRATIONS, "first")
        assert int(first["status"]["resourceVersion"]) < entry.mod_revision
        with pytest.raises(Invalid, match="field is immutable"):
            changed = {**first, "spec": {"resource": {"group": "", "resource": "pods"}}}
            await s.client.update(STORAGE_VERSION_MIGRATIONS, "", changed)


async def test_what_cannot_be_migrated_fails_and_says_why():
    async with control_plane(MIGRATOR) as s:
        await wish(s, "reviews", "authentication.k8s.io", "tokenreviews")
        found = await ended(s, "reviews")
        assert found["Failed"]["message"].endswith(
            "does not support discovery operations: [update patch list]"
        )
        with pytest.raises(Invalid, match="resource is required to be set"):
            await wish(s, "nothing", "", "")

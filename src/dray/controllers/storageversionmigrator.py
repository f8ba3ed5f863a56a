"""Storage version migration: every object of a kind is written again, so that the store holds it in the version of today.

An API server reads whatever version an object was stored in and writes the newest. So it is enough to write each object as it
is: a patch that changes nothing, on condition that the object is still the one that was listed. Whoever else wrote the
object meanwhile has migrated it. An object that is stored as it should be is not written at all.

The controller does so for every StorageVersionMigration, for one of a kind at a time, and says in its conditions how far it is.
Upstream takes the objects from its garbage collector's cache; here they are listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from dray.api.errors import Conflict, NotFound, ServiceUnavailable, StatusError, Timeout, TooManyRequests
from dray.api.groups.storagemigration import FAILED, RUNNING, SUCCEEDED, has_condition
from dray.api.times import from_epoch, to_epoch
from dray.backoff import Backoff
from dray.client.client import Client
from dray.client.resources import CUSTOM_RESOURCE_DEFINITIONS, STORAGE_VERSION_MIGRATIONS, Resource
from dray.controllers.conditions import with_condition
from dray.controllers.controller import Controller, ControllerContext
from dray.controllers.discovery import APIResource, discover

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.apiextensions import CustomResourceDefinition
    from dray.api.types.meta import Condition, ObjectMeta
    from dray.api.types.storagemigration import StorageVersionMigration

FIELD_MANAGER: Final = "storage-version-migrator-controller"
_MERGE: Final = "application/merge-patch+json"
_WRITERS: Final = 16
#: How often an object is tried while the server is busy or away.
_ATTEMPTS: Final = 8
_BACKOFF: Final = Backoff(initial=0.1, maximum=2.0, jitter=0.2)
#: What a kind must allow to be migrated.
_VERBS: Final = ("update", "patch", "list")
#: A custom kind may be defined a little later than its migration.
_PATIENCE_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 2.0


# -- writing again --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Migration:
    """What came of writing objects again."""

    objects: int = 0
    rewritten: int = 0
    problems: list[str] = field(default_factory=list)


async def write_again(client: Client, resource: Resource[Any], listed: Sequence[Object]) -> Migration:
    """Write every listed object as it is, where it is not stored as it would be today."""
    done = Migration(objects=len(listed))
    todo: Iterator[Object] = iter(listed)

    async def writer() -> None:
        for item in todo:
            metadata = item["metadata"]
            try:
                done.rewritten += await _rewritten(client, resource, metadata)
            except StatusError as e:
                name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
                done.problems.append(f"{resource} {name}: {e}")

    async with asyncio.TaskGroup() as writers:
        for _ in range(min(_WRITERS, len(listed))):
            writers.create_task(writer())
    return done


async def _rewritten(client: Client, resource: Resource[Any], metadata: ObjectMeta) -> bool:
    """Write one object as it is; whether the server had to."""
    path = resource.path(metadata.get("namespace", ""), metadata["name"])
    same: Object = {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}}
    for pause in (*islice(_BACKOFF.pauses(), _ATTEMPTS - 1), None):
        try:
            answer = await client.transport.request(
                "PATCH", path, body=same, query={"fieldManager": FIELD_MANAGER}, content_type=_MERGE
            )
        except (Conflict, NotFound):
            return False  # somebody has written it, and thereby migrated it, or taken it away
        except (TooManyRequests, ServiceUnavailable, Timeout):
            if pause is None:
                raise
            await asyncio.sleep(pause)
        else:
            written: Object = answer.object
            return written["metadata"]["resourceVersion"] != metadata["resourceVersion"]
    raise AssertionError("the last attempt returns or raises")


async def definition_of(client: Client, resource: Resource[Any]) -> CustomResourceDefinition | None:
    """The definition of a custom kind, None for built-in ones."""
    if "." not in resource.group:
        return None
    try:
        return await client.get(CUSTOM_RESOURCE_DEFINITIONS, "", str(resource))
    except NotFound:
        return None


async def note_stored_version(client: Client, definition: CustomResourceDefinition) -> bool:
    """Note that a custom kind of which all objects are migrated is stored in one version; the others may be removed then.

    False if somebody has changed the definition meanwhile: objects may have been stored in another version since.
    """
    stored = [version["name"] for version in definition["spec"]["versions"] if version["storage"]]
    metadata = definition["metadata"]
    if definition.get("status", {}).get("storedVersions") == stored:
        return True
    change: CustomResourceDefinition = {
        "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "status": {"storedVersions": stored},
    }
    path = CUSTOM_RESOURCE_DEFINITIONS.path("", metadata["name"], "status")
    try:
        await client.transport.request(
            "PATCH", path, body=change, query={"fieldManager": FIELD_MANAGER}, content_type=_MERGE
        )
    except Conflict:
        return False
    return True


# -- the controller -------------------------------------------------------------------------------------------------


class StorageVersionMigratorController(Controller[str]):
    name = "storage-version-migrator-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._resource = context.resource(STORAGE_VERSION_MIGRATIONS, "v1", "v1beta1")
        self._migrations = context.informers.get(self._resource)
        self._migrations.add_handler(on_set=self._changed, on_delete=self._changed)

    def _changed(self, one: StorageVersionMigration) -> None:
        """Whatever happens to one migration, another of the same kind may be the next."""
        for other in self._migrations.items():
            if other["spec"]["resource"] == one["spec"]["resource"]:
                self.enqueue(other["metadata"]["name"])

    async def sync(self, key: str) -> float | None:
        migration = self._migrations.get("", key)
        if migration is None:
            return None
        running = has_condition(migration, RUNNING)
        if has_condition(migration, SUCCEEDED) or has_condition(migration, FAILED):
            if running:
                await self._set(
                    migration, self._condition(RUNNING, "False", "MigrationCompleted", "Migration completed")
                )
        elif running:
            return await self._migrate(migration)
        elif self._is_next(migration):
            await self._set(
                migration, self._condition(RUNNING, "True", "MigrationRunning", "The migration is running")
            )
        return None

    def _is_next(self, migration: StorageVersionMigration) -> bool:
        """One migration of a kind runs at a time, the oldest first."""
        waiting = []
        for other in self._migrations.items():
            if other["spec"]["resource"] == migration["spec"]["resource"]:
                ended = has_condition(other, SUCCEEDED) or has_condition(other, FAILED)
                if has_condition(other, RUNNING):
                    return False
                if not ended:
                    waiting.append(other["metadata"])
        oldest = min(waiting, key=lambda meta: (meta["creationTimestamp"], meta["name"]))
        return oldest["name"] == migration["metadata"]["name"]

    async def _migrate(self, migration: StorageVersionMigration) -> float | None:
        client, wanted = self.context.client, migration["spec"]["resource"]
        served = await self._served(wanted.get("group", ""), wanted["resource"])
        if served is None:
            age = self.context.clock() - to_epoch(migration["metadata"]["creationTimestamp"])
            if age < _PATIENCE_SECONDS:
                return _RETRY_SECONDS
            await self._fail(migration, "resource does not exist in discovery")
        elif not served.allows(*_VERBS):
            words = (
                f'resource "{served.resource}" does not support discovery operations: [{" ".join(_VERBS)}]'
            )
            await self._fail(migration, words)
        else:
            definition = await definition_of(client, served.resource)
            found = await client.list(served.resource)
            if not migration.get("status", {}).get("resourceVersion"):
                # What is newer than this has been written by a server of today.
                migration = await self._set(migration, resource_version=found.resource_version)
            limit = int(migration["status"]["resourceVersion"])
            objects: Sequence[Object] = found.items
            older = [item for item in objects if int(item["metadata"]["resourceVersion"]) <= limit]
            done = await write_again(client, served.resource, older)
            if definition is not None and not done.problems:
                await note_stored_version(client, definition)
            await self._finish(migration, done, total=len(found.items))
        return None

    async def _finish(self, migration: StorageVersionMigration, done: Migration, *, total: int) -> None:
        if done.problems:
            left = f"{len(done.problems)}/{total} not yet migrated. "
            await self._fail(migration, f"{left}migration encountered unhandled error: {done.problems[0]}")
            return
        verified = f", {total} objects verified migrated" if total else ""
        await self._set(
            migration,
            self._condition(RUNNING, "True", "MigrationRunning", f"The migration is running{verified}"),
            self._condition(SUCCEEDED, "True", "StorageVersionMigrationSucceeded", "Migration completed"),
        )

    async def _served(self, group: str, plural: str) -> APIResource | None:
        """The kind in its preferred version, as the server shows it now."""
        found = (await discover(self.context.client)).resources
        return next((r for r in found if (r.resource.group, r.resource.plural) == (group, plural)), None)

    async def _fail(self, migration: StorageVersionMigration, problem: str) -> None:
        await self._set(migration, self._condition(FAILED, "True", "StorageVersionMigrationFailed", problem))

    def _condition(self, type: str, status: str, reason: str, message: str) -> Condition:
        return {
            "type": type, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": from_epoch(self.context.clock()),
        }  # fmt: skip

    async def _set(
        self, migration: StorageVersionMigration, *conditions: Condition, resource_version: str = ""
    ) -> StorageVersionMigration:
        status = migration.get("status", {})
        known = status.get("conditions") or ()
        for condition in conditions:
            known = with_condition(known, condition)
        changed: StorageVersionMigration = {
            **migration,
            "status": {
                "conditions": known,
                "resourceVersion": resource_version or status.get("resourceVersion", ""),
            },
        }
        return await self.context.client.update_status(self._resource, "", changed)

"""Storage version migration of a whole cluster, one kind after the other."""

from __future__ import annotations

from collections.abc import Callable

from dray.app import transfer
from dray.client.client import Client
from dray.controllers.storageversionmigrator import Migration, definition_of, note_stored_version, write_again


async def migrate(client: Client, *, tell: Callable[[str], None] = lambda line: None) -> Migration:
    """Write every object again that is not stored as it would be today; ``tell`` hears of each kind of which some were."""
    total = Migration()
    async for resource in transfer.resources(client):
        definition = await definition_of(client, resource)
        done = await write_again(client, resource, (await client.list(resource)).items)
        if definition is not None and not done.problems and not await note_stored_version(client, definition):
            done.problems.append(f"{resource} was defined anew meanwhile: migrate once more")
        if done.rewritten:
            tell(f"{done.rewritten} of {done.objects} {resource.plural} were written anew")
        total.objects += done.objects
        total.rewritten += done.rewritten
        total.problems += done.problems
    return total

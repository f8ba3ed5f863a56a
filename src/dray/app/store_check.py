"""What ``dray check-store`` looks at: whether every object can be read, names are unique, and devices are booked once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dray.api import release as releases
from dray.api.scheme.registry import kinds
from dray.app import datadir, shared_pki
from dray.server import beyond_upstream
from dray.server.apiserver import APIServer
from dray.server.auth.authenticator import AuthenticatorChain
from dray.server.auth.authorizer import PrivilegedGroups
from dray.server.beyond_upstream.device_booking import records as booking_records
from dray.server.registry import fencing
from dray.server.registry.resources import REGISTRY
from dray.server.storage.bridge import BridgedDocument
from dray.server.storage.watchcache import WatchCache
from dray.store import open_store
from dray.store.access import EtcdAccess
from dray.store.interface import Store, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: What lies in the store beside the API's objects.
_OUR_PREFIXES: Final = (booking_records.PREFIX, fencing.PREFIX, shared_pki.KEY)


@dataclass(frozen=True, slots=True)
class StoreReport:
    revision: int
    keys: int
    objects: int
    bookings: int
    problems: list[str]
    repaired: int = 0
    outdated: int = 0  # stored in another version than today's


async def check(store: Store, *, repair: bool = False) -> StoreReport:
    """Look at everything that is stored. With ``repair`` booking records are put right; nothing else is written."""
    version = releases.EffectiveVersion.parse("")
    gates = version.gates()
    api = APIServer(
        store,
        version=version,
        gates=gates,
        authenticator=AuthenticatorChain([], anonymous=False),
        authorizer=PrivilegedGroups(),
    )
    await api.resources.serve(
        kinds(version), version.serving(releases.parse_runtime_config("api/all=true"), gates=gates), gates
    )
    try:
        problems = [*_unreadable(api), *_names_taken_twice(api)]
        bookings = await beyond_upstream.booking_repair(api)
        repaired = await bookings.repair() if repair and bookings is not None else 0
        problems += [finding.text for finding in bookings.findings()] if bookings is not None else ()
        page = await store.range("/")
        booked = sum(entry.key.startswith(booking_records.DEVICES) for entry in page.entries)
        objects = sum(entry.key.startswith(REGISTRY) for entry in page.entries)
        return StoreReport(
            page.revision, len(page.entries), objects, booked, problems, repaired, _outdated(api)
        )
    finally:
        api.resources.close()


def _caches(api: APIServer) -> Collection[WatchCache]:
    return {id(r.cache): r.cache for r in api.resources if not r.kind.virtual}.values()


def _outdated(api: APIServer) -> int:
    return sum(
        document.value is not None and not cache.codecs.is_current(document.value)
        for cache in _caches(api)
        for document in cache.documents.values()
    )


def _unreadable(api: APIServer) -> Iterator[str]:
    for cache in _caches(api):
        for document in cache.documents.values():
            try:
                document.hub  # noqa: B018 (read for the first time)
            except Exception as e:  # whatever a value that is no object makes of the codec
                yield f"{cache.prefix}{document.key} cannot be read: {e or type(e).__name__}"


def _names_taken_twice(api: APIServer) -> Iterator[str]:
    """Claims of the two generations share their names."""
    newer = api.resources.find("resource.k8s.io", "v1", "resourceclaims")
    older = api.resources.find("resource.k8s.io", "v1alpha2", "resourceclaims")
    if newer is None or older is None or newer[0] is older[0]:
        return
    for key in sorted(newer[0].cache.documents.keys() & older[0].cache.documents.keys()):
        if not isinstance(newer[0].cache.get(key), BridgedDocument):
            yield f"claim {key} is there in two generations"


@asynccontextmanager
async def opened(spec: str, data: Path, etcd: EtcdAccess | None = None) -> AsyncIterator[Store]:
    """The store of a command, closed afterwards. A SQLite file must be there: a command makes no new one."""
    held: AbstractContextManager[None] = nullcontext()
    if spec.partition(":")[0] == "sqlite":
        path = Path(spec.partition(":")[2] or data / "store.db")
        if not path.exists():
            raise StoreError(f"there is no store at {path}: name it with --store or --data")
        if path.parent == data:
            held = datadir.locked(data)
    with held:
        store = await open_store(spec, data=data, etcd=etcd)
        try:
            yield store
        finally:
            await store.close()

"""APIServices of what this server serves itself. They are made up, not stored: another server on the same store has its own."""

from __future__ import annotations

from dray.api.groups.apiregistration import GROUP, PLURAL, local_service
from dray.api.release.serving import GroupVersion
from dray.server.apiserver import APIServer
from dray.server.storage.documents import Document


def install(api: APIServer) -> None:
    """Keep them in step with the groups that are served."""
    if api.resources.resource(GROUP, PLURAL) is None:
        return
    _refresh(api)
    api.resources.on_change(lambda: _refresh(api))


def _refresh(api: APIServer) -> None:
    resource = api.resource(GROUP, PLURAL)
    cache = resource.cache
    served = {
        f"{version}.{group.name}": (GroupVersion(group.name, version), group.custom)
        for group in api.resources.groups()
        for version in group.versions
    }
    revision = max(api.store.revision, cache.modified)
    for name in [d.key for d in cache if d.value is None and d.key not in served]:
        cache.put(name, None, revision)
    for name, (version, custom) in served.items():
        if cache.get(name) is None:
            made = local_service(version, api.clock.now(), custom=custom)
            made["metadata"]["resourceVersion"] = str(revision)
            hub = {"kind": resource.kind.kind, "apiVersion": resource.codecs.hub.api_version, **made}
            cache.put(name, Document(cache.codecs, name, revision, hub=hub), revision)

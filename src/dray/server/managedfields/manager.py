"""The field manager: it tracks with every write which manager owns which field of an object."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from dray.api.errors import BadRequest
from dray.api.patch import managedfields
from dray.api.patch.apply import Applier
from dray.api.patch.fieldsets import FieldSet, of_paths
from dray.api.schema import Struct
from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import UpdateStrategy
from dray.server.endpoints.call import Call
from dray.server.endpoints.decoder import IGNORE, STRICT, split_api_version
from dray.server.endpoints.options import WriteOptions
from dray.server.endpoints.yamljson import load_yaml_object
from dray.server.managedfields import typeconverter
from dray.server.storage.codec import Codec, Codecs

_MAX_SCOPES: Final = 1000


class FieldManager:
    """The seam between verbs and ``dray.api.patch``: objects here are hubs, there they are in the request's version."""

    def __init__(self) -> None:
        self._scopes: dict[tuple[Codec, str], _Scope] = {}
        self._types: dict[Codec, Struct] = {}

    def created(self, call: Call, obj: Object, manager: str) -> None:
        """Record who owns the fields of a new object."""
        self._track(call, obj, None, manager)

    def updated(self, call: Call, new: Object, old: Object | None, manager: str) -> None:
        """Record whose fields ``new`` changes."""
        self._track(call, new, old, manager)

    def _track(self, call: Call, new: Object, old: Object | None, manager: str) -> None:
        codec, scope = call.codec, self._scope(call)
        entries = managedfields.track(
            scope.type,
            None if old is None else codec.object(old),
            codec.object(new),
            manager=managedfields.manager_name(manager, call.request.headers.get("user-agent")),
            api_version=codec.api_version,
            now=call.api.clock.now(),
            subresource=call.info.subresource,
            reset=scope.reset,
            convert=scope.convert,
        )
        if entries:
            new["metadata"]["managedFields"] = entries
        else:
            new["metadata"].pop("managedFields", None)

    def applied(self, call: Call, live: Object | None, data: bytes | Object, options: WriteOptions) -> Object:
        """The hub object after a server-side apply."""
        scope = self._scope(call)
        config, problems = load_yaml_object(data) if isinstance(data, bytes) else (data, [])
        problems = call.request.yaml_problems or problems
        if problems and options.directive == STRICT:
            raise BadRequest(f"error strict decoding YAML: {', '.join(problems)}")
        if options.directive != IGNORE:
            for problem in problems:
                call.request.warn(problem)
        applier = Applier(
            type=scope.type,
            api_version=call.codec.api_version,
            kind=call.codec.kind.kind,
            manager=options.manager,
            now=call.api.clock.now(),
            subresource=call.info.subresource,
            force=bool(options.force),
            reset=scope.reset,
            convert=scope.convert,
        )
        before = None if live is None else call.codec.object(live)
        found = applier.apply(before, config)
        if found.object is None:
            assert live is not None
            new = {**live, "metadata": dict(live["metadata"])}
        else:
            shaped, _ = call.api.decoder.shape(found.object, call.codec, strict=False, known=before)
            new = call.api.decoder.hub(shaped, call.codec.version, call.resource.codecs)
        if found.managed_fields:
            new["metadata"]["managedFields"] = found.managed_fields
        return new

    def keep_times(self, new: Object, old: Object) -> None:
        """An update that changes nothing but the time of its managed fields changes nothing."""
        fresh, kept = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
        if fresh == kept or not managedfields.same_but_for_times(fresh, kept):
            return
        if _unmanaged(new) == _unmanaged(old):
            new["metadata"]["managedFields"] = kept

    def _scope(self, call: Call) -> _Scope:
        """The scope of a call: its resource, version and subresource, of which there are few."""
        key = (call.codec, call.info.subresource)
        found = self._scopes.get(key)
        if found is None:
            if len(self._scopes) > _MAX_SCOPES:
                self._scopes.clear()  # most lead to custom resources whose definitions have changed since
                self._types.clear()
            type_, convert = self._type(call.codec), self._converter(call.codec, call.resource.codecs)
            found = self._scopes[key] = _Scope(type_, _reset_fields(call), convert)
        return found

    def _type(self, codec: Codec) -> Struct:
        """The schema by which ownership is told; that of a custom resource is made from its definition."""
        if codec.type is not None:
            return codec.type
        found = self._types.get(codec)
        if found is None:
            found = self._types[codec] = typeconverter.type_of(codec.kind, codec.version)
        return found

    def _converter(self, codec: Codec, codecs: Codecs) -> managedfields.Convert:
        """Objects of the request's version in another version of the same kind."""

        def convert(api_version: str, obj: Object) -> tuple[Struct, Object] | None:
            _, source = split_api_version(obj.get("apiVersion") or codec.api_version)
            _, target = split_api_version(api_version)
            from_, to = codecs.by_version.get(source), codecs.by_version.get(target)
            if from_ is None or to is None or to.api_version != api_version:
                return None
            return self._type(to), to.object(codecs.hub_of(obj, from_.version))

        return convert


class _Scope(NamedTuple):
    """A view of a resource in one version: what ownership goes by, and the fields that are not changed here."""

    type: Struct
    reset: FieldSet
    convert: managedfields.Convert


def _reset_fields(call: Call) -> FieldSet:
    kind, subresource = call.resource.kind, call.info.subresource
    rules: UpdateStrategy[Any] = kind.subresources.get(subresource, kind.strategy)
    paths = rules.reset
    if paths is None:
        if subresource:
            paths = (("spec",),) if subresource == "status" else (("status",),)
        else:
            paths = (("status",),) if "status" in kind.subresources else ()
    return of_paths(*paths)


def _unmanaged(obj: Object) -> Object:
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}

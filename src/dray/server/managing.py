"""Managed fields: who owns which field of an object, kept up to date with every write."""

from __future__ import annotations

from typing import Final

from dray.api.errors import BadRequest
from dray.api.kinds import Object, UpdateRules
from dray.api.patch import managed
from dray.api.patch.apply import Applier
from dray.api.patch.fieldsets import FieldSet, of_paths
from dray.api.schema import Struct
from dray.server import customtypes
from dray.server.bodies import IGNORE, STRICT, split_api_version
from dray.server.calls import Call
from dray.server.documents import Codec
from dray.server.options import WriteOptions
from dray.server.yamldocs import load_yaml_object

_NOTHING: Final[FieldSet] = {}
_MAX_CUSTOM: Final = 500


class Managing:
    """The seam between verbs and ``dray.api.patch``: objects here are hubs, there they are in the request's version."""

    def __init__(self) -> None:
        self._custom: dict[Codec, Struct] = {}
        self._reset: dict[tuple[tuple[str, ...], ...], FieldSet] = {}

    def created(self, call: Call, obj: Object, manager: str) -> None:
        """Record who owns the fields of a new object."""
        self._track(call, obj, None, manager)

    def updated(self, call: Call, new: Object, old: Object | None, manager: str) -> None:
        """Record whose fields ``new`` changes."""
        self._track(call, new, old, manager)

    def _track(self, call: Call, new: Object, old: Object | None, manager: str) -> None:
        codec = call.codec
        type_ = self._type(codec)
        entries = managed.track(
            type_,
            None if old is None else codec.object(old),
            codec.object(new),
            manager=managed.manager_name(manager, call.request.headers.get("user-agent")),
            api_version=codec.api_version,
            now=call.api.clock.now(),
            subresource=call.target.subresource,
            reset=self._reset_fields(call),
            convert=self._converter(call),
        )
        if entries:
            new["metadata"]["managedFields"] = entries
        else:
            new["metadata"].pop("managedFields", None)

    def applied(self, call: Call, live: Object | None, data: bytes | Object, options: WriteOptions) -> Object:
        """The hub object after a server-side apply."""
        type_ = self._type(call.codec)
        config, problems = load_yaml_object(data) if isinstance(data, bytes) else (data, [])
        if problems and options.directive == STRICT:
            raise BadRequest(f"error strict decoding YAML: {', '.join(problems)}")
        if options.directive != IGNORE:
            for problem in problems:
                call.request.warn(problem)
        applier = Applier(
            type=type_,
            api_version=call.codec.api_version,
            kind=call.codec.kind.kind,
            manager=options.manager,
            now=call.api.clock.now(),
            subresource=call.target.subresource,
            force=bool(options.force),
            reset=self._reset_fields(call) or _NOTHING,
            convert=self._converter(call),
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
        if fresh == kept or not managed.same_but_for_times(fresh, kept):
            return
        if _unmanaged(new) == _unmanaged(old):
            new["metadata"]["managedFields"] = kept

    def _type(self, codec: Codec) -> Struct:
        """The schema by which ownership is told; that of a custom resource is made from its definition."""
        if codec.type is not None:
            return codec.type
        found = self._custom.get(codec)
        if found is None:
            if len(self._custom) > _MAX_CUSTOM:
                self._custom.clear()  # most belong to definitions that have changed since
            found = self._custom[codec] = customtypes.type_of(codec.kind, codec.version)
        return found

    def _converter(self, call: Call) -> managed.Convert:
        """Objects of the request's version in another version of the same kind."""
        codecs = call.resource.codecs

        def convert(api_version: str, obj: Object) -> tuple[Struct, Object] | None:
            _, source = split_api_version(obj.get("apiVersion") or call.codec.api_version)
            _, target = split_api_version(api_version)
            from_, to = codecs.by_version.get(source), codecs.by_version.get(target)
            if from_ is None or to is None or to.api_version != api_version:
                return None
            return self._type(to), to.object(codecs.hub_of(obj, from_.version))

        return convert

    def _reset_fields(self, call: Call) -> FieldSet | None:
        kind, subresource = call.resource.kind, call.target.subresource
        door: UpdateRules = kind.views.get(subresource, kind.rules)
        paths = door.reset
        if paths is None:
            if subresource:
                paths = (("spec",),) if subresource == "status" else (("status",),)
            else:
                paths = (("status",),) if "status" in kind.views else ()
        if not paths:
            return None
        found = self._reset.get(paths)
        if found is None:
            found = self._reset[paths] = of_paths(*paths)
        return found


def _unmanaged(obj: Object) -> Object:
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}

"""MutatingAdmissionWebhook: webhooks are asked one after the other, and each sees what those before it have changed.

A webhook whose reinvocationPolicy is IfNeeded is asked again when others have changed the object after it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dray.api.errors import BadRequest, InternalError, StatusError
from dray.api.kinds import Object
from dray.api.patch import jsonpatch
from dray.server.admission import Attributes, Place, internal_error
from dray.server.admission.lookups import Lookups
from dray.server.admission.matching import EXEMPT, Matched, Matcher
from dray.server.admission.reinvoking import Memory, memory_of
from dray.server.admission.rereading import reread
from dray.server.admission.webhooks.calling import Caller, CallError
from dray.server.admission.webhooks.reviews import Response, rejection
from dray.server.admission.webhooks.sources import GROUP, Hook, HookSource
from dray.server.api import API
from dray.server.bodies import clone

_MUTATION = "mutation.webhook.admission.k8s.io/"
_PATCH = "patch.webhook.admission.k8s.io/"


class MutatingAdmissionWebhook:
    name = "MutatingAdmissionWebhook"

    def __init__(self, api: API, lookups: Lookups, matcher: Matcher, caller: Caller) -> None:
        self._api = api
        self._lookups = lookups
        self._caller = caller
        self._source = HookSource(api, matcher, "mutating")

    def concerns(self, place: Place) -> bool:
        if place.group == GROUP and place.kind in EXEMPT:
            return False
        return bool(self._source.hooks(place))

    def on_change(self, forget: Callable[[], None]) -> None:
        self._source.on_change(forget)

    async def admit(self, attributes: Attributes) -> None:
        rounds = attributes.rounds()
        memory: Memory[str] = memory_of(self.name, attributes)
        for index, hook in enumerate(self._source.hooks(attributes)):
            matched = self._source.match(hook, attributes)
            if matched is None or memory.skips(hook.uid, rounds):
                continue
            if await self._call(hook, matched, f"round_{int(rounds.running)}_index_{index}", attributes):
                memory.changed(rounds)
            if hook.spec.get("reinvocationPolicy") == "IfNeeded":
                memory.repeatable.add(hook.uid)
        memory.keep(attributes)

    async def _call(self, hook: Hook, matched: Matched, place: str, attributes: Attributes) -> bool:
        """Ask one webhook and do what it says; whether the object is another one now."""
        who = {"configuration": hook.configuration, "webhook": hook.name}
        changed = False
        try:
            found = await hook.ask(self._caller, self._lookups, attributes, matched, mutating=True)
            if not found.allowed:
                raise rejection(hook.name, found.result)
            if operations := _operations(found):
                changed = self._patch(hook, matched, operations, attributes)
                note = {**who, "patch": operations, "patchType": found.patch_type}
                attributes.annotate(_PATCH + place, _json(note), contents=True)
        except CallError as e:
            if not hook.ignores_failures:
                raise hook.failure(e) from None
            attributes.annotate(f"failed-open.{_MUTATION}{place}", hook.name)
        finally:
            attributes.annotate(_MUTATION + place, _json({**who, "mutated": changed}))
        return changed

    def _patch(self, hook: Hook, matched: Matched, operations: list[Object], attributes: Attributes) -> bool:
        if attributes.object is None:
            raise internal_error(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this '
                "operation"
            )
        before = clone(attributes.object)
        try:
            patched = jsonpatch.apply(matched.codec.object(attributes.object), operations)
            if not isinstance(patched, dict):
                raise BadRequest("the patched document is no object")
            reread(self._api, patched, matched.codec, attributes)
        except InternalError:
            raise
        except StatusError as e:
            raise internal_error(e.message) from None
        return bool(attributes.object != before)


def _operations(found: Response) -> list[Object]:
    if not found.patch:
        return []
    try:
        operations, _ = jsonpatch.parse(found.patch)
    except StatusError as e:
        raise CallError(f"received undecodable patch in webhook response: {e.message}") from None
    if operations and found.patch_type != "JSONPatch":
        raise CallError(f'unsupported patch type "{found.patch_type}"')
    return operations


def _json(value: Object) -> str:
    return msgspec.json.encode(value).decode()

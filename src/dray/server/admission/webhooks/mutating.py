"""MutatingAdmissionWebhook: webhooks are called one after the other, and each sees what those before it have changed.

A webhook whose reinvocationPolicy is IfNeeded is called again when others have changed the object after it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dray.api.errors import BadRequest, InternalError, StatusError
from dray.api.objects import clone
from dray.api.patch import jsonpatch
from dray.api.scheme.kinds import Object
from dray.server.admission import Attributes, RequestScope, internal_error
from dray.server.admission.listers import Listers
from dray.server.admission.matcher import EXEMPT, Matched, Matcher
from dray.server.admission.mutation import decode_mutated
from dray.server.admission.reinvocation import ReinvokeContext, reinvoke_context
from dray.server.admission.webhooks.admissionreview import Response, rejection
from dray.server.admission.webhooks.client import CallError, WebhookClient
from dray.server.admission.webhooks.sources import GROUP, Webhook, WebhookSource
from dray.server.apiserver import APIServer

_MUTATION = "mutation.webhook.admission.k8s.io/"
_PATCH = "patch.webhook.admission.k8s.io/"


class MutatingAdmissionWebhook:
    name = "MutatingAdmissionWebhook"

    def __init__(self, api: APIServer, listers: Listers, matcher: Matcher, caller: WebhookClient) -> None:
        self._api = api
        self._listers = listers
        self._caller = caller
        self._source = WebhookSource(api, matcher, "mutating")

    def handles(self, scope: RequestScope) -> bool:
        if scope.group == GROUP and scope.kind in EXEMPT:
            return False
        return bool(self._source.hooks(scope))

    def on_change(self, forget: Callable[[], None]) -> None:
        self._source.on_change(forget)

    async def admit(self, attributes: Attributes) -> None:
        shared = attributes.reinvocation_context()
        context: ReinvokeContext[str] = reinvoke_context(self.name, attributes)
        for index, webhook in enumerate(self._source.hooks(attributes)):
            matched = self._source.match(webhook, attributes)
            if matched is None or context.skips(webhook.uid, shared):
                continue
            if await self._call(
                webhook, matched, f"round_{int(shared.is_reinvoke)}_index_{index}", attributes
            ):
                context.require_reinvoking(shared)
            if webhook.spec.get("reinvocationPolicy") == "IfNeeded":
                context.previously_invoked.add(webhook.uid)
        context.set_last_output(attributes)

    async def _call(self, webhook: Webhook, matched: Matched, key: str, attributes: Attributes) -> bool:
        """Call one webhook and apply its patch; whether that changed the object."""
        who = {"configuration": webhook.configuration, "webhook": webhook.name}
        changed = False
        try:
            found = await webhook.call(self._caller, self._listers, attributes, matched, mutating=True)
            if not found.allowed:
                raise rejection(webhook.name, found.result)
            if operations := _operations(found):
                changed = self._patch(webhook, matched, operations, attributes)
                note = {**who, "patch": operations, "patchType": found.patch_type}
                attributes.annotate(_PATCH + key, _json(note), contents=True)
        except CallError as e:
            if not webhook.ignores_failures:
                raise webhook.failure(e) from None
            attributes.annotate(f"failed-open.{_MUTATION}{key}", webhook.name)
        finally:
            attributes.annotate(_MUTATION + key, _json({**who, "mutated": changed}))
        return changed

    def _patch(
        self, webhook: Webhook, matched: Matched, operations: list[Object], attributes: Attributes
    ) -> bool:
        if attributes.object is None:
            raise internal_error(
                f'admission webhook "{webhook.name}" attempted to modify the object, which is not supported for this '
                "operation"
            )
        before = clone(attributes.object)
        try:
            patched = jsonpatch.apply(matched.codec.object(attributes.object), operations)
            if not isinstance(patched, dict):
                raise BadRequest("the patched document is no object")
            decode_mutated(self._api, patched, matched.codec, attributes)
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

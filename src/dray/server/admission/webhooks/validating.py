"""ValidatingAdmissionWebhook: all webhooks that match are asked at once; any of them can refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dray.api.errors import StatusError
from dray.server.admission import Attributes, Place
from dray.server.admission.lookups import Lookups
from dray.server.admission.matching import EXEMPT, Matched, Matcher
from dray.server.admission.webhooks.calling import Caller, CallError
from dray.server.admission.webhooks.reviews import rejection
from dray.server.admission.webhooks.sources import GROUP, Hook, HookSource
from dray.server.api import API

_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/round_0_index_"


class ValidatingAdmissionWebhook:
    name = "ValidatingAdmissionWebhook"

    def __init__(self, api: API, lookups: Lookups, matcher: Matcher, caller: Caller) -> None:
        self._lookups = lookups
        self._caller = caller
        self._source = HookSource(api, matcher, "validating")

    def concerns(self, place: Place) -> bool:
        if place.group == GROUP and place.kind in EXEMPT:
            return False
        return bool(self._source.hooks(place))

    def on_change(self, forget: Callable[[], None]) -> None:
        self._source.on_change(forget)

    async def validate(self, attributes: Attributes) -> None:
        relevant = []
        for hook in self._source.hooks(attributes):
            matched = self._source.match(hook, attributes)
            if matched is not None:
                relevant.append((hook, matched))
        if not relevant:
            return
        asked = [self._ask(hook, matched, i, attributes) for i, (hook, matched) in enumerate(relevant)]
        for refusal in await asyncio.gather(*asked):
            if refusal is not None:
                raise refusal

    async def _ask(
        self, hook: Hook, matched: Matched, index: int, attributes: Attributes
    ) -> StatusError | None:
        try:
            found = await hook.ask(self._caller, self._lookups, attributes, matched, mutating=False)
        except CallError as e:
            if not hook.ignores_failures:
                return hook.failure(e)
            attributes.annotate(f"{_FAILED_OPEN}{index}", hook.name)
            return None
        except StatusError as e:
            return e
        return None if found.allowed else rejection(hook.name, found.result)

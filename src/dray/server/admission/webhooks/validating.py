"""ValidatingAdmissionWebhook: all webhooks that match are called at once, and any of them can refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dray.api.errors import StatusError
from dray.server.admission import Attributes, RequestScope
from dray.server.admission.listers import Listers
from dray.server.admission.matcher import EXEMPT, Matched, Matcher
from dray.server.admission.webhooks.admissionreview import rejection
from dray.server.admission.webhooks.client import CallError, WebhookClient
from dray.server.admission.webhooks.sources import GROUP, Webhook, WebhookSource
from dray.server.apiserver import APIServer

_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/round_0_index_"


class ValidatingAdmissionWebhook:
    name = "ValidatingAdmissionWebhook"

    def __init__(self, api: APIServer, listers: Listers, matcher: Matcher, caller: WebhookClient) -> None:
        self._listers = listers
        self._caller = caller
        self._source = WebhookSource(api, matcher, "validating")

    def handles(self, scope: RequestScope) -> bool:
        if scope.group == GROUP and scope.kind in EXEMPT:
            return False
        return bool(self._source.hooks(scope))

    def on_change(self, forget: Callable[[], None]) -> None:
        self._source.on_change(forget)

    async def validate(self, attributes: Attributes) -> None:
        relevant = []
        for webhook in self._source.hooks(attributes):
            matched = self._source.match(webhook, attributes)
            if matched is not None:
                relevant.append((webhook, matched))
        if not relevant:
            return
        asked = [self._call(webhook, matched, i, attributes) for i, (webhook, matched) in enumerate(relevant)]
        for refusal in await asyncio.gather(*asked):
            if refusal is not None:
                raise refusal

    async def _call(
        self, webhook: Webhook, matched: Matched, index: int, attributes: Attributes
    ) -> StatusError | None:
        try:
            found = await webhook.call(self._caller, self._listers, attributes, matched, mutating=False)
        except CallError as e:
            if not webhook.ignores_failures:
                return webhook.failure(e)
            attributes.annotate(f"{_FAILED_OPEN}{index}", webhook.name)
            return None
        except StatusError as e:
            return e
        return None if found.allowed else rejection(webhook.name, found.result)

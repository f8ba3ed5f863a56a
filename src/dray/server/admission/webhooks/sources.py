"""The webhooks in the order of their configurations' names, found by the resource of a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from dray.api import errors
from dray.api.errors import StatusError
from dray.server.admission import Attributes, RequestScope, internal_error
from dray.server.admission.activation import Inputs, caching_authorizer
from dray.server.admission.index import Index
from dray.server.admission.listers import Listers
from dray.server.admission.matchconditions import MatchConditions
from dray.server.admission.matcher import MatchCriteria, Matched, Matcher, Rule
from dray.server.admission.webhooks.admissionreview import Response, response, review
from dray.server.admission.webhooks.client import CallError, Endpoint, WebhookClient
from dray.server.admission.webhooks.serviceresolver import endpoint_of
from dray.server.apiserver import APIServer
from dray.server.storage.documents import Document
from dray.server.storage.watchcache import WatchCache

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import MutatingWebhook, MutatingWebhookConfiguration

GROUP: Final = "admissionregistration.k8s.io"
_DRY: Final = ("None", "NoneOnDryRun")


class Webhook:
    """One webhook of a configuration."""

    def __init__(self, configuration: str, uid: str, spec: MutatingWebhook) -> None:
        self.configuration = configuration
        self.uid = uid
        self.spec = spec
        self.name = spec.get("name", "")
        self.match = MatchCriteria.of(spec, map(Rule.of, spec.get("rules") or ()))

    @property
    def ignores_failures(self) -> bool:
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def seconds(self) -> float:
        return float(self.spec.get("timeoutSeconds") or 10)

    @cached_property
    def conditions(self) -> MatchConditions:
        return MatchConditions(self.spec.get("matchConditions") or (), ignore_failures=self.ignores_failures)

    def check_dry_run(self, attributes: Attributes) -> None:
        if attributes.dry_run and self.spec.get("sideEffects") not in _DRY:
            raise errors.BadRequest(f'admission webhook "{self.name}" does not support dry run')

    def endpoint(self, listers: Listers) -> Endpoint:
        return endpoint_of(self.spec.get("clientConfig") or {}, listers)

    async def call(
        self,
        caller: WebhookClient,
        listers: Listers,
        attributes: Attributes,
        matched: Matched,
        *,
        mutating: bool,
    ) -> Response:
        """What the webhook says of a request; CallError if it cannot be had. Notes and warnings are passed on."""
        self.check_dry_run(attributes)
        sent = review(attributes, matched, self.spec.get("admissionReviewVersions") or ())
        try:
            answer = await caller.post(self.endpoint(listers), sent.body, seconds=self.seconds)
        except CallError as e:
            raise CallError(f"failed to call webhook: {e}") from None
        found = response(sent, answer, mutating=mutating)
        for key, value in (found.annotations or {}).items():
            attributes.annotate(f"{self.name}/{key}", value)
        for text in found.warnings:
            attributes.warn(text)
        return found

    def failure(self, error: CallError) -> StatusError:
        return internal_error(f'failed calling webhook "{self.name}": {error}')


class WebhookSource:
    """Webhooks of one family. Changes of configurations take effect with the next request."""

    def __init__(self, api: APIServer, matcher: Matcher, family: str) -> None:
        self._api = api
        self._matcher = matcher
        self._plural = f"{family}webhookconfigurations"
        self._cache: WatchCache | None = None
        self._stale = True
        self._forgetful: list[Callable[[], None]] = []
        self._configurations: dict[str, tuple[int, Sequence[Webhook]]] = {}  # by name: revision and webhooks
        self._index: Index[Webhook] = Index(api.resources, matcher)

    def hooks(self, attributes: Attributes | RequestScope) -> tuple[Webhook, ...]:
        """The webhooks that may be about a request, in the order of their configurations' names."""
        if self._stale:
            self._refresh()
        return self._index.find(attributes)

    def match(self, webhook: Webhook, attributes: Attributes) -> Matched | None:
        """The resource by which a request matches a webhook, or None."""
        matched = self._matcher.matches(webhook.match, attributes)
        if matched is None or not webhook.spec.get("matchConditions"):
            return matched
        answer = caching_authorizer(self._api.authorizer.authorize, attributes.user)
        verdict = webhook.conditions.hold(Inputs(attributes, matched, answer))
        if verdict.error:
            raise errors.forbidden(attributes.resource, attributes.group, attributes.name, verdict.error)
        return matched if verdict.matches else None

    def _refresh(self) -> None:
        self._stale = False
        if self._cache is None:
            resource = self._api.resources.resource(GROUP, self._plural)
            if resource is None:
                return
            self._cache = resource.cache
            self._cache.subscribe(lambda change: self._mark())
        kept: dict[str, tuple[int, Sequence[Webhook]]] = {}
        for document in self._cache:
            known = self._configurations.get(document.name)
            if known is None or known[0] != document.revision:
                known = (document.revision, _webhooks_of(document))
            kept[document.name] = known
        self._configurations = kept
        # A webhook without rules is never called.
        self._index.fill(webhook for _, hooks in kept.values() for webhook in hooks if webhook.match.rules)

    def on_change(self, forget: Callable[[], None]) -> None:
        """Have ``forget`` called when a request may meet others than before."""
        self._forgetful.append(forget)
        self._api.resources.on_change(forget)  # what is served tells what is equivalent

    def _mark(self) -> None:
        self._stale = True
        for forget in self._forgetful:
            forget()


def _webhooks_of(document: Document) -> list[Webhook]:
    """Names may repeat, so each webhook is also numbered among those of its name."""
    seen: dict[str, int] = {}
    found = []
    # A ValidatingWebhook has the fields of a MutatingWebhook but reinvocationPolicy.
    configuration: MutatingWebhookConfiguration = document.hub
    for spec in configuration.get("webhooks") or ():
        name = spec.get("name", "")
        number = seen.get(name, 0)
        seen[name] = number + 1
        found.append(Webhook(document.name, f"{document.name}/{name}/{number}", spec))
    return found

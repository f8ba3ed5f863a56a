"""The plugins that this server has, put together by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dray.server.admission import AdmissionPlugin
from dray.server.admission.lifecycle import NamespaceAutoProvision, NamespaceExists, NamespaceLifecycle
from dray.server.admission.limits import LimitRanger
from dray.server.admission.lookups import Lookups
from dray.server.admission.matching import Matcher
from dray.server.admission.policies.validating import ValidatingAdmissionPolicy
from dray.server.admission.priority import Priority
from dray.server.admission.runtimeclass import RuntimeClass
from dray.server.admission.tolerations import DefaultTolerationSeconds, ExtendedResourceToleration
from dray.server.api import API


def plugins(api: API, names: frozenset[str]) -> list[AdmissionPlugin]:
    """Those of the named plugins that have an effect here."""
    lookups = Lookups(api)
    matcher = Matcher(api.resources, lookups)
    known: Mapping[str, Callable[[], AdmissionPlugin]] = {
        "NamespaceAutoProvision": lambda: NamespaceAutoProvision(api, lookups),
        "NamespaceLifecycle": lambda: NamespaceLifecycle(lookups),
        "NamespaceExists": lambda: NamespaceExists(lookups),
        "LimitRanger": lambda: LimitRanger(lookups),
        "Priority": lambda: Priority(lookups),
        "DefaultTolerationSeconds": DefaultTolerationSeconds,
        "ExtendedResourceToleration": ExtendedResourceToleration,
        "RuntimeClass": lambda: RuntimeClass(lookups),
        "ValidatingAdmissionPolicy": lambda: ValidatingAdmissionPolicy(api, lookups, matcher),
    }
    return [make() for name, make in known.items() if name in names]

"""The chain: which plugins run, in which order, and when they run again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dray.server.admission import (
    DEFAULT_ON,
    ORDER,
    AdmissionChain,
    Attributes,
    RequestScope,
    UnknownPlugin,
    enabled,
)
from dray.server.admission.registration import build_plugins
from tests.support.admission import make_world
from tests.support.apiserver import make_server


def attributes() -> Attributes:
    from dray.api.user import UserInfo
    from dray.server.subresources.codecs import body_codec

    codec = body_codec("", "v1", "ConfigMap")
    return Attributes(
        "CREATE", UserInfo("u"), "", "v1", "configmaps", "", "ConfigMap", "ns", "x", codec, {"metadata": {}}
    )


class Recorder:
    """A mutating plugin that writes down when it ran, and may ask for a second round."""

    def __init__(self, name: str, log: list[str], *, reinvoke: bool = False) -> None:
        self.name = name
        self._log = log
        self._reinvoke = reinvoke

    def handles(self, scope: RequestScope) -> bool:
        return True

    async def admit(self, attributes: Attributes) -> None:
        self._log.append(self.name)
        if self._reinvoke:
            attributes.reinvocation_context().should_reinvoke = True


async def test_plugins_run_in_upstreams_order_however_they_are_given() -> None:
    log: list[str] = []
    names = ["ResourceQuota", "MutatingAdmissionPolicy", "NamespaceLifecycle", "Priority"]
    await AdmissionChain([Recorder(name, log) for name in names]).admit(attributes())
    assert log == ["NamespaceLifecycle", "Priority", "MutatingAdmissionPolicy", "ResourceQuota"]


async def test_a_plugin_that_changes_late_gets_everybody_a_second_round_and_no_third() -> None:
    log: list[str] = []
    chain = AdmissionChain(
        [Recorder("Priority", log), Recorder("MutatingAdmissionPolicy", log, reinvoke=True)]
    )
    await chain.admit(attributes())
    assert log == ["Priority", "MutatingAdmissionPolicy"] * 2


async def test_each_admission_of_a_retried_write_starts_afresh() -> None:
    log: list[str] = []
    chain = AdmissionChain([Recorder("MutatingAdmissionPolicy", log, reinvoke=True)])
    request = attributes()
    await chain.admit(request)
    await chain.admit(request)
    assert len(log) == 4


class Configured(Recorder):
    """A plugin that concerns what somebody has configured, and says when that is something else."""

    def __init__(self, name: str, log: list[str]) -> None:
        super().__init__(name, log)
        self.operations = {"DELETE"}
        self.asked = 0
        self.forget: Callable[[], None] = lambda: None

    def handles(self, scope: RequestScope) -> bool:
        self.asked += 1
        return scope.operation in self.operations

    def on_change(self, forget: Callable[[], None]) -> None:
        self.forget = forget


async def test_a_plugin_is_asked_once_for_a_sort_of_writes_until_its_configuration_changes() -> None:
    log: list[str] = []
    plugin = Configured("Priority", log)
    chain = AdmissionChain([plugin])
    for _ in range(3):
        await chain.admit(attributes())
        await chain.validate(attributes())
    assert (plugin.asked, log) == (1, [])
    plugin.operations = {"CREATE"}
    plugin.forget()
    await chain.admit(attributes())
    assert (plugin.asked, log) == (2, ["Priority"])


async def test_writes_of_another_sort_are_asked_about_anew() -> None:
    log: list[str] = []
    plugin = Configured("Priority", log)
    chain = AdmissionChain([plugin])
    for change in ("operation", "group", "version", "resource", "subresource", "kind"):
        request = attributes()
        setattr(request, change, "DELETE" if change == "operation" else "other")
        await chain.admit(request)
    assert (plugin.asked, log) == (6, ["Priority"])


def test_default_plugins_run_unless_they_are_disabled() -> None:
    assert enabled() == DEFAULT_ON
    assert "NodeRestriction" in enabled(["NodeRestriction"])
    assert "Priority" not in enabled([], ["Priority"])


@pytest.mark.parametrize("name", ORDER)
def test_every_name_of_upstream_is_accepted(name: str) -> None:
    assert name in enabled([name])
    assert name not in enabled([], [name])


def test_unknown_and_contradictory_names_are_refused() -> None:
    with pytest.raises(UnknownPlugin, match='enable-admission-plugins plugin "Nonsense" is unknown'):
        enabled(["Nonsense"])
    with pytest.raises(UnknownPlugin, match="overlapped"):
        enabled(["Priority"], ["Priority"])


async def test_all_plugins_can_be_made_at_once() -> None:
    server = await make_server()
    made = build_plugins(server.api, frozenset(ORDER))
    assert {plugin.name for plugin in made} <= set(ORDER)
    assert len({plugin.name for plugin in made}) == len(made)


def test_a_refusal_names_the_object_or_what_its_name_begins_with() -> None:
    request = attributes()
    request.name = ""
    assert request.forbidden("no").message == 'configmaps "Unknown" is forbidden: no'
    request.object = {"metadata": {"generateName": "web-"}}
    assert request.forbidden("no").message == 'configmaps "web-" is forbidden: no'


async def test_asking_for_a_plugin_that_does_nothing_here_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await make_world("NamespaceLifecycle", "EventRateLimit", "StorageObjectInUseProtection", "AlwaysAdmit")
    assert [record.getMessage() for record in caplog.records] == [
        "admission plugin EventRateLimit was asked for; it has no effect here"
    ]

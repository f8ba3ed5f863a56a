from __future__ import annotations

import re

import pytest

from dray.api.times import CANONICAL_MICRO, MICROSECONDS, parse_time
from dray.client.events import EventRecorder
from dray.client.resources import NODES, PODS
from dray.client.transport import Unreachable
from tests.support.events import event_writes, wait_written

POD = {"metadata": {"namespace": "a", "name": "p", "uid": "u", "resourceVersion": "7"}}
REFERENCE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "namespace": "a",
    "name": "p",
    "uid": "u",
    "resourceVersion": "7",
}


async def test_an_event_in_core_terms(client, server, now):
    recorder = EventRecorder(client, "scheduler", host="h", clock=lambda: now[0])
    recorder.event(PODS, POD, "Warning", "Failed", "no room")
    await wait_written(recorder)
    method, path, _, body = server.requests[0]
    assert (method, path) == ("POST", "/api/v1/namespaces/a/events")
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p.e8d4a51000", "namespace": "a"},
        "involvedObject": REFERENCE,
        "reason": "Failed",
        "message": "no room",
        "source": {"component": "scheduler", "host": "h"},
        "firstTimestamp": "1970-01-01T00:16:40Z",
        "lastTimestamp": "1970-01-01T00:16:40Z",
        "count": 1,
        "type": "Warning",
        "reportingComponent": "scheduler",
        "reportingInstance": "h",
    }


@pytest.mark.parametrize(
    "moment", [0.0, 0.999_999_9, 1_700_000_000.000_001, 1_763_000_000.25, 253_402_300_799.5]
)
async def test_the_time_of_an_event_is_told_to_the_microsecond(client, server, moment):
    recorder = EventRecorder(client, "scheduler", api="events.k8s.io", clock=lambda: moment)
    recorder.event(PODS, POD, "Normal", "Scheduled", "ok", action="Binding")
    await wait_written(recorder)
    told = server.requests[0][3]["eventTime"]
    assert re.match(CANONICAL_MICRO.replace("[12]", "[0-9]").replace("2[0-8]", "2[0-9]|3[01]"), told)
    assert moment - 2e-6 <= parse_time(told, layout=MICROSECONDS).timestamp() <= moment + 1e-6


async def test_an_event_in_the_terms_of_its_own_group(client, server, now):
    recorder = EventRecorder(client, "scheduler", host="h", api="events.k8s.io", clock=lambda: now[0])
    recorder.event(
        PODS, POD, "Normal", "Scheduled", "ok", action="Binding", related=(NODES, {"metadata": {"name": "n"}})
    )
    await wait_written(recorder)
    method, path, _, body = server.requests[0]
    assert (method, path) == ("POST", "/apis/events.k8s.io/v1/namespaces/a/events")
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "p.e8d4a51000", "namespace": "a"},
        "eventTime": "1970-01-01T00:16:40.000000Z",
        "reportingController": "scheduler",
        "reportingInstance": "scheduler-h",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": REFERENCE,
        "related": {"apiVersion": "v1", "kind": "Node", "name": "n"},
        "note": "ok",
        "type": "Normal",
    }


async def test_about_something_without_a_namespace_it_is_in_default(client, server):
    recorder = EventRecorder(client, "c")
    recorder.event(NODES, {"metadata": {"name": "n"}}, "Normal", "Up", "up")
    await wait_written(recorder)
    assert server.requests[0][1] == "/api/v1/namespaces/default/events"


async def test_a_name_that_no_event_can_have_is_replaced(client, server):
    recorder = EventRecorder(client, "c")
    recorder.event(PODS, {"metadata": {"name": "x" * 250}}, "Normal", "Up", "up")
    recorder.event(PODS, {"metadata": {"name": "system:thing"}}, "Normal", "Up", "up")
    await wait_written(recorder)
    assert all(len(body["metadata"]["name"]) == 36 for _, body in event_writes(server))


async def test_an_event_that_has_expired_is_written_anew_with_its_count(client, server, now):
    recorder = EventRecorder(client, "c", clock=lambda: now[0])
    recorder.event(PODS, POD, "Normal", "Pulled", "image")
    await wait_written(recorder)
    server.objects.clear()
    recorder.event(PODS, POD, "Normal", "Pulled", "image")
    await wait_written(recorder)
    assert [method for method, _ in event_writes(server)] == ["POST", "PATCH", "POST"]
    (event,) = server.objects.values()
    assert event["count"] == 2


async def test_a_server_that_is_away_gets_the_event_later(client, server, monkeypatch):
    monkeypatch.setattr("dray.client.events.RETRY_SECONDS", 0)
    recorder = EventRecorder(client, "c")
    server.failures += [Unreachable("away"), Unreachable("away")]
    recorder.event(PODS, POD, "Normal", "Pulled", "image")
    await wait_written(recorder)
    assert len(server.objects) == 1


async def test_when_too_many_wait_new_ones_are_dropped(client, server, caplog):
    recorder = EventRecorder(client, "c", api="events.k8s.io")
    for n in range(1100):
        recorder.event(PODS, POD, "Normal", f"Reason{n}", "x")
    await wait_written(recorder)
    assert len(server.objects) == 1000
    assert "too many events" in caplog.text

"""Events that are counted, combined, made a series or dropped."""

from __future__ import annotations

from dray.client.events import EventRecorder
from dray.client.resources import PODS
from tests.support.events import event_writes, wait_written

POD = {"metadata": {"namespace": "a", "name": "p", "uid": "u", "resourceVersion": "7"}}


async def test_the_same_again_is_counted(client, server, now):
    recorder = EventRecorder(client, "c", clock=lambda: now[0])
    for version in range(3):
        changed = {"metadata": {**POD["metadata"], "resourceVersion": str(version)}}
        recorder.event(PODS, changed, "Normal", "Pulled", "image")
        now[0] += 60
    await wait_written(recorder)
    assert [method for method, _ in event_writes(server)] == ["POST", "PATCH", "PATCH"]
    assert event_writes(server)[2][1] == {
        "count": 3,
        "lastTimestamp": "1970-01-01T00:18:40Z",
        "message": "image",
    }
    (event,) = server.objects.values()
    assert (event["count"], event["firstTimestamp"]) == (3, "1970-01-01T00:16:40Z")


async def test_similar_ones_are_combined_from_the_tenth_on(client, server, now):
    recorder = EventRecorder(client, "c", clock=lambda: now[0])
    for n in range(12):
        recorder.event(PODS, POD, "Normal", "Pulled", f"image {n}")
        now[0] += 1
    await wait_written(recorder)
    messages = [event["message"] for event in server.objects.values()]
    assert messages == [*(f"image {n}" for n in range(9)), "(combined from similar events): image 11"]
    assert list(server.objects.values())[-1]["count"] == 3


async def test_similar_ones_long_after_are_not_combined(client, server, now):
    recorder = EventRecorder(client, "c", clock=lambda: now[0])
    for n in range(12):
        recorder.event(PODS, POD, "Normal", "Pulled", f"image {n}")
        now[0] += 601
    await wait_written(recorder)
    assert len(server.objects) == 12


async def test_too_many_about_one_object_are_dropped(client, server, now):
    recorder = EventRecorder(client, "c", clock=lambda: now[0])
    for n in range(40):
        recorder.event(PODS, POD, "Normal", f"Reason{n}", "x")
    recorder.event(PODS, {"metadata": {"name": "other"}}, "Normal", "Fine", "x")
    now[0] += 300
    recorder.event(PODS, POD, "Normal", "Later", "x")
    await wait_written(recorder)
    assert len(server.objects) == 27


async def test_the_same_again_becomes_a_series_that_is_written_when_it_ends(client, server, now):
    recorder = EventRecorder(client, "c", api="events.k8s.io", clock=lambda: now[0])
    for n in range(5):
        recorder.event(PODS, POD, "Warning", "FailedScheduling", f"note {n}", action="Scheduling")
        now[0] += 10
    await wait_written(recorder)
    assert [method for method, _ in event_writes(server)] == ["POST", "PATCH"]
    assert event_writes(server)[1][1] == {
        "series": {"count": 2, "lastObservedTime": "1970-01-01T00:16:50.000000Z"}
    }
    assert not list(recorder._correlator.finish_series(now=now[0]))
    now[0] += 400
    (last,) = recorder._correlator.finish_series(now=now[0])
    assert last.patch == {"series": {"count": 5, "lastObservedTime": "1970-01-01T00:17:20.000000Z"}}
    assert not list(recorder._correlator.finish_series(now=now[0] + 1000))

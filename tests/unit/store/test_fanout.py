from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dray.store.fanout import Fanout
from dray.store.interface import Event

prefixes = st.sampled_from(["", "/", "/r/", "/r/pods/", "/r/pods/a/", "/r/pods/a", "/r/po", "/x/"])
keys = st.sampled_from(
    ["/r/pods/a/1", "/r/pods/a/2", "/r/pods/ab/1", "/r/pods/b", "/r/nodes/a", "/x/y", "plain"]
)


class Listener:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.heard: list[int] = []

    def deliver(self, events) -> None:
        self.heard += [event.revision for event in events]

    def fail(self, error) -> None: ...


@given(st.lists(st.one_of(st.tuples(st.just("come"), prefixes), st.tuples(st.just("go"), prefixes), keys)))
def test_everybody_hears_what_happens_below_their_prefix_while_they_listen(steps):
    fanout, present, expected = Fanout(), [], {}
    revision = 1
    for step in steps:
        match step:
            case "come", prefix:
                listener = Listener(prefix)
                fanout.add(listener)
                present.append(listener)
                expected[listener] = []
            case "go", prefix:
                for listener in [one for one in present if one.prefix == prefix]:
                    fanout.remove(listener)
                    present.remove(listener)
            case key:
                fanout.publish([Event(revision, key, b"", None), Event(revision + 1, key + "0", b"", None)])
                for listener in present:
                    for number, name in ((revision, key), (revision + 1, key + "0")):
                        if name.startswith(listener.prefix):
                            expected[listener].append(number)
                revision += 2
    assert all(listener.heard == wanted for listener, wanted in expected.items())

"""The informers' cache: whatever comes and goes, an index says what looking through everything would say."""

from hypothesis import given
from hypothesis import strategies as st

from dray.client.cache import Store

VALUES = ("red", "green", "blue")
changes = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.lists(st.sampled_from(VALUES), max_size=3)), max_size=30
)


def colours(obj):
    return obj["colours"]


def obj(name, its=()):
    return {"metadata": {"namespace": "default", "name": name}, "colours": list(its)}


@given(changes, st.integers(0, 30))
def test_an_index_agrees_with_a_look_at_every_object(steps, indexed_from):
    cache = Store()
    for n, (name, its) in enumerate(steps):
        if n == indexed_from:
            cache.add_index("colour", colours)
        if its is None:
            cache.remove(obj(name))
        else:
            cache.put(obj(name, its))
    cache.add_index("colour", colours)
    for value in VALUES:
        expected = [one["metadata"]["name"] for one in cache.values() if value in one["colours"]]
        assert sorted(o["metadata"]["name"] for o in cache.by_index("colour", value)) == sorted(expected)
    assert set(cache.index_values("colour")) == {value for one in cache.values() for value in one["colours"]}


def test_an_index_finds_the_newest_object_where_its_value_stayed():
    cache = Store({"colour": colours})
    old, new = obj("a", ["red"]), obj("a", ["red"])
    assert cache.put(old) is None
    assert cache.put(new) is old
    [found] = cache.by_index("colour", "red")
    assert found is new
    assert cache.get("default", "a") is new
    assert cache.remove(obj("a")) is new
    assert cache.remove(obj("a")) is None


def test_an_index_asks_once_for_each_object_that_comes_in():
    asked = []

    def counted(one):
        asked.append(one["colours"])
        return one["colours"]

    cache = Store({"colour": counted})
    cache.put(obj("a", ["red"]))
    cache.put(obj("a", ["blue"]))
    cache.remove(obj("a"))
    assert asked == [["red"], ["blue"]]
    assert not cache.index_values("colour")

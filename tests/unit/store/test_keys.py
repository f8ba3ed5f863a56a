from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dray.store.keys import SortedKeys, prefix_end

texts = st.text(alphabet="ab/.\U0010ffff", max_size=6)


class SmallChunks(SortedKeys):
    CHUNK = 2  # type: ignore[misc]


@given(texts, texts)
def test_the_end_of_a_prefix_is_above_exactly_what_begins_with_it(prefix, key):
    end = prefix_end(prefix)
    assert (prefix <= key and (end is None or key < end)) == key.startswith(prefix)


@given(
    st.sets(texts),
    st.lists(st.tuples(st.sampled_from(["add", "remove", "list"]), texts)),
    texts,
    st.none() | texts,
    st.integers(0, 5),
)
def test_keys_stay_sorted_whatever_is_added_and_removed(initial, changes, low, high, limit):
    keys, model = SmallChunks(initial), set(initial)
    for change, key in changes:
        if change == "add" and key not in model:
            keys.add(key)
            model.add(key)
        elif change == "remove" and key in model:
            keys.remove(key)
            model.remove(key)
        elif change == "list":
            assert keys.between("", None) == (sorted(model), 0)
    assert len(keys) == len(model)
    wanted = sorted(key for key in model if low <= key and (high is None or key < high))
    cut = wanted[:limit] if limit else wanted
    assert keys.between(low, high, limit) == (cut, len(wanted) - len(cut))

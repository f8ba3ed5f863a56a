from __future__ import annotations

import pytest

from dray.api.textcache import cache_by_length, cache_short, cache_texts


@pytest.mark.parametrize("cache", [cache_short, cache_texts])
def test_what_is_made_of_a_long_text_is_not_kept(cache):
    made = []
    kept = cache(10)(lambda text: made.append(text))
    for text in ("a" * 600, "a" * 600, "b", "b"):
        kept(text)
    assert made == ["a" * 600, "a" * 600, "b"]


def test_a_full_cache_of_texts_begins_anew():
    made = []
    kept = cache_texts(2)(lambda text: made.append(text))
    for text in ("a", "b", "a", "c", "c", "a"):
        kept(text)
    assert made == ["a", "b", "c", "a"]


def test_of_what_was_made_of_texts_so_many_characters_are_kept_the_latest_first():
    made = []

    @cache_by_length(10)
    def kept(text: str, *, of: int = 0) -> int:
        made.append((text, of))
        return len(text)

    for text in ("aaaa", "bbbb", "aaaa", "cccc", "aaaa", "bbbb"):
        assert kept(text) == 4
    assert made == [("aaaa", 0), ("bbbb", 0), ("cccc", 0), ("bbbb", 0)]
    assert kept("bbbb", of=1) == 4
    assert made[-1] == ("bbbb", 1)
    assert kept("x" * 100) == kept("x" * 100) == 100
    assert made[-2:] == [("bbbb", 1), ("x" * 100, 0)]

"""Growing pauses."""

from __future__ import annotations

from itertools import islice

import pytest

from dray.backoff import Backoff


def test_pauses_grow_up_to_the_maximum():
    assert list(islice(Backoff(initial=1, maximum=5).pauses(), 5)) == [1, 2, 4, 5, 5]


def test_jitter_only_makes_pauses_longer():
    pauses = Backoff(initial=1, factor=1, jitter=0.5).pauses(randomness=iter((0.0, 1.0)).__next__)
    assert list(islice(pauses, 2)) == [1, 1.5]


@pytest.mark.parametrize("backoff", [Backoff(initial=0.005, maximum=1000), Backoff(initial=5, maximum=300)])
def test_a_pause_after_some_failures_is_the_one_that_the_sequence_has_there(backoff):
    assert [backoff.after(failures) for failures in range(40)] == list(islice(backoff.pauses(), 40))
    assert backoff.after(10**9) == backoff.maximum

"""Random numbers as Go draws them."""

from __future__ import annotations

from dray.simulate.go_random import GoRandom


def test_numbers_are_those_of_go() -> None:
    # What Go programs that never set a seed used to print.
    draw = GoRandom(1)
    assert [draw.intn(100) for _ in range(10)] == [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]


def test_shuffles_and_permutations_keep_every_value() -> None:
    values = list(range(100))
    GoRandom(42).shuffle(values)
    assert values != sorted(values)
    assert sorted(values) == list(range(100))
    assert sorted(GoRandom(42).permutation(100)) == list(range(100))
    assert GoRandom(42).permutation(100) == GoRandom(42).permutation(100) != GoRandom(43).permutation(100)

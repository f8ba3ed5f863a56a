"""The random numbers of Go's ``math/rand``, so that published seeds give the published order of pods and nodes.

Go's generator adds two of its last 607 numbers: ``x[n] = x[n-607] + x[n-273]``, modulo 2⁶⁴. A seed is combined with a
fixed state, the one that the generator reaches from seed 1 after 7.8 · 10¹² steps. Nobody has to take that many steps:
the numbers after ``n`` steps are a linear function of the first 607, and its coefficients are those of xⁿ modulo the
polynomial x⁶⁰⁷ − x³³⁴ − 1.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from functools import cache
from typing import Any

_LENGTH = 607
_TAP = 273
_STEPS = 7_800_000_000_000
_MASK = (1 << 64) - 1
_INT32_MAX = (1 << 31) - 1
#: for one coefficient: 607 products of two 64 bit numbers fit
_BITS = 144
#: the low 64 bits of each coefficient of a product
_COEFFICIENTS = int.from_bytes((b"\xff" * 8 + bytes(_BITS // 8 - 8)) * 2 * _LENGTH, "little")


class GoRandom:
    """What ``rand.New(rand.NewSource(seed))`` draws."""

    def __init__(self, seed: int) -> None:
        state = [drawn ^ fixed for drawn, fixed in zip(_congruent(seed, (40, 20, 0)), _fixed(), strict=True)]
        self._state = [one & _MASK for one in state]
        self._feed = _LENGTH - _TAP

    def int63(self) -> int:
        self._feed = feed = (self._feed or _LENGTH) - 1
        state = self._state
        drawn = state[feed] = (state[feed] + state[feed - (_LENGTH - _TAP)]) & _MASK
        return drawn & (_MASK >> 1)

    def intn(self, limit: int) -> int:
        """A number below ``limit``, which has at most 31 bits."""
        if not limit & (limit - 1):
            return (self.int63() >> 32) & (limit - 1)
        largest = _INT32_MAX - (1 << 31) % limit
        while (drawn := self.int63() >> 32) > largest:
            pass
        return drawn % limit

    def shuffle(self, values: MutableSequence[Any]) -> None:
        for last in range(len(values) - 1, 0, -1):
            other = self._scaled(last + 1)
            values[last], values[other] = values[other], values[last]

    def permutation(self, length: int) -> list[int]:
        order = [0] * length
        for position in range(length):
            other = self.intn(position + 1)
            order[position], order[other] = order[other], position
        return order

    def _scaled(self, limit: int) -> int:
        """A number below ``limit`` by multiplication, as Go draws for shuffles."""
        threshold = (1 << 32) % limit
        while True:
            product = (self.int63() >> 31) * limit
            if product & 0xFFFFFFFF >= threshold:
                return product >> 32


def _congruent(seed: int, shifts: Sequence[int]) -> list[int]:
    """607 numbers of a linear congruential generator, each put together from several by these shifts."""
    value = seed % _INT32_MAX or 89482311
    for _ in range(20):
        value = value * 48271 % _INT32_MAX
    numbers = []
    for _ in range(_LENGTH):
        number = 0
        for shift in shifts:
            value = value * 48271 % _INT32_MAX
            number ^= value << shift
        numbers.append(number)
    return numbers


@cache
def _fixed() -> Sequence[int]:
    """The state that seeds are combined with."""
    slots = _congruent(1, (20, 10, 0))
    first = [slots[_slot(step)] for step in range(_LENGTH)]  # in the order in which they are replaced
    for step in range(_LENGTH - 1):
        first.append((first[step] + first[step + _LENGTH - _TAP]) & _MASK)
    power = _coefficients(_power_of_x(_STEPS), _LENGTH)
    product = _coefficients(_polynomial(power[::-1]) * _polynomial(first), 2 * _LENGTH)
    state = [0] * _LENGTH
    for step in range(_LENGTH):
        state[_slot(_STEPS + step)] = product[_LENGTH - 1 + step]
    return state


def _slot(step: int) -> int:
    """Which number of the state a step replaces."""
    return (_LENGTH - _TAP - 1 - step) % _LENGTH


# A polynomial is one long number, with its coefficients at equal distances, the lowest one first.


def _power_of_x(exponent: int) -> int:
    power = 1
    for bit in f"{exponent:b}":
        power = _remainder(power * power)
        if bit == "1":
            power = _remainder(power << _BITS)
    return power


def _remainder(polynomial: int) -> int:
    """Modulo x⁶⁰⁷ − x³³⁴ − 1, and its coefficients modulo 2⁶⁴."""
    polynomial &= _COEFFICIENTS
    while high := polynomial >> _BITS * _LENGTH:
        low = polynomial & (1 << _BITS * _LENGTH) - 1
        polynomial = low + high + (high << _BITS * (_LENGTH - _TAP))
    return polynomial & _COEFFICIENTS


def _polynomial(coefficients: Sequence[int]) -> int:
    return int.from_bytes(b"".join(one.to_bytes(_BITS // 8, "little") for one in coefficients), "little")


def _coefficients(polynomial: int, number: int) -> list[int]:
    """The first ones, modulo 2⁶⁴."""
    size = _BITS // 8
    text = (polynomial & (1 << number * _BITS) - 1).to_bytes(number * size, "little")
    return [int.from_bytes(text[at : at + 8], "little") for at in range(0, number * size, size)]

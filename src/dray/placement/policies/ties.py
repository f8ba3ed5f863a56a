"""Which of several nodes of equal score is taken: an order that a seed decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b

_MASK = (1 << 64) - 1


class Ties:
    """An order of names. It is a function of the seed: whoever has the seed has the same order."""

    def __init__(self, seed: int = 0, node_order: Mapping[str, int] | None = None) -> None:
        """``node_order``: the order of nodes, least first, where the seed is not to decide it."""
        self._seed = str(seed).encode()
        self.rank: Callable[[str], int] = lru_cache(maxsize=1 << 17)(self._rank)
        self._node_order = node_order
        self.rank_of_node = self.rank if node_order is None else self._given_rank

    def _rank(self, name: str) -> int:
        digest = blake2b(name.encode(), key=self._seed, digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def _given_rank(self, node: str) -> int:
        assert self._node_order is not None
        given = self._node_order.get(node)
        return given if given is not None else len(self._node_order) + self.rank(node)

    def mixed(self, name: str, number: int) -> int:
        """Another order for each number."""
        mixed = (self.rank(name) ^ (number * 0x9E3779B97F4A7C15)) & _MASK
        mixed = (mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9 & _MASK
        return mixed ^ (mixed >> 29)

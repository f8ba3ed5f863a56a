"""Which network of the host the pods get."""

from __future__ import annotations

from dray.runtimes.process.netlink import taken_networks
from dray.runtimes.process.network import free_block

#: 10.64.0.0/10 begins here; a block has 1024 addresses.
FIRST = 0x0A400000
TABLE = """Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0
eth0 0000400A 00000000 0001 0 0 0 00FCFFFF 0 0 0
eth1 0000000A 00000000 0001 0 0 0 000000FF 0 0 0
"""


def test_networks_are_read_from_the_kernels_table_but_for_very_wide_ones() -> None:
    assert taken_networks(TABLE) == [(FIRST, FIRST + 1023)]


def test_a_block_that_the_host_uses_is_passed_over() -> None:
    assert free_block(0, ()) == FIRST
    assert free_block(0, [(FIRST + 5, FIRST + 5)]) == FIRST + 1024
    assert free_block(4095, [(FIRST + 4095 * 1024, FIRST + 4096 * 1024)]) == FIRST

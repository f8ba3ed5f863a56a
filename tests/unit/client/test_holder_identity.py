from __future__ import annotations

import subprocess
import sys

import pytest

from dray.client import holder_identity

_SAY = "from dray.client import holder_identity; print(holder_identity.new_identity(), flush=True); input()"


def test_a_process_is_there_until_it_has_ended():
    other = subprocess.Popen([sys.executable, "-c", _SAY], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    try:
        assert other.stdout is not None
        name = other.stdout.readline().decode().strip()
        assert not holder_identity.process_ended(name)
        other.kill()
        other.wait()
        assert holder_identity.process_ended(name)
    finally:
        other.kill()
        other.wait()


def test_this_process_has_not_ended():
    assert not holder_identity.process_ended(holder_identity.new_identity())
    assert holder_identity.new_identity() != holder_identity.new_identity()


@pytest.mark.parametrize(
    "name", ["", "host_6f1c", "host_1.5._x", "host_1.5.elsewhere_x", "a_b_c", "h_x.5.y_z"]
)
def test_of_names_given_elsewhere_nothing_can_be_told(name: str):
    assert not holder_identity.process_ended(name)

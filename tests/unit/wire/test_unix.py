from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dray.wire.unix import MAX_PATH_BYTES, SocketPath


def test_a_path_longer_than_the_kernel_allows_can_be_listened_on(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100) / ("e" * 100)
    directory.mkdir(parents=True)
    path = directory / "dra.sock"
    assert len(str(path)) > MAX_PATH_BYTES
    with SocketPath(path) as address, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address.short)
        assert path.is_socket()


def test_a_file_name_that_fits_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too long"):
        SocketPath(tmp_path / ("n" * 120))

"""The API server's listening socket."""

from __future__ import annotations

import pytest

from dray.app.options import Address, OptionError


def test_the_next_free_port_is_taken_unless_one_was_named():
    from dray.app.server import listen

    first = listen(Address("127.0.0.1", 0, 1))
    port = first.getsockname()[1]
    with pytest.raises(OptionError, match="cannot listen"):
        listen(Address("127.0.0.1", port, 1))
    second = listen(Address("127.0.0.1", port, 20))
    assert second.getsockname()[1] > port
    first.close()
    second.close()

from __future__ import annotations

from pathlib import Path

import pytest

from dray.app.options import OptionError, default_data, parse_listen, split_list


@pytest.mark.parametrize(
    ("text", "host", "port", "insists"),
    [
        (None, "127.0.0.1", 6443, False),
        ("127.0.0.1:80", "127.0.0.1", 80, True),
        (":80", "127.0.0.1", 80, True),
        ("0.0.0.0", "0.0.0.0", 6443, False),
        ("[::1]:80", "::1", 80, True),
        ("::1", "::1", 6443, False),
    ],
)
def test_where_to_listen(text, host, port, insists):
    found = parse_listen(text)
    assert (found.host, found.port, found.tries == 1) == (host, port, insists)


@pytest.mark.parametrize("text", ["a:b", "a:70000", "[::1:80"])
def test_where_nobody_can_listen(text):
    with pytest.raises(OptionError):
        parse_listen(text)


def test_the_data_directory_follows_the_environment(monkeypatch):
    monkeypatch.setenv("DRAY_DATA", "/x")
    assert default_data() == Path("/x")
    monkeypatch.delenv("DRAY_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", "/y")
    assert default_data() == Path("/y/dray")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert default_data() == Path.home() / ".local/share/dray"


def test_lists_are_split_at_commas():
    assert split_list("a, b,,c") == ("a", "b", "c")
    assert split_list(None) == ()

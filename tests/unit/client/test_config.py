"""Configurations and credentials."""

from __future__ import annotations

from dray.client.config import Config, Credentials


def test_secrets_are_not_printed():
    config = Config(server="https://x", token="hidden", password="hidden", key=b"hidden")
    assert "hidden" not in repr(config)


def test_a_token_file_is_read_anew_after_a_while(tmp_path):
    now = [0.0]
    token = tmp_path / "token"
    token.write_text("one")
    credentials = Credentials(Config(server="https://x", token_file=token), clock=lambda: now[0])
    assert credentials.headers() == [("Authorization", "Bearer one")]
    token.write_text("two")
    assert credentials.headers() == [("Authorization", "Bearer one")]
    now[0] += 61
    assert credentials.headers() == [("Authorization", "Bearer two")]
    token.unlink()
    now[0] += 61
    assert credentials.headers() == [("Authorization", "Bearer two")]

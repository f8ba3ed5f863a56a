from __future__ import annotations

import base64
import json

import pytest

from dray.api.errors import BadRequest
from dray.server.storage import continue_token


def token(**content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def test_a_token_says_where_to_go_on():
    found = continue_token.decode_continue(continue_token.encode_continue("a/x\x00", 42))
    assert (found.start, found.revision) == ("a/x\x00", 42)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("garbage", "invalid character '\\u0081' looking for beginning of value"),
        ("***", "illegal base64 data at input byte 0"),
        ("a", "illegal base64 data"),
        (token(v="v9", rv=1, start="x"), "does not recognize this encoded version v9"),
        (token(v="meta.k8s.io/v1", rv=0, start="x"), "incorrect encoded start resourceVersion"),
        (token(v="meta.k8s.io/v1", rv=1, start=""), "encoded start key empty"),
        (token(v="meta.k8s.io/v1", rv=1, start="../secrets/x"), "continue key is not valid: ../secrets/x"),
        (token(v=1, rv="x"), "continue key is not valid"),
    ],
)
def test_a_bad_token_is_refused_with_the_reason(text, words):
    with pytest.raises(BadRequest) as refused:
        continue_token.decode_continue(text)
    assert refused.value.message.startswith("invalid continue token: continue key is not valid")
    assert words in refused.value.message


def test_an_expired_token_brings_one_that_goes_on_from_now():
    status = continue_token.ContinueExpired("a/x\x00").status()
    assert status["code"] == 410 and status["reason"] == "Expired"
    assert continue_token.decode_continue(status["metadata"]["continue"]) == ("a/x\x00", -1)

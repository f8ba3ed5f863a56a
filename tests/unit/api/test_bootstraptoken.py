"""Bootstrap tokens: their form, their Secrets, and what is signed and pinned with them."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import jwt
import pytest

from dray.api import bootstraptoken
from dray.api.bootstraptoken import Token

TOKEN = Token("abcdef", "0123456789abcdef")
Object = dict[str, Any]


def test_a_token_has_an_id_and_a_secret():
    assert bootstraptoken.parse("abcdef.0123456789abcdef") == TOKEN
    for wrong in ("", "abcdef", "abcdef.", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcde", f"{TOKEN} "):
        assert bootstraptoken.parse(wrong) is None


def test_a_secret_says_what_its_token_is_good_for_and_until_when():
    secret = bootstraptoken.secret(TOKEN, expiration="1970-01-01T00:01:40Z", groups="system:bootstrappers:x")
    assert secret["metadata"]["name"] == "bootstrap-token-abcdef"
    assert bootstraptoken.text(secret, "auth-extra-groups") == "system:bootstrappers:x"
    assert bootstraptoken.expires(secret) == 100
    assert bootstraptoken.token_of(secret, usage="signing", now=99) == TOKEN
    assert bootstraptoken.token_of(secret, usage="signing", now=100) is None
    assert bootstraptoken.expires(bootstraptoken.secret(TOKEN)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("token-id", "bbbbbb"),
        ("token-secret", ""),
        ("usage-bootstrap-signing", "yes"),
        ("expiration", "tomorrow"),
    ],
)
def test_a_secret_that_contradicts_itself_holds_no_token(key: str, value: str):
    secret: Object = bootstraptoken.secret(TOKEN)
    secret["data"][key] = base64.b64encode(value.encode()).decode()
    assert bootstraptoken.token_of(secret, usage="signing", now=0) is None


def test_other_secrets_hold_no_token():
    secret = bootstraptoken.secret(TOKEN)
    assert bootstraptoken.token_of({**secret, "type": "Opaque"}, usage="signing", now=0) is None
    assert bootstraptoken.token_of({**secret, "metadata": {"name": "else"}}, usage="signing", now=0) is None
    assert bootstraptoken.text({"data": {"a": "*"}}, "a") == ""


@pytest.mark.filterwarnings("ignore:The HMAC key is 16 bytes long")
def test_a_signature_is_a_json_web_signature_without_its_payload():
    content = "apiVersion: v1\nkind: Config\n"
    head, payload, tail = bootstraptoken.signature(content, TOKEN).split(".")
    assert payload == ""
    body = base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()
    read = jwt.api_jws.decode_complete(f"{head}.{body}.{tail}", TOKEN.secret, algorithms=["HS256"])
    assert read["header"] == {"alg": "HS256", "kid": "abcdef"}
    assert read["payload"] == content.encode()


def test_only_the_same_content_and_token_have_a_signature():
    signed = bootstraptoken.signature("a", TOKEN)
    assert bootstraptoken.is_signed("a", signed, TOKEN)
    assert not bootstraptoken.is_signed("b", signed, TOKEN)
    assert not bootstraptoken.is_signed("a", signed, Token("abcdef", "1123456789abcdef"))
    assert not bootstraptoken.is_signed("a", "", TOKEN)


def test_a_pin_is_the_hash_of_an_authoritys_public_key(authority: tuple[bytes, bytes]):
    pem, public = authority
    assert (
        bootstraptoken.pins(b"text before\n" + pem + pem)
        == ["sha256:" + hashlib.sha256(public).hexdigest()] * 2
    )
    assert bootstraptoken.pins(b"") == []


@pytest.fixture(scope="module")
def authority() -> tuple[bytes, bytes]:
    """A certificate in PEM and its public key in DER."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ca")])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return certificate.public_bytes(serialization.Encoding.PEM), public

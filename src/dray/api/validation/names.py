"""What names, labels and keys may look like. Each check answers with upstream's complaints; none means it is fine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from dray.api.textcache import cache_texts

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORE_LABEL: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN: Final = rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_ENV: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_PERCENT: Final = "[0-9]+%"
_HEADER: Final = "[-A-Za-z0-9]+"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_WILDCARD_SUBDOMAIN: Final = rf"\*\.{_SUBDOMAIN}"
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

LABEL_LENGTH: Final = 63
SUBDOMAIN_LENGTH: Final = 253

_Match = Callable[[str], object]
_label: Final[_Match] = re.compile(_LABEL).fullmatch
_subdomain: Final[_Match] = re.compile(_SUBDOMAIN).fullmatch
_caseless_subdomain: Final[_Match] = re.compile(_SUBDOMAIN, re.IGNORECASE | re.ASCII).fullmatch
_underscore_subdomain: Final[_Match] = re.compile(_UNDERSCORE_SUBDOMAIN).fullmatch
_label_1035: Final[_Match] = re.compile(_LABEL_1035).fullmatch
_key: Final[_Match] = re.compile(_KEY).fullmatch
_qualified: Final[_Match] = re.compile(f"(?:{_SUBDOMAIN}/)?(?:{_KEY})").fullmatch
_value: Final[_Match] = re.compile(_VALUE).fullmatch
_c_identifier: Final[_Match] = re.compile(_C_IDENTIFIER).fullmatch
_config_key: Final[_Match] = re.compile(_CONFIG_KEY).fullmatch
_env: Final[_Match] = re.compile(_ENV).fullmatch
_percent: Final[_Match] = re.compile(_PERCENT).fullmatch
_header: Final[_Match] = re.compile(_HEADER).fullmatch
_http_path: Final[_Match] = re.compile(_HTTP_PATH).fullmatch
_wildcard_subdomain: Final[_Match] = re.compile(_WILDCARD_SUBDOMAIN).fullmatch
_reason: Final[_Match] = re.compile(_REASON).fullmatch
_port_characters: Final[_Match] = re.compile("[-a-z0-9]+").fullmatch

_ALPHANUMERIC: Final = "and must start and end with an alphanumeric character"
_LABEL_WORDS: Final = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALPHANUMERIC}"
)
_SUBDOMAIN_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    + _ALPHANUMERIC
)
_CASELESS_WORDS: Final = (
    f"an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', {_ALPHANUMERIC}"
)
_UNDERSCORE_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    + _ALPHANUMERIC
)
_WILDCARD_WORDS: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)
_LABEL_1035_WORDS: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
_KEY_WORDS: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC}"
_VALUE_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    + _ALPHANUMERIC
)
_C_IDENTIFIER_WORDS: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_'"
)
_CONFIG_KEY_WORDS: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_ENV_WORDS: Final = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must "
    "not start with a digit"
)
_RELAXED_ENV_WORDS: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_PERCENT_WORDS: Final = "a valid percent string must be a numeric string followed by an ending '%'"
_HEADER_WORDS: Final = "a valid HTTP header must consist of alphanumeric characters or '-'"
_REASON_WORDS: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'"
)

NON_EMPTY: Final = "must be non-empty"


def regex_message(words: str, pattern: str, *examples: str) -> str:
    """The complaint about a text that does not match a pattern."""
    if not examples:
        return f"{words} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{words} (e.g. {shown}regex used for validation is '{pattern}')"


def length_message(limit: int, *, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def size(text: str) -> int:
    """Length in bytes, which is what Go counts."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def dns1123_label(value: str) -> Sequence[str]:
    if _label(value) and len(value) <= LABEL_LENGTH:
        return ()
    found = [length_message(LABEL_LENGTH)] if size(value) > LABEL_LENGTH else []
    if not _label(value):
        dotted = _subdomain(value) is not None
        found.append(
            "must not contain dots" if dotted else regex_message(_LABEL_WORDS, _LABEL, "my-name", "123-abc")
        )
    return found


def dns1123_subdomain(value: str) -> Sequence[str]:
    if _subdomain(value) and len(value) <= SUBDOMAIN_LENGTH:
        return ()
    return _limited(value, _subdomain, SUBDOMAIN_LENGTH, _SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com")


def dns1123_subdomain_caseless(value: str) -> Sequence[str]:
    """Allows upper case, as some old names do; the length is counted in bytes, and upstream says so."""
    if _caseless_subdomain(value) and len(value) <= SUBDOMAIN_LENGTH:
        return ()
    found = [length_message(SUBDOMAIN_LENGTH, unit="bytes")] if size(value) > SUBDOMAIN_LENGTH else []
    if not _caseless_subdomain(value):
        found.append(regex_message(_CASELESS_WORDS, _SUBDOMAIN, "Example.com"))
    return found


def dns1123_subdomain_with_underscore(value: str) -> Sequence[str]:
    return _limited(
        value,
        _underscore_subdomain,
        SUBDOMAIN_LENGTH,
        _UNDERSCORE_WORDS,
        _UNDERSCORE_SUBDOMAIN,
        "example.com",
    )


def wildcard_dns1123_subdomain(value: str) -> Sequence[str]:
    """``*.example.com``."""
    limit = SUBDOMAIN_LENGTH
    return _limited(value, _wildcard_subdomain, limit, _WILDCARD_WORDS, _WILDCARD_SUBDOMAIN, "*.example.com")


def dns1035_label(value: str) -> Sequence[str]:
    return _limited(value, _label_1035, LABEL_LENGTH, _LABEL_1035_WORDS, _LABEL_1035, "my-name", "abc-123")


def _limited(
    value: str, match: _Match, limit: int, words: str, pattern: str, *examples: str
) -> Sequence[str]:
    if match(value):
        return () if len(value) <= limit else (length_message(limit),)
    message = regex_message(words, pattern, *examples)
    return (message,) if size(value) <= limit else (length_message(limit), message)


@cache_texts(4096)  # the same few keys come with every object
def qualified_name(value: str) -> Sequence[str]:
    """A name with an optional DNS prefix, ``example.com/name``: what label keys, finalizers and the like must be."""
    prefix, slash, name = value.rpartition("/")
    if len(name) <= LABEL_LENGTH and len(prefix) <= SUBDOMAIN_LENGTH and _qualified(value):
        return ()
    if "/" in prefix:
        shape = regex_message(_KEY_WORDS, _KEY, "MyName", "my.name", "123-abc")
        return (
            f"a valid label key {shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    found: list[str] = []
    if slash and not prefix:
        found.append(f"prefix part {NON_EMPTY}")
    elif slash:
        found += [f"prefix part {words}" for words in _bytes(dns1123_subdomain(prefix))]
    if not name:
        found.append(f"name part {NON_EMPTY}")
    elif size(name) > LABEL_LENGTH:
        found.append(f"name part {length_message(LABEL_LENGTH, unit='bytes')}")
    if not _key(name):
        found.append(f"name part {regex_message(_KEY_WORDS, _KEY, 'MyName', 'my.name', '123-abc')}")
    return found


label_key = qualified_name


def _bytes(messages: Sequence[str]) -> list[str]:
    """Upstream counts prefixes in bytes where it counts whole subdomains in characters."""
    return [m.removesuffix(" characters") + " bytes" if m.endswith(" characters") else m for m in messages]


def label_value(value: str) -> Sequence[str]:
    if _value(value) and len(value) <= LABEL_LENGTH:
        return ()
    found = [length_message(LABEL_LENGTH, unit="bytes")] if size(value) > LABEL_LENGTH else []
    if not _value(value):
        found.append(regex_message(_VALUE_WORDS, _VALUE, "MyValue", "my_value", "12345"))
    return found


def c_identifier(value: str) -> Sequence[str]:
    if _c_identifier(value):
        return ()
    return (regex_message(_C_IDENTIFIER_WORDS, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName"),)


def config_map_key(value: str) -> Sequence[str]:
    examples = ("key.name", "KEY_NAME", "key-name")
    found = _limited(value, _config_key, SUBDOMAIN_LENGTH, _CONFIG_KEY_WORDS, _CONFIG_KEY, *examples)
    return [*found, *_dots(value)]


def env_var_name(value: str) -> Sequence[str]:
    found = (
        [] if _env(value) else [regex_message(_ENV_WORDS, _ENV, "my.env-name", "MY_ENV.NAME", "MyEnvName1")]
    )
    return found + _dots(value)


def relaxed_env_var_name(value: str) -> Sequence[str]:
    found = [] if value else [f"environment variable name {NON_EMPTY}"]
    if any(not " " <= c <= "~" or c == "=" for c in value):
        found.append(_RELAXED_ENV_WORDS)
    return found


def _dots(value: str) -> list[str]:
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def port_name(value: str) -> Sequence[str]:
    found: list[str] = []
    if size(value) > 15:
        found.append(length_message(15))
    if not _port_characters(value):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        found.append("must contain at least one letter (a-z)")
    if "--" in value:
        found.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def percent(value: str) -> Sequence[str]:
    return () if _percent(value) else (regex_message(_PERCENT_WORDS, _PERCENT, "1%", "93%"),)


def http_path(value: str) -> Sequence[str]:
    return () if _http_path(value) else (regex_message("Invalid path", _HTTP_PATH),)


def http_header_name(value: str) -> Sequence[str]:
    return () if _header(value) else (regex_message(_HEADER_WORDS, _HEADER, "X-Header-Name"),)


def condition_reason(value: str) -> Sequence[str]:
    if _reason(value):
        return ()
    examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
    return (regex_message(_REASON_WORDS, _REASON, *examples),)


def path_segment(value: str) -> Sequence[str]:
    """Names that need only be usable as one segment of a URL."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return path_segment_prefix(value)


def path_segment_prefix(value: str) -> Sequence[str]:
    return [f"may not contain '{c}'" for c in "/%" if c in value]

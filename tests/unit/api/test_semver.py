"""Semantic versions: parsing, order and the lenient form."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dray.api.semver import Version


def test_precedence_follows_the_specification() -> None:
    ordered = [
        "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
        "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0",
    ]  # fmt: skip
    versions = [Version.parse(text) for text in ordered]
    assert sorted(set(versions)) == versions
    assert all(a.compare(b) == -1 and b.compare(a) == 1 for a, b in pairwise(versions))


def test_build_metadata_is_printed_but_not_compared() -> None:
    a, b = Version.parse("1.2.3+a.b"), Version.parse("1.2.3+c")
    assert a == b and hash(a) == hash(b)
    assert str(a) == "1.2.3+a.b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        ("01.2.3", 'Major number must not contain leading zeroes "01"'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1.2.03", 'Patch number must not contain leading zeroes "03"'),
        ("1.2.", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("1.2.99999999999999999999", 'strconv.ParseUint: parsing "99999999999999999999": value out of range'),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+a!b", 'Invalid character(s) found in build meta data "a!b"'),
        ("1.2.3.4", 'Invalid character(s) found in patch number "3.4"'),
    ],
)
def test_refuses_with_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        Version.parse(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "strict"),
    [("v1", "1.0.0"), ("1.2", "1.2.0"), ("v01.02.03", "1.2.3"), ("0.00.0-rc1", "0.0.0-rc1")],
)
def test_lenient_parsing_mends_common_slips(text: str, strict: str) -> None:
    assert str(Version.parse_lenient(text)) == strict


def test_lenient_parsing_refuses_short_versions_with_prerelease() -> None:
    with pytest.raises(ValueError, match="short version cannot contain PreRelease/Build meta data"):
        Version.parse_lenient("1.2-rc1")

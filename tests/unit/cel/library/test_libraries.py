"""The function libraries, by example."""

from __future__ import annotations

import pytest

from dray.api.release import Release
from dray.cel.environment.base import base
from tests.support.cel import evaluate, failure, refusal


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'tacocat'.charAt(3)", "o"), ("'héllo'.indexOf('l', 3)", 3), ("'abcabc'.lastIndexOf('bc')", 4), ("'aXa'.lowerAscii()", "axa"),
        ("'a-b-c'.replace('-', '+', 1)", "a+b-c"), ("'abc'.split('')", ["a", "b", "c"]), ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
        ("'héllo'.substring(1, 3)", "él"), ("' x\\t'.trim()", "x"), ("['a', 'b'].join('-')", "a-b"), ("strings.quote('a\"b')", '"a\\"b"'),
        ("'%s is %d (%.2f, %x, %b, %o)'.format([dyn('a'), dyn(3), dyn(1234.5), dyn(255), dyn(5), dyn(8)])",
         "a is 3 (1,234.50, ff, 101, 10)"),
        ("'%e'.format([1052.032911275])", "1.052033\u202f×\u202f10⁰³"), ("'%s'.format([[1.5]])", "[1.500000]"),
        ("'%s'.format([{'b': 'x', 'a': 'y'}])", '{"a":"y", "b":"x"}'), ("'%s'.format([duration('90s')])", "90s"),
        ("[3, 1, 2].sort()", [1, 2, 3]), ("['aa', 'b'].sortBy(s, size(s))", ["b", "aa"]), ("[1, 2, 3].slice(1, 3)", [2, 3]),
        ("[[1], [2, 3]].flatten()", [1, 2, 3]), ("[1, [2, [3]]].map(x, dyn(x)).size()", None), ("lists.range(3)", [0, 1, 2]),
        ("[1, 2, 1].distinct()", [1, 2]), ("[1, 2].reverse()", [2, 1]), ("[1, 2, 3].sum()", 6), ("[2.5, 1.5].min()", 1.5),
        ("['a', 'b'].isSorted()", True), ("[1, 2, 1].lastIndexOf(1)", 2), ("[duration('1s')].sum() == duration('1s')", True),
        ("sets.contains([1, 2], [2])", True), ("sets.equivalent([1, 1], [1])", True), ("sets.intersects([1], [2])", False),
        ("'abc 123'.find('[0-9]+')", "123"), ("'a1b2'.findAll('[0-9]')", ["1", "2"]), ("'aaa'.findAll('a', 2)", ["a", "a"]),
        ("url('https://u@example.com:80/a%20b?x=1&x=2#f').getEscapedPath()", "/a%20b"),
        ("url('https://[::1]:80/p?a=b%20c').getHostname() + url('https://[::1]:80/p').getPort()", "::180"),
        ("url('https://example.com/?k=1&k=2').getQuery()", {"k": ["1", "2"]}), ("isURL('../relative')", False),
        ("ip('192.168.0.1').family()", 4), ("isIP('::ffff:1.2.3.4')", False), ("ip.isCanonical('2001:DB8::1')", False),
        ("ip('fe80::1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast()", True),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", True), ("cidr('10.0.0.0/8').containsCIDR('10.0.0.0/16')", True),
        ("string(cidr('10.1.2.3/8').masked())", "10.0.0.0/8"), ("cidr('::/0').prefixLength()", 0), ("isCIDR('10.0.0.0/33')", False),
        ("string(ip('::1'))", "::1"), ("type(ip('::1')) == net.IP", True),
        ("quantity('1.5Gi').isGreaterThan(quantity('1Gi'))", True), ("quantity('50k').asInteger()", 50000), ("sign(quantity('-1'))", -1),
        ("quantity('1Gi').sub(quantity('512Mi')) == quantity('512Mi')", True), ("isQuantity('1GB')", False),
        ("quantity('1500m').asApproximateFloat()", 1.5), ("quantity('200M').isInteger()", True),
        ("semver('1.2.3').isLessThan(semver('1.10.0'))", True), ("semver('v1.2', true).minor()", 2), ("isSemver('1.2')", False),
        ("format.dns1123Label().validate('ok').hasValue()", False), ("format.named('date').value().validate('2020-02-30').hasValue()", True),
        ("format.named('nope').hasValue()", False), ("format.uuid() == format.uuid()", True),
        ("format.qualifiedName().validate('a/b/c').hasValue()", True),
    ],
)  # fmt: skip
def test_functions_give_upstreams_answers(expression: str, value: object) -> None:
    if value is None:
        assert "expected type" in refusal(expression)
    else:
        assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'abc'.charAt(9)", "index out of range: 9"), ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"), ("[1].slice(-1, 1)", "cannot slice(-1, 1), negative indexes not supported"),
        ("[1].filter(x, false).max()", "max called on empty list"), ("quantity('1.5').asInteger()", "cannot convert value to integer"),
        ("url('foo')", 'URL parse error during conversion from string: parse "foo": invalid URI for request'),
        ("url('http://a b')", 'URL parse error during conversion from string: parse "http://a b": invalid character " " in host name'),
        ("ip('1.2.3')", 'IP Address "1.2.3" parse error during conversion from string: ParseAddr("1.2.3"): IPv4 address too short'),
        ("ip('1.2.3.04')",
         'IP Address "1.2.3.04" parse error during conversion from string: ParseAddr("1.2.3.04"): IPv4 field has octet with leading zero'),
        ("ip('1::2::3')",
         'IP Address "1::2::3" parse error during conversion from string: ParseAddr("1::2::3"): multiple :: in address (at ":3")'),
        ("ip('fe80::1%eth0')", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("cidr('10.0.0.0')",
         "network address parse error during conversion from string: network address parse error during conversion from string: "
         "netip.ParsePrefix(\"10.0.0.0\"): no '/'"),
        ("'a'.find(string(['['].join()))", "Illegal regex: error parsing regexp: missing closing ]: `[`"),
        (r"'a'.find(string(['\\C'].join()))", r"Illegal regex: error parsing regexp: invalid escape sequence: `\C`"),
    ],
)  # fmt: skip
def test_failures_have_upstreams_words(expression: str, message: str) -> None:
    assert failure(expression) == message


@pytest.mark.parametrize(
    ("release", "expression"),
    [
        ((1, 27), "quantity('1') == quantity('1')"), ((1, 28), "sets.contains([1], [1])"), ((1, 29), "isIP('::1')"),
        ((1, 30), "format.uuid() == format.uuid()"), ((1, 31), "[1].all(i, v, true)"), ((1, 32), "isSemver('1.2.3')"),
        ((1, 33), "lists.range(1) == [0]"), ((1, 27), "{'a': 1}.?a.hasValue()"),
    ],
)  # fmt: skip
def test_a_function_is_there_from_the_release_that_introduced_it(
    release: tuple[int, int], expression: str
) -> None:
    before, since = base(Release(*release)), base(Release(release[0], release[1] + 1))
    assert refusal(expression, before)
    assert evaluate(expression, since) is True

"""What the grammar takes, and the words for what it does not."""

from __future__ import annotations

import pytest

from dray.cel.common.ast import Call, Literal, Node
from dray.cel.common.recursion import with_deep_stack
from dray.cel.common.source import Source
from dray.cel.common.values import UInt
from dray.cel.parser.lexer import bytes_value, string_value
from dray.cel.parser.macros import STANDARD
from dray.cel.parser.parser import parse

OPERAND = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"


def parsed(text: str) -> Node:
    node = with_deep_stack(parse, text, STANDARD)
    assert not isinstance(node, list), node
    return node


def problems(text: str) -> str:
    found = with_deep_stack(parse, text, STANDARD)
    assert isinstance(found, list)
    return Source(text).render(found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-9223372036854775808", -(2**63)), ("0x1F", 31), ("7u", UInt(7)), ("1.5e3", 1500.0), (".5", 0.5),
        ("'a\\u00e9\\n'", "aé\n"), ('r"\\n"', "\\n"), ("'''a\nb'''", "a\nb"), ("b'\\xff\\101'", b"\xffA"), ("b'é'", "é".encode()),
        ("true", True), ("null", None), ("--5", 5),
    ],
)  # fmt: skip
def test_literals_stand_for_their_values(text: str, value: object) -> None:
    node = parsed(text)
    assert isinstance(node, Literal)
    assert node.value == value and type(node.value) is type(value)


def test_operators_bind_as_the_grammar_says() -> None:
    def shape(node: Node) -> object:
        return (
            (node.function, *map(shape, node.args)) if isinstance(node, Call) else getattr(node, "value", "?")
        )

    assert shape(parsed("1 + 2 * 3 - 4")) == ("_-_", ("_+_", 1, ("_*_", 2, 3)), 4)
    assert shape(parsed("1 < 2 == true")) == ("_==_", ("_<_", 1, 2), True)
    assert shape(parsed("true || false && true ? 1 : 2 ")) == (
        "_?_:_",
        ("_||_", True, ("_&&_", False, True)),
        1,
        2,
    )


def test_chains_of_logic_become_trees_of_little_depth() -> None:
    node = parsed("&&".join(["true"] * 1024))
    depth = 0
    while isinstance(node, Call):
        node, depth = node.args[0], depth + 1
    assert depth == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {OPERAND}"),
        ("a.(", "ERROR: <input>:1:3: Syntax error: no viable alternative at input '.('\n | a.(\n | ..^"),
        ("(1", "ERROR: <input>:1:3: Syntax error: missing ')' at '<EOF>'\n | (1\n | ..^"),
        ("1 2", "ERROR: <input>:1:3: Syntax error: extraneous input '2' expecting <EOF>\n | 1 2\n | ..^"),
        ("x.true", "ERROR: <input>:1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER\n | x.true\n | ..^"),
        ("for", "ERROR: <input>:1:1: reserved identifier: for\n | for\n | ^"),
        ("9223372036854775808", "ERROR: <input>:1:1: invalid int literal\n | 9223372036854775808\n | ^"),
        ("has(a)", "ERROR: <input>:1:5: invalid argument to has() macro\n | has(a)\n | ....^"),
        ("[1].all(1, true)", "ERROR: <input>:1:9: argument must be a simple name\n | [1].all(1, true)\n | ........^"),
        ("a\n+ $", "ERROR: <input>:2:3: Syntax error: token recognition error at: '$'\n | + $\n | ..^\n"
         f"ERROR: <input>:2:4: Syntax error: mismatched input '<EOF>' expecting {OPERAND}\n | + $\n | ...^"),
        ("'é' 1", "ERROR: <input>:1:5: Syntax error: extraneous input '1' expecting <EOF>\n | 'é' 1\n | .\uff0e..^"),
    ],
)  # fmt: skip
def test_what_the_grammar_refuses_is_worded_as_upstream_does(text: str, message: str) -> None:
    assert problems(text) == message


def test_several_syntax_errors_are_reported_at_once() -> None:
    assert problems("f(,) + [1,,2]").count("ERROR") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 250 + "1" + ")" * 250, "expression recursion limit exceeded: 250"),
        ("1+" * 300 + "1", "max recursion depth exceeded"),
        ("a" + ".b" * 251, "max recursion depth exceeded"),
    ],
)
def test_nesting_has_upstreams_limits(text: str, message: str) -> None:
    assert problems(text) == f"ERROR: <input>:-1:0: {message}"


def test_nesting_up_to_the_limits_is_taken() -> None:
    parsed("(" * 249 + "1" + ")" * 249)
    parsed("1+" * 250 + "1")


def test_string_literals_name_valid_code_points() -> None:
    assert string_value("'\\U0001F600'") == "😀"
    with pytest.raises(ValueError, match="invalid unicode code point"):
        string_value("'\\ud800'")
    with pytest.raises(ValueError, match="unable to unescape string"):
        bytes_value("'\\u0041'")

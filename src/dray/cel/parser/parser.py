"""Tokens to tree. What the grammar refuses is worded by ``antlr``; what it lets pass but CEL does not, here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dray.api.validation.expressions import RESERVED
from dray.cel.common.ast import Call, Entry, Field, Ident, ListNode, Literal, MapNode, Message, Node, Select
from dray.cel.common.source import Issue
from dray.cel.parser import literals
from dray.cel.parser.antlr.recovery import diagnose
from dray.cel.parser.lexer import EOF, Token, UnknownToken, tokenize
from dray.cel.parser.macros import ANY_NUMBER, Macro, MacroError, MacroKey

MAX_DEPTH: Final = 250
MAX_CODE_POINTS: Final = 100_000
_RELATIONS: Final = {
    "<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "==": "_==_", "!=": "_!=_", "in": "@in",
}  # fmt: skip
_PRODUCTS: Final = {"*": "_*_", "/": "_/_", "%": "_%_"}
_SUMS: Final = {"+": "_+_", "-": "_-_"}


class _Refused(Exception):
    """The tokens do not fit the grammar."""


class _TooDeep(Exception):
    """Nested beyond what upstream takes."""


def parse(
    text: str, macros: Mapping[MacroKey, Macro], *, optional_syntax: bool = True, escaped_names: bool = False
) -> Node | list[Issue]:
    """The tree of an expression, or everything that is wrong with it."""
    if len(text) > MAX_CODE_POINTS:
        size = f"size: {len(text)}, limit {MAX_CODE_POINTS}"
        return [Issue(None, f"expression code point size exceeds limit: {size}")]
    try:
        parser = _Parser(tokenize(text), macros, optional_syntax=optional_syntax, escaped_names=escaped_names)
        node = parser.start()
    except (_Refused, UnknownToken):
        return diagnose(text, max_depth=MAX_DEPTH)
    except _TooDeep as deep:
        return [Issue(None, str(deep))]
    return parser.issues or node


class _Parser:
    def __init__(
        self,
        tokens: list[Token],
        macros: Mapping[MacroKey, Macro],
        *,
        optional_syntax: bool,
        escaped_names: bool,
    ) -> None:
        self.tokens = tokens
        self.macros = macros
        self.optional_syntax = optional_syntax
        self.escaped_names = escaped_names
        self.issues: list[Issue] = []
        self.position = 0
        self.kind = tokens[0][0]
        # How deep the rules that can nest are entered, and how deep the tree is, in upstream's counting.
        self.expressions = 0
        self.relations = 0
        self.sums = 0
        self.heights: dict[int, int] = {}
        self.counted: list[Node] = []

    def start(self) -> Node:
        node = self.expression()
        if self.kind != EOF:
            raise _Refused
        return node

    # Tokens

    def advance(self) -> Token:
        token = self.tokens[self.position]
        self.position += 1
        self.kind = self.tokens[self.position][0]
        return token

    def expect(self, kind: str) -> Token:
        if self.kind != kind:
            raise _Refused
        if kind == EOF:
            return self.tokens[self.position]
        return self.advance()

    def issue(self, offset: int, message: str) -> Node:
        self.issues.append(Issue(offset, message))
        return Literal(offset, None)

    # Nesting

    def _enter(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _TooDeep(f"expression recursion limit exceeded: {MAX_DEPTH}")

    def _nest(self, node: Node, *parts: Node) -> Node:
        """Note a node's height, counting only the kinds upstream's tree visitor counts."""
        heights = self.heights
        height = 1 + max([heights.get(id(part), 0) for part in parts], default=0)
        if height > MAX_DEPTH:
            raise _TooDeep("max recursion depth exceeded")
        heights[id(node)] = height
        # Heights go by identity, so what has one must live as long as the parser.
        self.counted.append(node)
        return node

    def _carry(self, node: Node, parts: list[Node]) -> Node:
        """Pass the height of the parts on to a node that does not count itself."""
        heights = self.heights
        height = max([heights.get(id(part), 0) for part in parts], default=0)
        if height:
            heights[id(node)] = height
            self.counted.append(node)
        return node

    # Grammar

    def expression(self) -> Node:
        self.expressions += 1
        self._enter(self.expressions)
        node = self.disjunction()
        if self.kind == "?":
            offset = self.advance()[2]
            then = self.disjunction()
            self.expect(":")
            otherwise = self.expression()
            node = self._nest(
                self.call(offset, "_?_:_", None, [node, then, otherwise]), node, then, otherwise
            )
        self.expressions -= 1
        return node

    def disjunction(self) -> Node:
        terms = [self.conjunction()]
        offsets: list[int] = []
        while self.kind == "||":
            offsets.append(self.advance()[2])
            terms.append(self.conjunction())
        return terms[0] if not offsets else self._balanced("_||_", terms, offsets, 0, len(offsets) - 1)

    def conjunction(self) -> Node:
        terms = [self.relation()]
        offsets: list[int] = []
        while self.kind == "&&":
            offsets.append(self.advance()[2])
            terms.append(self.relation())
        return terms[0] if not offsets else self._balanced("_&&_", terms, offsets, 0, len(offsets) - 1)

    def _balanced(self, function: str, terms: list[Node], offsets: list[int], low: int, high: int) -> Node:
        """A chain of the same logical operator as a tree of little depth, split where upstream splits it."""
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else self._balanced(function, terms, offsets, low, middle - 1)
        right = (
            terms[middle + 1]
            if middle == high
            else self._balanced(function, terms, offsets, middle + 1, high)
        )
        return self._carry(Call(offsets[middle], function, None, [left, right]), [left, right])

    def relation(self) -> Node:
        self.relations += 1
        self._enter(self.relations)
        node = self.sum()
        while self.kind in _RELATIONS:
            _, word, offset = self.advance()
            self.relations += 1
            self._enter(self.relations)
            right = self.sum()
            self.relations -= 1
            node = self._nest(Call(offset, _RELATIONS[word], None, [node, right]), node, right)
        self.relations -= 1
        return node

    def sum(self) -> Node:
        self.sums += 1
        self._enter(self.sums)
        node = self.product(self.unary())
        while self.kind in _SUMS:
            _, word, offset = self.advance()
            self.sums += 1
            self._enter(self.sums)
            right = self.product(self.unary())
            self.sums -= 1
            node = self._nest(Call(offset, _SUMS[word], None, [node, right]), node, right)
        self.sums -= 1
        return node

    def product(self, node: Node) -> Node:
        while self.kind in _PRODUCTS:
            _, word, offset = self.advance()
            self.sums += 1
            self._enter(self.sums)
            right = self.unary()
            self.sums -= 1
            node = self._nest(Call(offset, _PRODUCTS[word], None, [node, right]), node, right)
        return node

    def unary(self) -> Node:
        kind = self.kind
        if kind == "!":
            return self._repeated("!", "!_")
        if kind == "-" and self.tokens[self.position + 1][0] not in literals.NUMBERS:
            return self._repeated("-", "-_")
        return self.member()

    def _repeated(self, operator: str, function: str) -> Node:
        offset = self.tokens[self.position][2]
        count = 0
        while self.kind == operator:
            self.advance()
            count += 1
        operand = self.member()
        if count % 2 == 0:
            return operand
        return self._carry(Call(offset, function, None, [operand]), [operand])

    def member(self) -> Node:
        node = self.primary()
        while True:
            kind = self.kind
            if kind == ".":
                node = self._select(node)
            elif kind == "[":
                node = self._index(node)
            else:
                return node

    def _select(self, operand: Node) -> Node:
        dot = self.advance()[2]
        optional = self.kind == "?"
        if optional:
            self.advance()
        if self.kind == "ESC_IDENTIFIER":
            _, word, offset = self.advance()
            if not self.escaped_names:
                return self.issue(offset, "unsupported syntax: '`'")
            name = word[1:-1]
        else:
            _, name, offset = self.expect("IDENTIFIER")
            if self.kind == "(" and not optional:
                opening = self.advance()[2]
                args = self.arguments()
                return self._nest(self.call(opening, name, operand, args), operand, *args)
        if optional:
            if not self.optional_syntax:
                return self.issue(dot, "unsupported syntax '.?'")
            return self._nest(Call(dot, "_?._", None, [operand, Literal(offset, name)]), operand)
        return self._nest(Select(dot, operand, name), operand)

    def _index(self, operand: Node) -> Node:
        opening = self.advance()[2]
        optional = self.kind == "?"
        if optional:
            self.advance()
        key = self.expression()
        self.expect("]")
        if optional and not self.optional_syntax:
            return self.issue(opening, "unsupported syntax '[?'")
        function = "_[?_]" if optional else "_[_]"
        return self._nest(Call(opening, function, None, [operand, key]), operand, key)

    def primary(self) -> Node:
        kind, _, offset = self.tokens[self.position]
        if kind == "IDENTIFIER":
            return self._named(offset, "")
        if kind in literals.KINDS:
            return self._literal()
        if kind == "-" or kind in literals.NUMBERS:
            return self._number()
        match kind:
            case "(":
                self.advance()
                node = self.expression()
                self.expect(")")
                return node
            case "[":
                return self._list()
            case "{":
                return self._map()
            case ".":
                self.advance()
                if self.kind != "IDENTIFIER":
                    raise _Refused
                return self._named(offset, ".")
        raise _Refused

    def _named(self, start: int, prefix: str) -> Node:
        _, name, offset = self.advance()
        if self.kind == "(":
            opening = self.advance()[2]
            args = self.arguments()
            if name in RESERVED:
                return self.issue(start, f"reserved identifier: {name}")
            return self._carry(self.call(opening, prefix + name, None, args), args)
        if self.kind == "{" or self.kind == ".":
            message = self._message(prefix + name)
            if message is not None:
                return message
        if name in RESERVED:
            return self.issue(start, f"reserved identifier: {name}")
        return Ident(offset, prefix + name)

    def _message(self, name: str) -> Node | None:
        """``a.b.C{…}`` if the tokens ahead are that."""
        ahead = self.position
        tokens = self.tokens
        while tokens[ahead][0] == "." and tokens[ahead + 1][0] == "IDENTIFIER":
            name += "." + tokens[ahead + 1][1]
            ahead += 2
        if tokens[ahead][0] != "{":
            return None
        self.position = ahead
        offset = self.advance()[2]
        fields: list[Field] = []
        for _ in self._parts("}"):
            optional = self.kind == "?"
            start = self.tokens[self.position][2]
            if optional:
                self.advance()
            if self.kind == "ESC_IDENTIFIER":
                word = self.advance()[1][1:-1]
                if not self.escaped_names:
                    self.issue(start, "unsupported syntax: '`'")
            else:
                word = self.expect("IDENTIFIER")[1]
            colon = self.expect(":")[2]
            if optional and not self.optional_syntax:
                self.issue(start, "unsupported syntax '?'")
            fields.append(Field(colon, word, self.expression(), optional=optional))
        return self._carry(Message(offset, name, fields), [field.value for field in fields])

    def _list(self) -> Node:
        offset = self.advance()[2]
        elements: list[Node] = []
        optional: list[int] = []
        for _ in self._parts("]"):
            if self._optional():
                optional.append(len(elements))
            elements.append(self.expression())
        return self._carry(ListNode(offset, elements, frozenset(optional)), elements)

    def _map(self) -> Node:
        offset = self.advance()[2]
        entries: list[Entry] = []
        for _ in self._parts("}"):
            optional = self._optional()
            key = self.expression()
            colon = self.expect(":")[2]
            entries.append(Entry(colon, key, self.expression(), optional=optional))
        parts = [part for entry in entries for part in (entry.key, entry.value)]
        return self._carry(MapNode(offset, entries), parts)

    def _parts(self, closing: str) -> Iterator[None]:
        """Comes once to each part up to the closing token; a comma may stand before that."""
        while self.kind != closing and self.kind != ",":
            yield
            if self.kind != "," or self.tokens[self.position + 1][0] == closing:
                break
            self.advance()
        if self.kind == ",":
            self.advance()
        self.expect(closing)

    def _optional(self) -> bool:
        """Whether the next part has a question mark, which is passed."""
        if self.kind != "?":
            return False
        mark = self.advance()[2]
        if not self.optional_syntax:
            self.issue(mark, "unsupported syntax '?'")
        return True

    def arguments(self) -> list[Node]:
        args: list[Node] = []
        if self.kind != ")":
            args.append(self.expression())
            while self.kind == ",":
                self.advance()
                args.append(self.expression())
        self.expect(")")
        return args

    def call(self, offset: int, function: str, target: Node | None, args: list[Node]) -> Node:
        """A call, or what the macro of that name and shape makes of it."""
        member = target is not None
        macro = self.macros.get(MacroKey(function, len(args), member)) or self.macros.get(
            MacroKey(function, ANY_NUMBER, member)
        )
        if macro is not None:
            try:
                expanded = macro(offset, target, args)
            except MacroError as wrong:
                return self.issue(wrong.node.offset, wrong.message)
            if expanded is not None:
                return expanded
        return Call(offset, function, target, args)

    # Literals

    def _literal(self) -> Node:
        kind, word, offset = self.advance()
        try:
            return Literal(offset, literals.read(kind, word))
        except ValueError as wrong:
            return self.issue(offset, str(wrong))

    def _number(self) -> Node:
        offset = self.tokens[self.position][2]
        negative = self.kind == "-"
        if negative:
            self.advance()
        if self.kind not in literals.NUMBERS:
            raise _Refused
        kind, word, _ = self.advance()
        try:
            return Literal(offset, literals.read_number(kind, word, negative=negative))
        except ValueError as wrong:
            return self.issue(offset, str(wrong))
